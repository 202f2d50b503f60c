"""UNSOUND, for comparison only: how often the paper's Algorithm 2 fails, exactly, beside the paper's bounds.

A draw fails when a breaking point lies strictly inside [t, t + 1) / 2^bits. Many breaking points of the tails lie in
one such interval, so what counts is the number of *distinct* ambiguous draws.

The paper: at most (2k + 255) / 2^n ≤ 2^(12−n) at one position for k = 7.5 · 255 levels, hence at least 1 − 2^(46−n) for
100 000 copies of an image of 3 × 224 × 224 positions. Two remarks. 7.5 · 255 is not an integer. And 2k + 255 counts the
breaking points of N_D^k, whereas Algorithm 2 draws from N_D^{k+255}(0), with 2(k + 255) of them: 4334 at k = 1912, more
than 2¹². At σ = 1 all of these are distinct, so there the first bound is exceeded, by 6 %; the second one still holds,
since 100 000 · 3 · 224 · 224 is less than 2³⁴. With k = 7 · 255, Algorithm 2 has just the 4080 that the paper counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from ...core.grid import IMAGES
from ...exact import Rational
from ...noise.law import Gaussian
from .paper64 import BITS, breaking_points

PAPER_COPIES = 100_000
PAPER_POSITIONS = 3 * 224 * 224
PAPER_SIGMAS = ("0.12", "0.25", "0.5", "1")
#: Margins K in levels: our default k = 6; k = 7, which has the paper's number of breaking points; ⌊7.5 · 255⌋.
PAPER_MARGINS = (6 * 255, 7 * 255, 1912)


@dataclass(frozen=True)
class FailureOdds:
    """The failure probabilities of Algorithm 2 for one σ and k. All numbers are exact, or proved bounds."""

    breaking_points: int
    """2(K + 255): entries of the array, the last one left out."""
    ambiguous: int
    """Draws that fail: the distinct ones among arr[j] − 1."""
    per_position: Fraction
    """P(Failure) at one position: ambiguous / 2^bits, exactly."""
    paper_per_position: Fraction
    """The paper's bound for it, 2^(12 − bits)."""
    anywhere: tuple[Fraction, Fraction]
    """P(Failure at any position of any copy) lies between these two."""
    paper_anywhere: Fraction
    """The paper's bound for it, 2^(46 − bits), for 100 000 copies of 3 × 224 × 224 positions."""


def failure_odds(
    sigma: Rational, margin: int = 1912, bits: int = BITS, draws: int = PAPER_COPIES * PAPER_POSITIONS
) -> FailureOdds:
    """The failure probabilities for noise of σ clamped `margin` levels beyond an image, in `draws` draws."""
    arr = breaking_points(Gaussian(sigma, Fraction(margin, IMAGES.q)), bits)
    ambiguous = len(set(arr[:-1]))
    per_position = Fraction(ambiguous, 1 << bits)
    return FailureOdds(
        breaking_points=len(arr) - 1,
        ambiguous=ambiguous,
        per_position=per_position,
        paper_per_position=Fraction(1 << 12, 1 << bits),
        anywhere=failure_anywhere(per_position, draws),
        paper_anywhere=Fraction(1 << 46, 1 << bits),
    )


def failure_anywhere(p: Fraction, draws: int) -> tuple[Fraction, Fraction]:
    """Below and above 1 − (1 − p)^draws, by Bonferroni: Np − C(N,2)p² ≤ 1 − (1 − p)^N ≤ Np − C(N,2)p² + C(N,3)p³.

    Exact rationals, and no power with ten thousand million digits. For small Np the two are very close; for large Np
    they say little, yet nothing false.
    """
    once = draws * p
    twice = Fraction(draws * (draws - 1), 2) * p**2
    thrice = Fraction(draws * (draws - 1) * (draws - 2), 6) * p**3
    return max(Fraction(0), once - twice), min(Fraction(1), once, once - twice + thrice)


def failure_table(sigmas: Iterable[Rational] = PAPER_SIGMAS, margins: Iterable[int] = PAPER_MARGINS) -> str:
    """The failure probabilities at 64 bits as lines of text; probabilities of being right are rounded down.

    Only tests call it, to check the paper's errata.
    """
    lines = [_row("K", "σ", "breaking points", "failure at a position", "all right in 100 000 × 3 × 224 × 224")]
    for margin in margins:
        for sigma in sigmas:
            odds = failure_odds(sigma, margin)
            right = _truncated(1 - odds.anywhere[1])
            lines.append(_row(margin, sigma, odds.breaking_points, f"{odds.ambiguous} / 2^64", f"≥ {right}"))
    lines.append(_row("paper", "any", 4080, f"{1 << 12} / 2^64", f"≥ {_truncated(1 - Fraction(1 << 46, 1 << 64))}"))
    return "\n".join(lines)


def _row(*cells: object) -> str:
    return "".join(f"{cell!s:<{width}}" for cell, width in zip(cells, (7, 7, 18, 24, 0), strict=True))


def _truncated(x: Fraction, digits: int = 12) -> str:
    """x in [0, 1), cut off after `digits` decimals and never rounded up."""
    return f"0.{int(x * 10**digits):0{digits}d}"
