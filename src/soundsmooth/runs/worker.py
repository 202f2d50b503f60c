"""A worker: it holds a model, says what is to be promised of it, and votes. Where it lives is its pool's business.

It is told the key and the images it votes on; neither the seed nor the store ever come near it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from ..certification.settings import Settings
from ..core.grid import Levels
from ..core.machine import processor
from ..independence.check import check_first, check_rows
from ..independence.measure import Rehearsal, check_measurable, rehearse
from ..independence.notice import MissingProof, unproved
from ..models import Identity
from ..models.environment import environment
from ..noise import Law
from ..smoothing.classifier import Smoothing, voting_batch
from ..smoothing.job import VotingJob
from .tasks import CleanVotes, Image, Outcome, Task
from .voter import Voter

#: What the promise says instead of a kind of device when several may take part.
MIXED = "mixed"
#: Software that chooses the kernels.
KERNELS = ("soundsmooth", "numpy", "onnxruntime", "torch")


class WorkerKind(NamedTuple):
    """What decides how a forward pass rounds, beyond what the promise fixes."""

    device: str
    processor: str
    """Its make, where it computes votes, be it those of rows alone; else "any"."""
    software: str

    def __str__(self) -> str:
        return f"{self.device}, {self.processor} processor, {self.software}"


@dataclass(frozen=True)
class ModelSurvey:
    """What a worker finds out about the model, so that the promise can be made by somebody who cannot load it."""

    identity: Identity
    law: Law
    batch: int
    kind: WorkerKind
    """The kind of this worker: all must have it, unless the promise says `mixed`."""
    environment: Mapping[str, str]
    check: bool = False
    """Whether the rows are to be checked before the run."""
    unproved: MissingProof | None = None
    """Why there is no proof, if one was looked for in vain."""
    classes: int | None = None
    """How many classes the model votes for, if it tells before it votes."""
    slower: str | None = None
    """That what votes takes longer than the model as it was given, if that was seen."""
    chosen: str | None = None
    """How the model runs, if that was chosen by measuring."""
    artifact: bytes | None = field(default=None, repr=False)
    """The model's kernels, if they were chosen by timing."""


class WorkerReady(NamedTuple):
    """A worker that is ready to vote, and how many tasks it begins before it finishes the first."""

    kind: WorkerKind
    ahead: int


class Worker:
    """What a pool calls, in order, one call at a time."""

    def __init__(self, load: Callable[[], Smoothing], replica: int = 0) -> None:
        """`load` makes the smoothed classifier, of which this worker uses one replica."""
        self._load, self._number = load, replica
        self._smoothing: Smoothing | None = None
        self._voter: Voter | None = None

    def survey(self, images: Sequence[Levels], settings: Settings, count: int) -> ModelSurvey:
        """Reject what cannot work, and say what is to be promised. A few of the `count` images that are expected are
        enough for that.
        """
        smoothing = self._loaded()
        identity = smoothing.survey(images[0], settings, count)
        if identity.independence.measured:
            check_measurable(settings)
        recorded = environment(identity.kind) | {"noise made on": smoothing.made} | identity.recorded
        batch = smoothing.batch_of(images[0].shape, settings)
        check = check_first(smoothing.model, identity)
        why = unproved(smoothing.model)
        model, kind = smoothing.model, kind_of(identity)
        known = (model.classes, model.slower, model.chosen, model.artifact)
        return ModelSurvey(identity, smoothing.law, batch, kind, recorded, check, why, *known)

    def check(self, images: Sequence[Levels], settings: Settings) -> int | None:
        """Reject a model whose rows are seen to depend on each other; its classes, if it tells. After `survey`."""
        smoothing = self._loaded()
        replica, batch = smoothing.replicas[0], smoothing.batch_of(images[0].shape, settings)
        check_rows(replica.model, replica.sampler, images, min(batch, settings.n))
        return replica.model.classes

    def rehearse(self, images: Sequence[Levels]) -> Rehearsal:
        """How rows alone are voted; a ValueError if they cannot be. After `survey`."""
        return rehearse(self._loaded().replicas[0], images[0].shape)

    def begin(self, job: VotingJob, keep: int | None) -> WorkerReady:
        """Get ready to vote, unless the model is not the promised one."""
        replica = self._loaded().replicas[self._number]
        replica.model.run_as(job.identity.flags.get("compile", "none"), job.artifact)
        replica.model.prepare(job.shape, voting_batch(replica.model, job.batch, job.settings))
        identity = replica.model.identity()
        own = replace(job, identity=identity) if job.identity.device == MIXED else job
        if replace(identity, device=job.identity.device) != job.identity:
            raise ValueError(f"a worker's model is not the promised one: {_difference(job.identity, identity)}")
        if identity.device != own.identity.device:
            raise ValueError(
                f"the workers are of different kinds: promised is {own.identity.device}, one has {identity.device}; "
                "leave those nodes out, or begin a run with --allow-mixed"
            )
        self.close()
        self._voter = Voter(own, replica, keep)
        return WorkerReady(kind_of(identity), self._voter.ahead)

    def give(self, task: Task, *images: Image) -> list[Outcome]:
        """Vote on a task, on the image of each part; images are arguments, so that a cluster can fetch them."""
        assert self._voter is not None
        return [_compact(outcome) for outcome in self._voter.give(task, images)]

    def rest(self) -> list[Outcome]:
        """The outcome of the oldest task that was begun: a GPU goes on with the others meanwhile."""
        assert self._voter is not None
        return [_compact(outcome) for outcome in islice(self._voter.rest(), 1)]

    def clean(self, images: Sequence[Levels]) -> CleanVotes:
        assert self._voter is not None
        return self._voter.clean(images)

    def idle(self) -> float:
        """Do nothing, so that the cost of a call can be measured; the processor time that this process has taken."""
        return time.process_time()

    def close(self) -> None:
        if self._voter is not None:
            self._voter.close()
            self._voter = None

    def _loaded(self) -> Smoothing:
        if self._smoothing is None:
            self._smoothing = self._load()
        return self._smoothing


def _compact(outcome: Outcome) -> Outcome:
    """The same votes in fewer bytes, for the way back."""
    if not isinstance(outcome.votes, tuple) or outcome.votes[0].classes > np.iinfo(np.int16).max:
        return outcome
    return outcome._replace(votes=tuple(each._replace(labels=each.labels.astype(np.int16)) for each in outcome.votes))


def kind_of(identity: Identity) -> WorkerKind:
    """The kind of worker that a model with this identity has here."""
    found = environment()
    software = " ".join(f"{name}={found[name]}" for name in KERNELS if name in found)
    computes = identity.device == "cpu" or identity.independence.measured
    return WorkerKind(identity.device, processor() if computes else "any", software)


def _difference(promised: Identity, found: Identity) -> str:
    """The first field that differs, and what to do about it."""
    old, new = vars(promised), vars(found)
    name = next(name for name in old if name != "device" and old[name] != new[name])
    advice = {
        "digest": "; its file or its code differs there (a class that is defined in the script that was started "
        "must be moved to a module that the workers can import)"
    }.get(name, "")
    return f"{name} {_short(old[name])} -> {_short(new[name])}{advice}"


def _short(value: object) -> str:
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else text
