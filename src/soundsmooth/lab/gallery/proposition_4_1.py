"""M of Proposition 4.1, the classifier with fake certificates, and a certifier's answers to it, image by image.

M(x) = 1 iff H_{X1}(x) = 1, or H_{X0}(x) = 0 and x_1 > 127/255: remembered images get their class under
any noise, and anything else is judged by its first pixel. One level less everywhere is enough to be forgotten, and 240
levels in the first pixel turn the rest: p = (±240, −1, −1, …)/255 has ‖p‖₂ < 1. It is kept on the grid here (the
first pixel clamped, black ones left), and the distance is that of the point really used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from ...exact import clopper_pearson_below, radius_below
from .certifiers import Answer, Array, Certifier, CertifierTask, MakeScores, Scores, one_hot, values
from .contradicting_pairs import Pair, judge
from .membership import RememberedImages
from .trial import Finding

SIGMA = Fraction(1)
RADIUS = 3  # that the paper certifies everywhere
MOST = 500  # images remembered of each class
COPIES_OF_OTHER = 2000  # the other class has about 0.67 at x + p: enough to establish it even at α/1000


def classifier(zeros: Array, ones: Array) -> MakeScores:
    """M for two sets of images, in any precision."""

    @cache
    def make(dtype: np.dtype[Any]) -> Scores:
        memory0, memory1, threshold = (
            RememberedImages(zeros, dtype),
            RememberedImages(ones, dtype),
            values(np.array(127), dtype),
        )

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


@dataclass(frozen=True)
class Case:
    """A remembered image with its class and its x + p; `image` is its number in the data set."""

    image: int
    label: int
    pair: Pair


def cases(images: Array, labels: Array) -> tuple[list[Case], list[Case]]:
    """The images that M remembers, of class 0 and of class 1: the first 500 of the labels 0 to 4, and of the others."""
    chosen = [np.flatnonzero(labels < 5)[:MOST], np.flatnonzero(labels >= 5)[:MOST]]
    make = classifier(images[chosen[0]], images[chosen[1]])

    def of(label: int) -> list[Case]:
        return [Case(int(i), label, Pair(make, images[i], perturbed(images[i], label))) for i in chosen[label]]

    return of(0), of(1)


@dataclass(frozen=True)
class ImageAnswers:
    """A certifier's answers for one image at α, and for its x + p at α divided by the number of images."""

    image: int
    label: int
    squared: Fraction
    first: Answer
    second: Answer

    @property
    def right(self) -> bool:
        """Whether the image is certified as its class."""
        return self.first.label == self.label

    @property
    def flipped(self) -> bool:
        """Whether x + p is established as the other class."""
        return self.second.label == 1 - self.label

    def finding(self, task: CertifierTask, tried: int) -> Finding:
        """FALSE, if the certificate also holds at α divided by the number of images and x + p contradicts it."""
        return judge(corrected(self.first, task.alpha / tried, task), self.second, self.squared)


def ask(certifier: Certifier, case: Case, task: CertifierTask, tried: int) -> ImageAnswers:
    """Certify the image, and establish the class of x + p; `tried` is the number of images that are tried in all."""
    other_task = replace(task, n=COPIES_OF_OTHER, alpha=task.alpha / tried)
    first = certifier.certify(case.pair.make, 2, case.pair.a, task)
    second = certifier.certify(case.pair.make, 2, case.pair.other, other_task)
    return ImageAnswers(case.image, case.label, case.pair.squared, first, second)


def corrected(answer: Answer, alpha: Fraction, task: CertifierTask) -> Answer:
    """The answer that the same votes prove at another α."""
    if answer.label is None:
        return answer
    p_lower = clopper_pearson_below(answer.counts[answer.label], task.n, alpha)
    if p_lower <= 0.5:
        return replace(answer, label=None, radius=0.0)
    return replace(answer, radius=radius_below(p_lower, task.sigma))


@dataclass(frozen=True)
class AnswerCounts:
    """How many images there are of each kind. All but the last two count certificates at α."""

    images: int
    right: int
    """Certified as their class."""
    large: int
    """Certified as their class with the paper's radius or more."""
    wrong: int
    """Certified as the other class."""
    flipped: int
    """Whose x + p is established as the other class, at α divided by the number of images."""
    contradicted: int
    """False by their x + p, both at α divided by the number of images."""
    silent: int
    """Neither certified nor contradicted at that α."""


def tally(outcomes: Sequence[ImageAnswers], task: CertifierTask) -> AnswerCounts:
    """Count. A sound certifier has any contradiction at all with probability 2α at most."""
    found = [outcome.finding(task, len(outcomes)) for outcome in outcomes]
    right = [outcome for outcome in outcomes if outcome.right]
    return AnswerCounts(
        images=len(outcomes),
        right=len(right),
        large=sum(outcome.first.radius >= RADIUS for outcome in right),
        wrong=sum(outcome.first.label == 1 - outcome.label for outcome in outcomes),
        flipped=sum(outcome.flipped for outcome in outcomes),
        contradicted=found.count(Finding.FALSE_POINT),
        silent=found.count(Finding.ABSTAINS),
    )
