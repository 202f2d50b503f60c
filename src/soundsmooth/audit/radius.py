"""Certified radii: is this claim below the radius that the bounds allow, and which radius would the auditor give?

Φ rises, so r ≤ σ · Φ⁻¹(p) exactly if Φ(r/σ) ≤ p: to check a radius needs no inverse.
"""

import math
from fractions import Fraction

from .doubles import largest_accepted
from .normal import HALF, cdf_below, quantile, quantile_guess

#: Quantiles are enclosed so closely, one after the other, until two of them decide.
QUANTILE_BITS = (100, 200, 400)


def radius_holds(radius: float, p_lower: Fraction | float, sigma: Fraction) -> bool:
    """Whether 0 ≤ radius ≤ σ · Φ⁻¹(p_lower).

    Guarantee: True only if it is so; False if it is not so, or not proved with 1024 bits.
    """
    p = _check(p_lower, sigma)
    if not math.isfinite(radius) or radius < 0 or p < HALF:
        return False
    return radius == 0 or bool(cdf_below(Fraction(radius) / sigma, p))


def radius_two_holds(radius: float, p_lower: Fraction | float, p_upper: Fraction | float, sigma: Fraction) -> bool:
    """Whether 0 ≤ radius ≤ σ/2 · (Φ⁻¹(p_lower) − Φ⁻¹(p_upper)).

    Guarantee: True only if it is so; False if it is not so, or not proved with quantiles of 400 bits.
    """
    winner, others = _check(p_lower, sigma), _check(p_upper, sigma)
    if not math.isfinite(radius) or radius < 0 or others > winner:
        return False
    if radius == 0:
        return True
    if others == 1 - winner:
        return radius_holds(radius, winner, sigma)
    gap = 2 * Fraction(radius) / sigma
    for bits in QUANTILE_BITS:
        (winner_low, winner_high), (others_low, others_high) = quantile(winner, bits), quantile(others, bits)
        if gap <= winner_low - others_high:
            return True
        if gap > winner_high - others_low:
            return False
    return False


def radius_below(p_lower: Fraction | float, sigma: Fraction) -> float:
    """The auditor's own radius σ · Φ⁻¹(p_lower), or 0 if p_lower ≤ ½.

    Guarantee: at most the true value, and the largest double that is (as far as 1024 bits can prove it).
    """
    p = _check(p_lower, sigma)
    guess = _float(sigma) * quantile_guess(p)
    return largest_accepted(lambda radius: radius_holds(radius, p, sigma), guess)


def radius_two_below(p_lower: Fraction | float, p_upper: Fraction | float, sigma: Fraction) -> float:
    """The auditor's own radius σ/2 · (Φ⁻¹(p_lower) − Φ⁻¹(p_upper)), or 0 if p_lower ≤ p_upper.

    Guarantee: at most the true value, and the largest double that is (as far as quantiles of 400 bits can prove it).
    """
    winner, others = _check(p_lower, sigma), _check(p_upper, sigma)
    guess = _float(sigma) / 2 * (quantile_guess(winner) - quantile_guess(others))
    return largest_accepted(lambda radius: radius_two_holds(radius, winner, others, sigma), guess)


def _float(sigma: Fraction) -> float:
    return float(min(sigma, Fraction(10**300)))


def _check(p: Fraction | float, sigma: Fraction) -> Fraction:
    if not 0 < p < 1:
        raise ValueError(f"a probability must lie strictly between 0 and 1, not {p}")
    if sigma <= 0:
        raise ValueError(f"σ must be greater than 0, not {sigma}")
    return Fraction(p)
