"""Confidence bounds: is this claim below the bound, and which bound would the auditor give?

To check a bound is easier than to find it. P(X ≥ hits) rises with p, and the Clopper–Pearson lower bound is the p
where it is α; so a number lies below the bound exactly if the tail there is at most α. One tail decides.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import takewhile
from math import floor
from statistics import NormalDist
from typing import NamedTuple

from .doubles import float_above, largest_accepted, smallest_accepted
from .group_sequential import boundaries
from .intervals import around, decide, log, log_of
from .tails import falling_sum, log_mass, tail_at_most

MOST_VOTES = 10**9
GUESS_BITS = 96


def clopper_pearson_lower_holds(p: Fraction | float, hits: int, n: int, alpha: Fraction) -> bool:
    """Whether p is at most the lower bound, the p with P(X ≥ hits) = α; that is 0 for no hits.

    Guarantee: True only if it is so; False if it is not so, or not proved (`tail_at_most`).
    """
    _check(hits, n, alpha)
    if not math.isfinite(p):
        return False
    return p <= 0 or (hits > 0 and tail_at_most(hits, n, Fraction(p), alpha))


def clopper_pearson_upper_holds(p: float, hits: int, n: int, alpha: Fraction) -> bool:
    """Whether p is at least the upper bound, the p with P(X ≤ hits) = α; that is 1 if all hit.

    Misses are hits of probability 1 − p: so 1 − p is at most their lower bound.

    Guarantee: True only if it is so; False if it is not so, or not proved (`tail_at_most`).
    """
    return math.isfinite(p) and clopper_pearson_lower_holds(1 - Fraction(p), n - hits, n, alpha)


def randomized_lower_holds(p: float, hits: int, n: int, alpha: Fraction, coin: Fraction) -> bool:
    """Whether p is at most the randomized lower bound, the p with P(X > hits) + u · P(X = hits) = α; 0 for no hits.

    u is the coin, but at least 2α and at most 1.

    Guarantee: True only if it is so; False if it is not so, or not proved (`tail_at_most`).
    """
    _check(hits, n, alpha)
    if not math.isfinite(p):
        return False
    return p <= 0 or (hits > 0 and tail_at_most(hits, n, Fraction(p), alpha, _counted(coin, alpha)))


def _counted(coin: Fraction, alpha: Fraction) -> Fraction:
    if not 0 < coin <= 1:
        raise ValueError(f"a coin must lie above 0 and be at most 1, not {coin}")
    return min(Fraction(1), max(coin, 2 * alpha))


def hoeffding_lower_holds(p: float, hits: int, n: int, alpha: Fraction) -> bool:
    """Whether p is at most hits/n − √(ln(1/α) / 2n), or at most 0.

    Guarantee: True only if it is so; False if it is not so, or not proved with 1024 bits.
    """
    _check(hits, n, alpha)
    return math.isfinite(p) and (p <= 0 or _beyond_hoeffding(Fraction(hits, n) - Fraction(p), n, alpha))


def _beyond_hoeffding(distance: Fraction, n: int, alpha: Fraction) -> bool:
    """Whether distance ≥ √(ln(1/α) / 2n), that is distance ≥ 0 and 2n · distance² ≥ ln(1/α)."""
    if distance < 0:
        return False

    def attempt(bits: int) -> bool | None:
        exponent, needed = around(2 * n * distance**2, bits), log(1 / alpha, bits)
        return True if exponent > needed else False if exponent < needed else None

    return bool(decide(attempt))


def clopper_pearson_below(hits: int, n: int, alpha: Fraction) -> float:
    """The auditor's own Clopper–Pearson lower bound.

    Guarantee: at most the true bound, and the largest double that is (as far as `tail_at_most` can prove it).
    """
    _check(hits, n, alpha)
    if hits == 0:
        return 0.0
    return largest_accepted(partial(clopper_pearson_lower_holds, hits=hits, n=n, alpha=alpha), _guess(hits, n, alpha))


def clopper_pearson_above(hits: int, n: int, alpha: Fraction) -> float:
    """The auditor's own Clopper–Pearson upper bound.

    Guarantee: at least the true bound, and the smallest double that is (as far as `tail_at_most` can prove it).
    """
    _check(hits, n, alpha)
    if hits == n:
        return 1.0
    return smallest_accepted(
        partial(clopper_pearson_upper_holds, hits=hits, n=n, alpha=alpha), 1 - _guess(n - hits, n, alpha)
    )


def randomized_below(hits: int, n: int, alpha: Fraction, coin: Fraction) -> float:
    """The auditor's own randomized lower bound.

    Guarantee: at most the true bound, and the largest double that is (as far as `tail_at_most` can prove it).
    """
    _check(hits, n, alpha)
    if hits == 0:
        return 0.0
    holds = partial(randomized_lower_holds, hits=hits, n=n, alpha=alpha, coin=coin)
    return largest_accepted(holds, _guess(hits, n, alpha, _counted(coin, alpha)))


def hoeffding_below(hits: int, n: int, alpha: Fraction) -> float:
    """The auditor's own Hoeffding lower bound.

    Guarantee: at most the true bound or 0, and the largest double that is (as far as 1024 bits can prove it).
    """
    guess = hits / n - math.sqrt(-_float_log(alpha) / (2 * n))
    return largest_accepted(partial(hoeffding_lower_holds, hits=hits, n=n, alpha=alpha), guess)


def _guess(hits: int, n: int, alpha: Fraction, share: Fraction = Fraction(1)) -> float:
    """Near the Clopper–Pearson lower bound, and no more than that: Newton's method for ln P(X ≥ hits) in ln p.

    Where P(X ≥ hits) = P(X = hits) · S, the slope is hits/S: the derivative of the tail is hits · P(X = hits)/p. If
    only a share of P(X = hits) is counted, the tail from hits + 1 on has the rest of the slope.
    """
    p, goal = _wilson(hits, n, alpha), _float_log(alpha)
    for _ in range(8):
        exact = Fraction(p)
        if not 0 < p < 1 or exact * (n + 1) > hits:
            break  # on the other side of the mode: leave the rest to the search
        total = falling_sum(hits, n, exact, GUESS_BITS) - around(1 - share, GUESS_BITS)
        slope = float(share * hits + (1 - share) * (n - hits) * exact / (1 - exact))
        log_tail = log_mass(hits, n, exact, GUESS_BITS) + log_of(total)
        step = (goal - float(log_tail.middle)) * float(total.middle) / slope
        p *= math.exp(min(step, 1.0))
        if abs(step) < 1e-15:
            break
    return min(p, 1.0)


def _wilson(hits: int, n: int, alpha: Fraction) -> float:
    """The normal approximation's lower bound, or where that fails a point to the left of the true one."""
    share, z = (hits - 0.5) / n, -NormalDist().inv_cdf(max(float(alpha), 1e-300))
    middle = share + z * z / (2 * n) - z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    left = hits / n * math.exp(max(_float_log(alpha) / hits, -600.0) - 1)
    return max(middle / (1 + z * z / n), left)


