"""An audit at full level of images that were stopped: the auditor repeats the naive procedure without knowing it.

The issuer promises 11 looks and spends α on them, so its own certificates hold. When it stops is its own affair. Here
it stops at the first look whose bound *at full level* exceeds p, and never certifies more than it may. The auditor
votes on the same copies again, finds the same hits, and bounds p from them at the full level β: at the look that the
issuer chose. That is optional stopping, by the issuer's hand. With p = ½ the bound is false with 8.2 β; by symmetry an
upper bound at full β would refute true claims as often. Ours spends β on the looks as the issuer spent α.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ..certifiers import Array, Certifier, Ours
from ..false_rates import rate_trial
from ..options import Options
from ..repeated_looks import (
    chance,
    doubling_looks,
    needed_at_full_level,
    needed_hits,
    quadratic_levels,
    simulated,
    without_program,
)
from ..trial import Trial

CLAIM = "a stopped image is voted again and bounded at full β: 11 looks up to n = 100 000, the issuer chooses one"
P, BETA = Fraction(1, 2), Fraction(1, 1000)
N, AUDITS = 100_000, 20_000
NAIVE_AUDIT = without_program("naive-audit")
EXTRA: tuple[Certifier, ...] = (NAIVE_AUDIT,)


@lru_cache(maxsize=4)
def hits_at(looks: tuple[int, ...], spent: bool) -> Array:
    """For each look the least hits with which the auditor's bound exceeds p: at full β, or at what the look spends."""
    if spent:
        return needed_hits(looks, P, quadratic_levels(looks, BETA))
    return needed_at_full_level(looks, P, BETA)


def audited(name: str, looks: tuple[int, ...], spent: bool, rng: np.random.Generator) -> Trial:
    """Audits of images whose issuer stops where that auditor is wrong; it goes on to n where there is no such look."""
    needed = hits_at(looks, spent)
    false, share = simulated(float(P), looks, needed, AUDITS, rng), chance(float(P), looks, needed) / float(BETA)
    how = "β spent on the looks" if spent else "full β at the look that the issuer chose"
    note = f"{how}: the bound exceeds p in {false} of {AUDITS} audits, where β allows {float(BETA * AUDITS):g}"
    note += f"; by recursion {share:.2f} β (votes simulated)"
    return rate_trial("stopped-replay", name, false, AUDITS, BETA, note)


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """The naive auditor, and ours if it is among these."""
    n, rng = min(options.n or N, N), np.random.default_rng()
    looks = doubling_looks(n, max(1, n // 1000))
    yield audited(NAIVE_AUDIT.name, looks, False, rng)
    for certifier in certifiers:
        if isinstance(certifier, Ours):
            yield audited(certifier.name, looks, True, rng)
