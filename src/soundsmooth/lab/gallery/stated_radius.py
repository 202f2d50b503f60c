"""A stated radius for given votes, against the radius that these votes prove."""

import importlib
from fractions import Fraction

from ...certification.certify import Counts, certify
from ...certification.settings import settings
from ...exact.balls import ball, lower_end, precision, upper_end
from ...exact.binomial import tail
from ...noise.law import Gaussian

ALPHA = Fraction(1, 1000)
SIGMA = Fraction(1, 2)
N = 100_000


def too_large(radius: Fraction, hits: int, bits: int = 512) -> bool:
    """Whether the radius exceeds the one that the hits prove.

    Guarantee: proved by balls; if these cannot tell, it is an error.
    """
    with precision(bits):
        p = (-ball(radius / SIGMA) / ball(2).sqrt()).erfc() / 2  # Φ(r/σ)
        if tail(hits, N, lower_end(p)) > ball(ALPHA):
            return True
        if tail(hits, N, upper_end(p)) <= ball(ALPHA):
            return False
    raise ArithmeticError(f"{bits} bits do not tell whether the radius {radius} is too large for {hits} hits")


def proved(hits: int) -> float:
    """The radius that ours stores for these votes."""
    counts = Counts((hits, N - hits), 0)
    return certify(counts, counts, Gaussian(SIGMA), settings(n0=N, n=N, alpha=ALPHA)).radius


def by_scipy(hits: int) -> float | None:
    """The usual formula, σ · norm.ppf(beta.ppf(α, h, n − h + 1)); None where scipy is not installed."""
    try:
        stats = importlib.import_module("scipy.stats")
    except ImportError:
        return None
    return float(float(SIGMA) * stats.norm.ppf(stats.beta.ppf(float(ALPHA), hits, N - hits + 1)))
