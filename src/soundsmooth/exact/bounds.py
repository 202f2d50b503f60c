"""The confidence bounds that a certificate may name, one entry of `BOUNDS` each.

A bound gets looks: how many votes were counted each time, how many of them were hits, how many fell to the most
frequent other class. When votes are counted, and which part of α each look spends, was fixed beforehand. Who stops
after which look, and why, does not matter: docs/noise.md, 3.14.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from math import floor
from typing import Literal, NamedTuple

from .balls import float_above
from .binomial import clopper_pearson_above, clopper_pearson_below, hoeffding_below, randomized_below
from .group_sequential import boundaries

#: p_lower, and p_upper if the bound looks at the other classes.
Bounds = tuple[float, float | None]


class Look(NamedTuple):
    """The votes that are counted at one time, from the first on.

    Guarantee: none; these are counts.
    """

    n: int
    hits: int
    others: int
    """The largest count of any class but the label; "nobody" is one of them."""


class Schedule(NamedTuple):
    """When votes are counted and how α is spent; fixed before the first vote.

    Guarantee: none; these are promises. `taken` refuses a schedule that is none.
    """

    looks: tuple[int, ...]
    """n_1 < … < n_K: each look counts the first so many copies."""
    levels: tuple[Fraction, ...]
    """α_1, …, α_K, all above 0; their sum is at most α."""
    thresholds: tuple[float, ...] = ()
    """The rising probabilities that belong to the radii asked for; only where the bound needs them."""
    coin: Fraction | None = None
    """U in (0, 1]: uniform, rounded up, and independent of the votes. It is only there where the bound needs it."""

    @classmethod
    def fixed(cls, n: int, alpha: Fraction) -> "Schedule":
        """One look, at a number of votes that is fixed, spends all of α."""
        return cls((n,), (alpha,))


@dataclass(frozen=True)
class Bound:
    """A confidence bound for the probability of a label that was chosen without looking at these votes.

    Guarantee: `prove` errs in a stated direction. Except with probability α over the votes, p_lower is at most the
    label's probability and p_upper, if there is one, at least that of each other class.
    """

    prove: Callable[[Sequence[Look], Schedule], Bounds]
    two_sided: bool = False
    """Whether it also bounds the other classes from above: then a label wins with p_lower > p_upper, not with > ½."""
    measurable: bool = False
    """Whether it goes with measured independence: docs/audit.md, Theorem 4, is proved for it."""
    repeatable: bool = True
    """Whether it goes with more than one look."""
    radii: bool = False
    """Whether it needs the thresholds of radii that are asked for."""
    positions: bool = True
    """Whether it holds for a classifier that depends on the position of a row in its batch (docs/noise.md, 3.14)."""
    coin: bool = False
    """Whether it needs a uniform number of each image's own."""

    def prove_alone(self, looks: Sequence[Look], rows: int, lost: int, schedule: Schedule) -> Bounds:
        """The same for the probability that one row, alone, votes for the label, which may be any.

        Only the last look counts, at its level α. Of its n copies, D are hits in their batch and would not be alone;
        D/n ≤ u, the Clopper–Pearson upper bound from the `rows` of them that were voted again and the `lost` ones among
        these, except with probability α/2. So at least hits − ⌊n·u⌋ copies are hits alone, and these are independent
        whatever the batches do: the lower bound from them, at α/4, is above ½ and wrong, for any class at all, with
        probability at most α/2. Any class: a model with a memory may have selected the label with the copies for
        estimation in view (docs/audit.md, Theorem 4). The levels of all looks add up to at most that of the whole.
        (docs/independence.md. The difference of the two bounds would be too large where votes of a batch depend on
        each other: then the hits in batches are not binomial.)

        Guarantee: at most the true value of this bound, 0 without a look.
        """
        if not self.measurable:
            raise ValueError("this bound does not go with measured independence")
        counted = taken(looks, schedule)
        if not counted:
            return 0.0, None
        (n, hits, _), alpha = counted[-1]
        share = Fraction(clopper_pearson_above(lost, rows, alpha / 2))
        kept = max(0, hits - floor(n * share))
        return self.prove([Look(n, kept, n - kept)], Schedule.fixed(n, alpha / 4))


def taken(looks: Sequence[Look], schedule: Schedule) -> list[tuple[Look, Fraction]]:
    """The looks that were taken, each with the level that it spends.

    Guarantee: they are the first ones of the schedule, which rises and spends less than 1 in all; a ValueError
    otherwise. What was counted at one look is counted at the next.
    """
    _check_schedule(schedule)
    if [look.n for look in looks] != list(schedule.looks[: len(looks)]):
        raise ValueError(f"the votes were counted at {[look.n for look in looks]}, not at {list(schedule.looks)}")
    before = Look(0, 0, 0)
    for look in looks:
        if not 0 <= look.hits - before.hits <= look.n - before.n or not before.others <= look.others <= look.n:
            raise ValueError(f"{look} cannot follow {before}")
        before = look
    return list(zip(looks, schedule.levels, strict=False))


