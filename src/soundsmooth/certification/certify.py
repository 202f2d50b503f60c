"""Certify of the paper's Algorithm 2, for many classes: selection, estimation, bound, radius.

The procedures that sample and predict are `smoothing.voting.sample_under_noise` and `smoothing.prediction.predict`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..exact import BOUNDS, Look, radius_after
from ..exact.bounds import Bounds
from ..noise import Law
from .settings import Settings


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

    def look(self, label: int) -> Look:
        """What a bound for the label is asked about."""
        return Look(self.total, self.classes[label], self.most_among_others(label))


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


def coin_above(word: str) -> Fraction:
    """The U of the randomized bound, from the 64 bits that a certificate holds in hexadecimal.

    Guarantee: above every real number whose binary expansion begins with these bits; in (0, 1].
    """
    return Fraction(int(word, 16) + 1, 1 << 64)


def certify(
    selection: Counts,
    estimation: Counts,
    law: Law,
    settings: Settings,
    measured: Measurement | None = None,
    paid: float | None = None,
    looks: Sequence[Look] | None = None,
    coin: str | None = None,
) -> Verdict:
    """The paper's Certify: n₀ noisy copies have selected a class, n others estimate its probability.

    Where looks were promised, the votes are those that were there at each look that was taken: n is then the most that
    may be spent, and whoever stopped, for whatever reason, the guarantee is the same.

    If independence was measured, p_lower is for the classifier that sees one row at a time (`Bound.prove_alone`). Where
    floats were rounded to the grid, the radius is less by what was `paid`, and it abstains if nothing is left. The
    `coin` is the input's own 64 bits, where the bound is randomized.

    Guarantee: with probability at least 1 − α over the bits of the noise, either this abstains or the smoothed
    classifier x ↦ argmax_c P(F(clamp(x + T)) = c) answers `label` at every x + δ where the norm of δ that the law names
    is below `radius`, and with a norm below `radius` + `paid` if something was. p_lower and p_upper err outwards and
    the radius downwards (`exact`).
    """
    if len(selection.classes) != len(estimation.classes):
        raise ModelChangedError(
            f"the model has {len(selection.classes)} classes in selection and {len(estimation.classes)} in estimation"
        )
    label = selection.top
    p_lower, p_upper = _bounds([estimation.look(label)] if looks is None else looks, settings, measured, coin)
    if p_lower > (0.5 if p_upper is None else p_upper):
        radius = law.radius(p_lower, p_upper)
        left = radius if paid is None else radius_after(radius, paid)
        if paid is None or left > 0:
            return Verdict(label, left, p_lower, p_upper)
    return Verdict(None, 0.0, p_lower, p_upper)


def _bounds(looks: Sequence[Look], settings: Settings, measured: Measurement | None, coin: str | None) -> Bounds:
    """What the looks prove at α by the chosen bound; for rows alone, if these were measured."""
    bound, u = BOUNDS[settings.bound], None if coin is None else coin_above(coin)
    schedule = settings.schedule._replace(coin=u)
    if measured is None:
        return bound.prove(looks, schedule)
    return bound.prove_alone(looks, measured.rows, measured.lost, schedule)
