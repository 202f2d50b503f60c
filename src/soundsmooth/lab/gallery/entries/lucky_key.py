"""Trying keys until one is lucky: each certificate alone is false with probability α at most, the one shown is not.

The wrong class has p = 0.495. With n = 1000 one key in about 3500 has a Clopper–Pearson bound above ½ for it; the
selection has to err as well, which about half of the keys do. Nothing fixes the seed of the certifiers in use, so an
issuer may try thousands in a minute. The votes are drawn from the binomial law: neither noise nor classifier is at
fault. Ours promises model, input and seed first; then the verifier draws the nonce, and there is one key to try.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ..certifiers import Certifier, Ours
from ..false_rates import exceeding, least_hits, rate_trial
from ..options import Options
from ..trial import Trial

CLAIM = "keys are tried until the wrong class (p = 0.495) is certified; the share of issuers who succeed exceeds α"
P, ALPHA = Fraction(495, 1000), Fraction(1, 1000)
N, N0 = 1000, 100  # as `certificates` has it
ISSUERS, KEYS = 100, 5000
COMMITMENTS, REAL_ALPHA = 500, Fraction(1, 10)


def lucky(shape: tuple[int, ...], n: int, rng: np.random.Generator) -> npt.NDArray[Any]:
    """For each key: whether selection chooses the wrong class and the bound then exceeds ½."""
    selected = 2 * rng.binomial(N0, float(P), shape) > N0
    return np.asarray(selected & (rng.binomial(n, float(P), shape) >= least_hits(n, Fraction(1, 2), ALPHA)))


def tried(name: str, n: int, rng: np.random.Generator) -> Trial:
    """Issuers who may choose the seed."""
    found = lucky((ISSUERS, KEYS), n, rng)
    false, mean = int(found.any(axis=1).sum()), found.size // max(1, int(found.sum()))
    note = (
        f"{false} of {ISSUERS} issuers certify the wrong class with one of {KEYS} keys (it takes {mean} on average; "
        "votes simulated, for nothing in this certifier fixes the seed)"
    )
    return rate_trial("lucky-key", name, false, ISSUERS, ALPHA, note)


def promised(name: str, n: int, rng: np.random.Generator) -> Trial:
    """Ours, for real: p = 0.4953 for class 1, a noise of at least 2 levels with σ = ½; at an α that runs can show."""
    false = exceeding(COMMITMENTS, n, REAL_ALPHA, 2)
    note = (
        f"one key for each nonce: p_lower > p in {false} of {COMMITMENTS} commitments at α = {float(REAL_ALPHA)}; "
        "without a nonce the certificate says key: self-chosen and claims nothing against its issuer"
    )
    return rate_trial("lucky-key", name, false, COMMITMENTS, REAL_ALPHA, note)


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """A larger n than 1000 would make this p too hard to certify; a smaller one is taken."""
    n, rng = min(options.n or N, N), np.random.default_rng()
    for certifier in certifiers:
        yield (promised if isinstance(certifier, Ours) else tried)(certifier.name, n, rng)
