"""Boundaries for set radii, a second time: how many hits, at each look, say that a probability is above a threshold.

H_k is the number of hits among the first n_k votes. Here it is the paths that have *not* crossed which are counted, and
each of their probabilities is rounded down, in decimal fixed point. What rounding loses, and what is left out because
it is too rare, is then missing among those that survive: it counts as crossed. Proofs: docs/noise.md, 3.15.
"""

from collections.abc import Iterator, Sequence
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

#: Digits behind the point beyond those of the smallest level: one attempt after the other.
DIGITS = (24, 60, 140)
#: The walk leaves out counts below so many units, at either end.
RARE = 1000
#: Products of whole numbers of any length; an inexact one would be an error.
EXACTLY = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])


def boundaries(p: float | Fraction, looks: Sequence[int], levels: Sequence[Fraction]) -> tuple[int, ...]:
    """b_1, …, b_K: each the smallest such that at least 1 − α_1 − … − α_k of all paths stay below b_1, …, b_k at the
    first k looks, where a vote hits with probability p; n_k + 1 where no count will do.

    Guarantee: some b_k is reached with probability at most α_1 + … + α_K, for p and for every smaller probability: a
    path that stays below still does so with fewer hits. Each b_k is proved to be the smallest, unless the two differ
    by less than 10^−130 of the smallest level: then b_k is one larger.
    """
    votes = tuple(int(n) for n in looks)
    shares = tuple(Fraction(level) for level in levels)
    if not votes or len(votes) != len(shares) or min(votes) < 1 or list(votes) != sorted({*votes}):
        raise ValueError(f"{len(shares)} levels do not fit the looks {votes}")
    if not 0 < p < 1 or min(shares) <= 0 or sum(shares) >= 1:
        raise ValueError("the threshold, the levels and their sum must lie between 0 and 1")
    return _boundaries(Fraction(p), votes, shares)


@lru_cache(maxsize=1 << 12)
def _boundaries(p: Fraction, looks: tuple[int, ...], levels: tuple[Fraction, ...]) -> tuple[int, ...]:
    size = len(str(int(1 / min(levels))))
    for digits in DIGITS:
        found = list(_walk(p, looks, levels, 10 ** (size + digits)))
        if all(proved for _, proved in found):
            break
    return tuple(crossing for crossing, _ in found)


def _walk(p: Fraction, looks: tuple[int, ...], levels: tuple[Fraction, ...], one: int) -> Iterator[tuple[int, bool]]:
    """At each look the lowest boundary that is proved, and whether each lower one is proved to be too low.

    `alive` has lower bounds of the probabilities of low, low + 1, … hits without a crossing; `crossed` is one too.
    """
    low, alive, crossed, votes = 0, [one], 0, 0
    for n, spent in zip(looks, accumulate(levels), strict=True):
        shift, masses = masses_below(n - votes, p, one)
        low, alive = _trimmed(low + shift, [x // one for x in product(alive, masses)])
        kept, proved = _lowest(alive, crossed, spent, one)
        yield (n + 1 if kept is None else low + kept), proved
        below = len(alive) if kept is None else kept
        alive, crossed, votes = alive[:below], crossed + sum(alive[below:]), n


def _trimmed(low: int, alive: list[int]) -> tuple[int, list[int]]:
    """Without the rare counts at either end."""
    frequent = [place for place, x in enumerate(alive) if x >= RARE]
    if not frequent:
        return low, [0]
    return low + frequent[0], alive[frequent[0] : frequent[-1] + 1]


def _lowest(alive: list[int], crossed: int, spent: Fraction, one: int) -> tuple[int | None, bool]:
    """How few of the counts may stay below the boundary: so that they survive with 1 − spent; None if all are too few.

    Whether one less would be too few is proved if more than `spent` then has crossed.
    """
    needed = (1 - spent) * one
    survive, kept = sum(alive), len(alive)
    if survive < needed:
        return None, False
    while kept and survive - alive[kept - 1] >= needed:
        kept -= 1
        survive -= alive[kept]
    return kept, crossed + sum(alive[max(0, kept - 1) :]) > spent * one


def product(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """The product of two polynomials with coefficients from 0 on: those of the result, lowest first.

    Guarantee: exact. Both are written as one long decimal number, with so many digits for a coefficient that none of
    the result's can run over into the next; one multiplication then gives all of them.
    """
    width = len(str(max(first) * max(second) * min(len(first), len(second))))
    total = EXACTLY.multiply(_written(first, width), _written(second, width))
    length = len(first) + len(second) - 1
    text = format(total, "f").zfill(length * width)
    return [int(text[end - width : end]) for end in range(length * width, 0, -width)]


def _written(coefficients: Sequence[int], width: int) -> Decimal:
    return Decimal("".join(str(x).zfill(width) for x in reversed(coefficients)))


def masses_below(n: int, p: Fraction, one: int) -> tuple[int, list[int]]:
    """The masses of Bin(n, p) in units of 1/one, rounded down, and the number of hits that the first belongs to.

    Guarantee: each is at most the true mass. Every mass is a known multiple w_i of the largest one, by the ratios of
    neighbours, and all add up to 1: so it is w_i / Σ w. The w_i are rounded down, and Σ w is an upper bound.
    """
    mode = min(n, int((n + 1) * p))
    up, above = _falling(n - mode, mode + 1, p, one)
    down, below = _falling(mode, n - mode + 1, 1 - p, one)
    weights = [*reversed(down), one, *up]
    total = sum(weights) + above + below
    return mode - len(down), [weight * one // total for weight in weights]


def _falling(left: int, start: int, p: Fraction, one: int) -> tuple[list[int], int]:
    """w_1, w_2, … with w_0 = 1 and w_{i+1} = w_i · (left − i)/(start + i) · p/(1 − p), rounded down, until they are
    rare; and an upper bound of all that rounding and the end took from them.

    No ratio exceeds 1, and they fall. So w_i is too small by at most i units, and what follows it is at most
    w_i·ρ/(1 − ρ), with ρ the next ratio.
    """
    hit, miss = p.numerator, p.denominator - p.numerator
    top, bottom = left * hit, start * miss
    weights: list[int] = []
    weight = one
    while top > 0 and not (weight < RARE and top < bottom):
        weight = weight * top // bottom
        weights.append(weight)
        top, bottom = top - hit, bottom + miss
    count = len(weights)
    rest = -(-(weight + count) * top // (bottom - top)) if top > 0 else 0
    return weights, count * (count + 1) // 2 + rest
