"""A naive measurement of independence, which votes on rows again alone, and the verdict on its certificates.

Such a certificate is about the classifier that sees one row in its life. Its votes in batches do not matter.
"""

import multiprocessing
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from multiprocessing.connection import Connection

import numpy as np

from ...certification.certify import Counts, Measurement
from ...core.decimals import truncated
from ...core.grid import IMAGES
from ...noise import Purpose
from .certifiers import (
    Answer,
    Array,
    Certifier,
    CertifierTask,
    MakeScores,
    Ours,
    Procedure,
    Refused,
    Scores,
    answer_from,
    exact_noise,
    values,
)
from .contradicting_pairs import judge
from .trial import Finding, Trial

#: The number of rows that are voted on again.
AGAIN = 100
#: The image that is certified.
A = np.full((1, 4, 4), 128)
K = 6
SINGLE = np.dtype("float32")


def certify_naively(make: MakeScores, classes: int, x: Array, task: CertifierTask) -> Answer:
    """Exact noise and our own bound; only the measurement is naive.

    After the votes a fresh process makes the model from a pickle of it. All rows wait on one pipe. Each is read, and
    voted on, by a forked process of its own.
    """
    if not hasattr(os, "fork"):
        raise Refused("this operating system does not fork processes")
    model, (selection, copies) = make(SINGLE), noisy_copies(x, task)
    counts0, labels = counted(labels_of(model, selection), classes), labels_of(model, copies)
    drawn = np.random.default_rng().integers(task.n, size=AGAIN)
    lost = (labels[drawn] == counts0.top) & (votes_alone(model, copies[drawn]) != counts0.top)
    return answer_from(counts0, counted(labels, classes), task, Measurement(AGAIN, int(lost.sum())))


NAIVE = Procedure("naive-measured", certify_naively)


def noisy_copies(x: Array, task: CertifierTask) -> tuple[Array, Array]:
    """For selection and for estimation, as the model sees them."""
    draw, lowest, highest = exact_noise(task.sigma, K), -K * IMAGES.q, (K + 1) * IMAGES.q
    asked = ((Purpose.SELECTION, task.n0), (Purpose.ESTIMATION, task.n))
    one, other = (np.clip(x + draw(x, purpose, 0, n), lowest, highest) for purpose, n in asked)
    return values(one, SINGLE), values(other, SINGLE)


def labels_of(model: Scores, rows: Array) -> Array:
    """The votes of one batch."""
    return np.asarray(np.asarray(model(rows)).argmax(axis=1))


def counted(labels: Array, classes: int) -> Counts:
    return Counts(tuple(np.bincount(labels, minlength=classes).tolist()), 0)


def votes_alone(model: Scores, rows: Array) -> Array:
    """The votes of rows, each in a process of its own."""
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, pickle.dumps(model)), daemon=True)
    process.start()
    theirs.close()
    for what in (len(rows), *rows):
        pipe.send(what)
    votes = np.array([pipe.recv() for _ in rows])
    process.join()
    return votes


def _serve(pipe: Connection, pickled: bytes) -> None:
    """In the fresh process: for every row a child, which reads it from the pipe and answers there."""
    model = pickle.loads(pickled)
    for _ in range(pipe.recv()):
        child = os.fork()
        if not child:
            pipe.send(int(labels_of(model, pipe.recv()[np.newaxis])[0]))
            os._exit(0)
        os.waitpid(child, 0)


def measuring(certifiers: list[Certifier]) -> list[Certifier]:
    """The certifiers that vote again on rows alone: the naive one, and ours if it is among these."""
    ours = [replace(one, independence="measured", again=AGAIN) for one in certifiers if isinstance(one, Ours)]
    return [NAIVE, *ours]


def never_alone(entry: str, certifier: Certifier, model: Callable[[], Scores], task: CertifierTask, note: str) -> Trial:
    """FALSE (point) where class 1 is certified at a, for a model that never says class 1 of a row alone.

    The point is a itself: its class is 0, by construction.
    """
    try:
        found = certifier.certify(lambda dtype: model(), 2, A, task)
    except Refused as refusal:
        return Trial(entry, certifier.name, Finding.REFUSED, note=str(refusal))
    truth = Answer(0, 0.0, 1.0, ())
    said = f"{note}: p ≥ {truncated(found.p_lower, 4)}, where class 1 has p = 0 on a row alone"
    return Trial(entry, certifier.name, judge(found, truth, Fraction(0)), found.radius, 0.0, (found.counts,), said)