def _float_log(x: Fraction) -> float:
    return math.log(x.numerator) - math.log(x.denominator)


def _check(hits: int, n: int, alpha: Fraction) -> None:
    if not 1 <= n <= MOST_VOTES:
        raise ValueError(f"the number of votes must be between 1 and 10⁹, not {n}")
    if not 0 <= hits <= n:
        raise ValueError(f"the number of hits must be between 0 and {n}, not {hits}")
    if not 0 < alpha < 1:
        raise ValueError(f"α must lie strictly between 0 and 1, not {alpha}")


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
    """When votes are counted, and which part of α each look spends, as it was promised.

    Guarantee: none; these are promises. `paired` refuses those that no bound holds for.
    """

    looks: tuple[int, ...]
    """n_1 < … < n_K."""
    levels: tuple[Fraction, ...]
    """α_1, …, α_K, above 0."""
    thresholds: tuple[float, ...] = ()
    """The probabilities, rising, that the radii asked for need."""
    coin: Fraction | None = None
    """U in (0, 1], of the image alone, where the bound is randomized. This is no promise: the key fixes it."""

    @classmethod
    def fixed(cls, n: int, alpha: Fraction) -> "Schedule":
        """All of α for one look at n votes."""
        return cls((n,), (alpha,))


@dataclass(frozen=True)
class Bound:
    """A confidence bound that a promise may name, for the probability of a label chosen without looking at these votes.

    The looks are the first ones of the schedule. Whoever decided that they are all, for whatever reason, the guarantee
    is the same (docs/noise.md, 3.14).

    Guarantee: except with probability α = α_1 + … + α_K, what `prove` gives is on the safe side, after every look; and
    `holds` is True only for numbers of which this is proved.
    """

    prove: Callable[[Sequence[Look], Schedule], Bounds]
    """The p_lower and p_upper that the auditor would give."""
    holds: Callable[[float, float | None, Sequence[Look], Schedule], bool]
    """Whether p_lower and p_upper are proved to be on the safe side."""
    two_sided: bool = False
    """Whether it bounds the other classes from above: then a label wins with p_lower > p_upper, not with > ½."""
    measurable: bool = False
    """Whether it goes with measured independence: docs/audit.md, Theorem 4, is proved for it."""
    repeatable: bool = True
    """Whether it goes with more than one look."""
    radii: bool = False
    """Whether it needs the thresholds of radii that are asked for."""
    positions: bool = True
    """Whether it holds where a vote may depend on the row's position in its batch."""
    coin: bool = False
    """Whether each image has a uniform number of its own, which the bound needs."""


