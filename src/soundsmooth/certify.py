"""Certify of the paper's Algorithm 2, for many classes: selection, estimation, bound, radius.

The procedures that sample and predict are `smoothing.voting.sample_under_noise` and `smoothing.prediction.predict`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from .exact import (
    clopper_pearson_above,
    clopper_pearson_below,
    float_above,
    hoeffding_below,
    radius_below,
    radius_two_below,
)
from .noise import Law, Purpose
from .settings import BoundName, Settings


class ModelChangedError(ValueError):
    """What votes is no longer what was promised: nothing that it says may be counted."""


@dataclass(frozen=True)
class Counts:
    """How many noisy copies voted for each class, and how many for nobody."""

    classes: tuple[int, ...]
    nobody: int

    @property
    def total(self) -> int:
        return sum(self.classes) + self.nobody

    @property
    def top(self) -> int:
        """The class with most votes; ties fall to the lowest."""
        return self.classes.index(max(self.classes))

    def most_among_others(self, label: int) -> int:
        """The largest count of any class but `label`, nobody included."""
        return max([*self.classes[:label], *self.classes[label + 1 :], self.nobody])


@dataclass(frozen=True)
class Verdict:
    """A label with its proved bounds, or an abstention (label None, radius 0)."""

    label: int | None
    radius: float
    p_lower: float
    p_upper: float | None
    """Above every other class's probability; only where the bound looks at it (runner-up)."""


@dataclass(frozen=True)
class Measurement:
    """Rows of the batches that were voted again, alone, and how many of them were hits only in their batch."""

    rows: int
    """m: drawn at random with repetition, all positions alike, from the n copies for estimation."""
    lost: int
    """d: how many of these voted for the label in their batch, and not alone."""


def certify(
    sample: Callable[[Purpose], Counts], law: Law, settings: Settings, measured: Measurement | None = None
) -> Verdict:
    """The paper's Certify: n₀ noisy copies select a class, n others estimate its probability.

    Guarantee: with probability at least 1 − α over the bits of the noise, either this abstains or the smoothed
    classifier x ↦ argmax_c P(F(clamp(x + T)) = c) answers `label` at every x + δ with ‖δ‖₂ < radius.
    """
    return verdict(sample(Purpose.SELECTION), sample(Purpose.ESTIMATION), law.sigma, settings, measured)


def verdict(
    counts0: Counts, counts: Counts, sigma: Fraction, settings: Settings, measured: Measurement | None = None
) -> Verdict:
    """What the counts prove: the label that selection chose, with the radius that estimation allows.

    If independence was measured, p_lower is for the classifier that sees one row at a time (`measured_below`).

    Guarantee: p_lower and p_upper err outwards and the radius downwards (`exact`).
    """
    if len(counts0.classes) != len(counts.classes):
        raise ModelChangedError(
            f"the model has {len(counts0.classes)} classes in selection and {len(counts.classes)} in estimation"
        )
    label = counts0.top
    if measured is None:
        p_lower, p_upper = _bounds(counts, label, settings.bound, settings.alpha)
    else:
        p_lower, p_upper = measured_below(counts.classes[label], counts.total, measured, settings.alpha), None
    if p_upper is None:
        won = p_lower > 0.5
        radius = radius_below(p_lower, sigma) if won else 0.0
    else:
        won = p_lower > p_upper
        radius = radius_two_below(p_lower, p_upper, sigma) if won else 0.0
    return Verdict(label if won else None, radius, p_lower, p_upper)


def measured_below(hits: int, n: int, measured: Measurement, alpha: Fraction) -> float:
    """A lower bound for the probability that one row, alone, votes for the label.

    Of the n copies, D are hits in their batch and would not be alone; D/n ≤ u, the Clopper–Pearson upper bound from the
    rows that were voted again, except with probability α/2. So at least hits − ⌊n·u⌋ copies are hits alone, and these
    are independent whatever the batches do: the lower bound from them, at α/4, is above ½ and wrong, for any class at
    all, with probability at most α/2. Any class: a model with a memory may have selected the label with the copies for
    estimation in view (docs/audit.md, Theorem 4).
    (docs/independence.md. The difference of the two bounds would be too large where votes of a batch depend on each
    other: then the hits in batches are not binomial.)

    Guarantee: at most the true value of this bound.
    """
    lost = Fraction(clopper_pearson_above(measured.lost, measured.rows, alpha / 2))
    return clopper_pearson_below(max(0, hits - floor(n * lost)), n, alpha / 4)


def _bounds(counts: Counts, label: int, bound: BoundName, alpha: Fraction) -> tuple[float, float | None]:
    hits, n = counts.classes[label], counts.total
    if bound == "clopper-pearson":
        return clopper_pearson_below(hits, n, alpha), None
    if bound == "hoeffding":
        return hoeffding_below(hits, n, alpha), None
    # The most frequent of the others dominates the count of the true runner-up, whichever class that is, and
    # the bound rises with the count: no price for the number of classes. (Bounding the runner-up that selection
    # named would leave out all the others.)
    p_lower = clopper_pearson_below(hits, n, alpha / 2)
    others = clopper_pearson_above(counts.most_among_others(label), n, alpha / 2)
    return p_lower, min(others, float_above(1 - Fraction(p_lower)))
