"""Certified radii, rounded down."""

from fractions import Fraction

from flint import arb

from .balls import ball, float_below, lower_end, precision

BITS = 160


def quantile(p: Fraction) -> arb:
    """A ball around Φ⁻¹(p) for an exact p in (0, 1), at the current precision.

    Guarantee: the ball holds Φ⁻¹(p). The smaller of p and 1 − p is formed exactly, so nothing cancels.
    """
    if p > Fraction(1, 2):
        return -quantile(1 - p)
    return -(ball(2 * p).erfcinv()) * arb(2).sqrt()


def radius_below(p_lower: float, sigma: Fraction) -> float:
    """The certified radius σ · Φ⁻¹(p_lower), for p_lower in [½, 1).

    Guarantee: at most the true value, and within 1 ulp of the largest double that is.
    """
    _check(p_lower)
    return radius_two_below(p_lower, 1 - Fraction(p_lower), sigma)


def radius_two_below(p_lower: float, p_upper: Fraction | float, sigma: Fraction) -> float:
    """The certified radius σ/2 · (Φ⁻¹(p_lower) − Φ⁻¹(p_upper)), for p_upper ≤ p_lower.

    `p_lower` bounds the winner's probability from below, `p_upper` every other class's from above.

    Guarantee: at most the true value, and for doubles within 1 ulp of the largest double that is.
    """
    _check(p_lower)
    _check(p_upper)
    winner, others = Fraction(p_lower), Fraction(p_upper)
    if others > winner:
        raise ValueError(f"no radius: p_upper = {p_upper} exceeds p_lower = {p_lower}")
    if others == winner:
        return 0.0
    with precision(BITS):
        gap = quantile(winner) - quantile(others)
        return max(0.0, float_below(lower_end(gap * ball(sigma) / 2)))


def _check(p: Fraction | float) -> None:
    if not 0 < p < 1:
        raise ValueError(f"a probability must lie strictly between 0 and 1, not {p}")