def kept_alone(hits: int, n: int, rows: int, lost: int, level: Fraction) -> int:
    """How many of n copies at least vote for the label when they are voted alone, if `lost` of the `rows` that were
    drawn among them do not.

    Guarantee: too large with probability at most level/2 over the choice of the rows, whatever the votes are: given the
    votes, the lost ones among m rows that are drawn with repetition are binomial.
    """
    share = Fraction(clopper_pearson_above(lost, rows, level / 2))
    return max(0, hits - floor(n * share))


def paired(looks: Sequence[Look], schedule: Schedule) -> list[tuple[Look, Fraction]]:
    """Each look that was taken, with its level.

    Guarantee: the looks begin the schedule, and the schedule rises and spends less than 1; a ValueError otherwise.
    """
    promised = schedule.looks
    rises = promised and list(promised) == sorted({*promised}) and promised[0] > 0
    if not rises or len(promised) != len(schedule.levels):
        raise ValueError(f"no schedule has the looks {promised} with {len(schedule.levels)} levels")
    if min(schedule.levels) <= 0 or sum(schedule.levels) >= 1:
        raise ValueError(f"the levels are not above 0, or add up to 1: {', '.join(map(str, schedule.levels))}")
    if tuple(look.n for look in looks) != promised[: len(looks)]:
        raise ValueError(f"{', '.join(str(look.n) for look in looks)} votes were counted, not as promised: {promised}")
    return [(look, schedule.levels[k]) for k, look in enumerate(looks)]


def _one_sided(
    below: Callable[[int, int, Fraction], float],
    lower_holds: Callable[[float, int, int, Fraction], bool],
    measurable: bool = False,
    repeatable: bool = True,
) -> Bound:
    """The bound from the winner's hits alone: it holds if that of one look does."""

    def seen(looks: Sequence[Look], schedule: Schedule) -> list[tuple[int, int, Fraction]]:
        found = paired(looks, schedule)
        if not repeatable and len(schedule.looks) > 1:
            raise ValueError(f"this bound holds for one look at a fixed number of votes, not for {len(schedule.looks)}")
        return [(look.hits, look.n, level) for look, level in found]

    def prove(looks: Sequence[Look], schedule: Schedule) -> Bounds:
        return max((below(*each) for each in seen(looks, schedule)), default=0.0), None

    def holds(p_lower: float, p_upper: float | None, looks: Sequence[Look], schedule: Schedule) -> bool:
        found = seen(looks, schedule)
        return p_upper is None and (p_lower == 0 or any(lower_holds(p_lower, *each) for each in reversed(found)))

    return Bound(prove, holds, measurable=measurable, repeatable=repeatable)


def _coin_of(schedule: Schedule) -> Fraction:
    if schedule.coin is None or len(schedule.looks) > 1:
        raise ValueError("the randomized bound holds for one look, and for an image that has a coin")
    return schedule.coin


def _prove_randomized(looks: Sequence[Look], schedule: Schedule) -> Bounds:
    coin = _coin_of(schedule)
    found = [randomized_below(look.hits, look.n, level, coin) for look, level in paired(looks, schedule)]
    return max(found, default=0.0), None


