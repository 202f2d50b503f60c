"""The usual contradiction: a certified ball around a that holds a point a′ of another class."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from ...core.grid import IMAGES
from .certifiers import Answer, Array, Certifier, CertifierTask, MakeScores, Refused
from .trial import Finding, Trial


@dataclass(frozen=True)
class Pair:
    """Two points on the grid, a and a′, and the classifier that tells them apart."""

    make: MakeScores
    a: Array
    other: Array
    classes: int = 2
    note: str = ""

    @property
    def squared(self) -> Fraction:
        """‖a − a′‖₂², exactly, in units of value 1."""
        steps = int(((self.a.astype(np.int64) - self.other.astype(np.int64)) ** 2).sum())
        return Fraction(steps, IMAGES.q**2)

    @property
    def distance(self) -> float:
        return math.sqrt(self.squared)


def try_pair(entry: str, certifier: Certifier, pair: Pair, task: CertifierTask, tried: int = 1) -> Trial:
    """Certify a, then establish the class of a′; the latter at α divided by the number of points that were tried.

    FALSE (point) means: the radius at a exceeds the exact distance, and a′ has another label with confidence
    1 − α/tried. A sound certifier gets it with probability α + α/tried at most.
    """
    try:
        first = certifier.certify(pair.make, pair.classes, pair.a, task)
        second = certifier.certify(pair.make, pair.classes, pair.other, replace(task, alpha=task.alpha / tried))
    except Refused as refusal:
        return Trial(entry, certifier.name, Finding.REFUSED, note=str(refusal))
    return Trial(
        entry,
        certifier.name,
        judge(first, second, pair.squared),
        first.radius,
        pair.distance,
        (first.counts, second.counts),
        pair.note,
    )


def judge(first: Answer, second: Answer, squared_distance: Fraction) -> Finding:
    """Judge two answers at a known distance together; the comparison is exact."""
    if first.label is None:
        return Finding.ABSTAINS
    reaches = Fraction(first.radius) ** 2 > squared_distance
    contradicts = second.label is not None and second.label != first.label
    return Finding.FALSE_POINT if reaches and contradicts else Finding.HOLDS
