"""Certified radii: is this claim below the radius that the bounds allow, and which radius would the auditor give?

Φ rises, so r ≤ σ · Φ⁻¹(p) exactly if Φ(r/σ) ≤ p: to check a radius from p_lower alone needs no inverse.
"""

import math
from fractions import Fraction
from functools import partial

from .doubles import largest_accepted
from .normal import cdf_below, quantile, quantile_guess

#: Quantiles are enclosed so closely, one after the other, until two of them decide.
QUANTILE_BITS = (100, 200, 400)
#: As a certificate has it, or exactly.
Probability = Fraction | float


def radius_holds(radius: float, p_lower: Probability, p_upper: Probability | None, sigma: Fraction) -> bool:
    """Whether 0 ≤ radius ≤ σ/2 · (Φ⁻¹(p_lower) − Φ⁻¹(p_upper)), where a p_upper that is None stands for 1 − p_lower.

    Guarantee: True only if it is so; False if it is not so, or not proved with 1024 bits. (Where p_upper is not
    1 − p_lower: with quantiles of 400 bits.)
    """
    winner, others = _check(p_lower, p_upper, sigma)
    if not math.isfinite(radius) or radius < 0 or others > winner:
        return False
    if radius == 0:
        return True
    if others == 1 - winner:
        return bool(cdf_below(Fraction(radius) / sigma, winner))
    gap = 2 * Fraction(radius) / sigma
    for bits in QUANTILE_BITS:
        (winner_low, winner_high), (others_low, others_high) = quantile(winner, bits), quantile(others, bits)
        if gap <= winner_low - others_high:
            return True
        if gap > winner_high - others_low:
            return False
    return False


def radius_below(p_lower: Probability, p_upper: Probability | None, sigma: Fraction) -> float:
    """The auditor's own radius σ/2 · (Φ⁻¹(p_lower) − Φ⁻¹(p_upper)), or 0 if p_lower ≤ p_upper; None as above.

    Guarantee: at most the true value, and the largest double that is (as far as `radius_holds` can prove it).
    """
    winner, others = _check(p_lower, p_upper, sigma)
    guess = float(min(sigma, Fraction(10**300))) / 2 * (quantile_guess(winner) - quantile_guess(others))
    return largest_accepted(partial(radius_holds, p_lower=winner, p_upper=others, sigma=sigma), guess)


def _check(p_lower: Probability, p_upper: Probability | None, sigma: Fraction) -> tuple[Fraction, Fraction]:
    """Both bounds, exactly; a ValueError for what is none."""
    for p in (p_lower, p_upper):
        if p is not None and not 0 < p < 1:
            raise ValueError(f"a probability must lie strictly between 0 and 1, not {p}")
    if sigma <= 0:
        raise ValueError(f"σ must be greater than 0, not {sigma}")
    winner = Fraction(p_lower)
    return winner, 1 - winner if p_upper is None else Fraction(p_upper)