def _randomized_holds(p_lower: float, p_upper: float | None, looks: Sequence[Look], schedule: Schedule) -> bool:
    coin, found = _coin_of(schedule), paired(looks, schedule)
    proved = any(randomized_lower_holds(p_lower, look.hits, look.n, level, coin) for look, level in found)
    return p_upper is None and (p_lower == 0 or proved)


def _least_hits(schedule: Schedule) -> int:
    """Of several looks, one with a single hit proves nothing of the winner (docs/looks.md, "Positions in a batch")."""
    return 2 if len(schedule.looks) > 1 else 1


def _prove_runner_up(looks: Sequence[Look], schedule: Schedule) -> Bounds:
    p_lower, p_upper = 0.0, 1.0
    for (n, hits, others), level in paired(looks, schedule):
        if hits >= _least_hits(schedule):
            p_lower = max(p_lower, clopper_pearson_below(hits, n, level / 2))
        p_upper = min(p_upper, clopper_pearson_above(others, n, level / 2))
    return p_lower, min(p_upper, float_above(1 - Fraction(p_lower)))


def _runner_up_holds(p_lower: float, p_upper: float | None, looks: Sequence[Look], schedule: Schedule) -> bool:
    found = [(look, level / 2) for look, level in reversed(paired(looks, schedule))]
    if p_upper is None or not (math.isfinite(p_lower) and math.isfinite(p_upper)):
        return False
    won = [(look, half) for look, half in found if look.hits >= _least_hits(schedule)]
    if p_lower > 0 and not any(clopper_pearson_lower_holds(p_lower, look.hits, look.n, half) for look, half in won):
        return False
    if p_upper >= 1 or Fraction(p_upper) >= 1 - Fraction(p_lower):
        return True
    return any(clopper_pearson_upper_holds(p_upper, look.others, look.n, half) for look, half in found)


def _crossed(thresholds: Sequence[float], looks: Sequence[Look], schedule: Schedule) -> bool:
    """Whether the boundary of each of these thresholds was reached at some look that was taken."""
    return all(
        any(look.hits >= least for look, least in zip(looks, needed, strict=False))
        for needed in (boundaries(p, schedule.looks, schedule.levels) for p in thresholds)
    )


def _prove_thresholds(looks: Sequence[Look], schedule: Schedule) -> Bounds:
    paired(looks, schedule)
    reached = list(takewhile(lambda p: _crossed([p], looks, schedule), rising(schedule)))
    return (float(reached[-1]) if reached else 0.0), None


def _threshold_holds(p_lower: float, p_upper: float | None, looks: Sequence[Look], schedule: Schedule) -> bool:
    """A probability is proved by any threshold that is not below it, if it was reached as were all smaller ones."""
    paired(looks, schedule)
    smaller = sum(p < p_lower for p in rising(schedule))
    needed = rising(schedule)[: smaller + 1]
    if p_upper is not None or not p_lower <= max(needed):
        return False
    return p_lower <= 0 or _crossed(needed, looks, schedule)


def rising(schedule: Schedule) -> tuple[float, ...]:
    """Guarantee: the thresholds, which rise strictly between 0 and 1; a ValueError otherwise."""
    found = schedule.thresholds
    if not found or list(found) != sorted({*found}) or not 0 < found[0] <= found[-1] < 1:
        raise ValueError(f"this bound needs thresholds that rise between 0 and 1, not {found}")
    return found


#: By name, as promises have it; the first is the default.
BOUNDS = {
    "clopper-pearson": _one_sided(clopper_pearson_below, clopper_pearson_lower_holds, measurable=True),
    "hoeffding": _one_sided(hoeffding_below, hoeffding_lower_holds, repeatable=False),
    "runner-up": Bound(_prove_runner_up, _runner_up_holds, two_sided=True),
    "group-sequential": Bound(_prove_thresholds, _threshold_holds, radii=True, positions=False),
    "randomized": Bound(_prove_randomized, _randomized_holds, repeatable=False, positions=False, coin=True),
}


def bound_names(two_sided: bool) -> str:
    """Guarantee: the names of all bounds of one kind, as a list to read."""
    return ", ".join(name for name, bound in BOUNDS.items() if bound.two_sided == two_sided)
