"""Proposition 4.1: a classifier with a certified radius of 3 at every test image, and one perturbation that flips all.

M(x) = 1 iff H_{X1}(x) = 1, or H_{X0}(x) = 0 and x_1 > 127/255: images that were remembered get their class, whatever
the noise, and anything else is judged by its first pixel. So one level less everywhere is enough to be forgotten, and
240 levels in the first pixel turn the rest: p = (±240, −1, −1, …)/255 has ‖p‖₂ < 1. It is kept on the grid here (the
first pixel clamped, black ones left), and the distance is that of the point really used. Where noise is added
in integers nothing is remembered; the first pixel decides everywhere, and its honest radius is below 0.5.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from ...exact import clopper_pearson_below, radius_below
from ..certifiers import Answer, Array, Certifier, MakeScores, Refused, Scores, Task, one_hot, values
from ..entry import Options
from ..images import load_images
from ..membership import Memory
from ..points import Pair, judge
from ..trial import Finding, Trial

CLAIM = "M of Proposition 4.1 at σ = 1: radius 3 at every test image, and p with ‖p‖₂ < 1 on the grid flips them all"
SIGMA = Fraction(1)
MOST = 500  # images remembered of each class
SHOWN = 10  # of each class; all, if n is given
COPIES = 6000  # radius 3 needs 5114, all of them right
COPIES_OF_OTHER = 2000  # the other class has about 0.67 at x + p: enough to establish it even at α/1000


def classifier(zeros: Array, ones: Array) -> MakeScores:
    """M for two sets of images, in any precision."""

    @cache
    def make(dtype: np.dtype[Any]) -> Scores:
        memory0, memory1, threshold = Memory(zeros, dtype), Memory(ones, dtype), values(np.array(127), dtype)

        def scores(batch: Array) -> Array:
            one = memory1.owners(batch) >= 0
            bright = np.flatnonzero(~one & (batch.reshape(len(batch), -1)[:, 0] > threshold))
            one[bright] = memory0.owners(batch[bright]) < 0
            return one_hot(one)

        return scores

    return make


def perturbed(image: Array, label: int) -> Array:
    """image + p, on the grid."""
    moved = image.astype(np.int64).ravel() - 1
    moved[0] += 1 + (240 if label == 0 else -240)
    return np.clip(moved, 0, 255).reshape(image.shape)


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """Some images by default, all that are remembered if n is given; H remembers all of them either way."""
    images, labels = load_images(options.data)
    known = [images[labels < 5][:MOST], images[labels >= 5][:MOST]]
    make, shown = classifier(*known), None if options.n else SHOWN
    pairs = [(label, Pair(make, x, perturbed(x, label))) for label in (0, 1) for x in known[label][:shown]]
    of_all = f"{len(pairs)} of {len(known[0])} + {len(known[1])} images"
    for certifier in certifiers:
        try:
            yield survey(certifier, pairs, Task(SIGMA, options.n or COPIES, n0=500), of_all)
        except Refused as refusal:
            yield Trial("proposition", certifier.name, Finding.REFUSED, note=str(refusal))


def corrected(answer: Answer, alpha: Fraction, task: Task) -> Answer:
    """What the same votes prove at another α."""
    if answer.label is None:
        return answer
    p_lower = clopper_pearson_below(answer.counts[answer.label], task.n, alpha)
    if p_lower <= 0.5:
        return replace(answer, label=None, radius=0.0)
    return replace(answer, radius=radius_below(p_lower, task.sigma))


def survey(certifier: Certifier, pairs: list[tuple[int, Pair]], task: Task, of_all: str) -> Trial:
    """Certify all images, establish the class of all perturbed ones, count, and show the image with the largest radius.

    FALSE, if one certificate is contradicted that also holds at α divided by the number of images: a sound certifier
    gets that with probability 2α at most. The radius that is shown and counted is the one at α.
    """
    other_task = replace(task, n=COPIES_OF_OTHER, alpha=task.alpha / len(pairs))
    first = [certifier.certify(pair.make, 2, pair.a, task) for _, pair in pairs]
    second = [certifier.certify(pair.make, 2, pair.other, other_task) for _, pair in pairs]
    careful = [corrected(answer, other_task.alpha, task) for answer in first]
    found = [judge(a, b, pair.squared) for a, b, (_, pair) in zip(careful, second, pairs, strict=True)]
    wrong, silent = found.count(Finding.FALSE_POINT), found.count(Finding.ABSTAINS)
    finding = Finding.ABSTAINS if silent == len(pairs) else Finding.HOLDS
    if wrong:
        finding = Finding.FALSE_POINT
    right = [answer.radius for answer, (label, _) in zip(first, pairs, strict=True) if answer.label == label]
    large = sum(radius >= 3 for radius in right)
    note = f"{of_all}, n = {task.n}: {len(right)} certified as their class, {large} with radius ≥ 3; "
    note += f"{wrong} contradicted, {silent} abstain"
    i = max(range(len(pairs)), key=lambda i: (found[i] == finding, first[i].radius, pairs[i][1].squared))
    counts = (first[i].counts, second[i].counts)
    return Trial("proposition", certifier.name, finding, first[i].radius, pairs[i][1].distance, counts, note)