def _check_schedule(schedule: Schedule) -> None:
    looks, levels = schedule.looks, schedule.levels
    if not looks or len(looks) != len(levels):
        raise ValueError(f"{len(looks)} looks cannot have {len(levels)} levels")
    if any(after <= before for before, after in pairwise((0, *looks))):
        raise ValueError(f"the numbers of votes at which they are counted must rise: {list(looks)}")
    if not all(level > 0 for level in levels) or not sum(levels) < 1:
        raise ValueError(f"the levels must be above 0 and their sum below 1: {[str(level) for level in levels]}")


def _clopper_pearson(looks: Sequence[Look], schedule: Schedule) -> Bounds:
    """Each bound exceeds the truth with probability at most its level, and the largest is one of them."""
    counted = taken(looks, schedule)
    return max([0.0, *(clopper_pearson_below(look.hits, look.n, level) for look, level in counted)]), None


def _hoeffding(looks: Sequence[Look], schedule: Schedule) -> Bounds:
    counted = taken(looks, schedule)
    if len(schedule.looks) != 1:
        raise ValueError(f"hoeffding holds for one look at a fixed number of votes, not for {len(schedule.looks)}")
    return max([0.0, *(hoeffding_below(look.hits, look.n, level) for look, level in counted)]), None


def _runner_up(looks: Sequence[Look], schedule: Schedule) -> Bounds:
    """The most frequent of the others dominates the count of the true runner-up, whichever class that is, and the bound
    rises with the count: no price for the number of classes. (Bounding the runner-up that selection named would leave
    out all the others.)
    """
    halves = [(look, level / 2) for look, level in taken(looks, schedule)]
    # Of several looks, one with a single hit proves nothing: docs/looks.md, "Positions in a batch".
    least = 2 if len(schedule.looks) > 1 else 1
    won = [(look, half) for look, half in halves if look.hits >= least]
    p_lower = max([0.0, *(clopper_pearson_below(look.hits, look.n, half) for look, half in won)])
    p_upper = min([1.0, *(clopper_pearson_above(look.others, look.n, half) for look, half in halves)])
    return p_lower, min(p_upper, float_above(1 - Fraction(p_lower)))


def _group_sequential(looks: Sequence[Look], schedule: Schedule) -> Bounds:
    """The largest threshold whose boundary was reached at some look, as were those of all smaller thresholds. A false
    one needs the smallest false threshold's boundary to be reached: so each of them has all of α.
    """
    counted, proved = taken(looks, schedule), 0.0
    needed = _boundaries_by_place(schedule)
    for place, threshold in enumerate(schedule.thresholds):
        if not any(look.hits >= least for (look, _), least in zip(counted, needed(place), strict=False)):
            break
        proved = float(threshold)
    return proved, None


@lru_cache(maxsize=1 << 6)
def _boundaries_by_place(schedule: Schedule) -> Callable[[int], tuple[int, ...]]:
    """The boundaries of each threshold, by its place: a function of the schedule's numbers, computed when asked for."""
    thresholds = schedule.thresholds
    if not thresholds or any(after <= before for before, after in pairwise((0.0, *thresholds))):
        raise ValueError(f"this bound needs thresholds that rise, not {thresholds}")
    return cache(lambda place: boundaries(thresholds[place], schedule.looks, schedule.levels))


def _randomized(looks: Sequence[Look], schedule: Schedule) -> Bounds:
    counted, coin = taken(looks, schedule), schedule.coin
    if len(schedule.looks) != 1 or coin is None:
        raise ValueError("the randomized bound holds for one look at a fixed number of votes, and needs a coin")
    return max([0.0, *(randomized_below(look.hits, look.n, level, coin) for look, level in counted)]), None


#: The names, as settings and promises have them; the first is the default.
BoundName = Literal["clopper-pearson", "hoeffding", "runner-up", "group-sequential", "randomized"]
BOUNDS: dict[str, Bound] = {
    "clopper-pearson": Bound(_clopper_pearson, measurable=True),
    "hoeffding": Bound(_hoeffding, repeatable=False),
    "runner-up": Bound(_runner_up, two_sided=True),
    "group-sequential": Bound(_group_sequential, radii=True, positions=False),
    "randomized": Bound(_randomized, repeatable=False, positions=False, coin=True),
}
