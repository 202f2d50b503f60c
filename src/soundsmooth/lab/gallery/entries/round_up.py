"""Numbers that are rounded the wrong way: the same votes, but a radius above the one that they prove.

With h of n votes the largest radius that Clopper–Pearson allows is the r with P(X ≥ h) = α for X ~ Bin(n, Φ(r/σ)). A
stated r is too large if and only if that tail, at that r, exceeds α: decided in balls of 512 bits. The usual way is
scipy's beta.ppf and norm.ppf, which err to both sides, and a print with three digits, which rounds up as often as
down. Ours is the stored double and its printed decimals. Nothing is sampled: the formulas are the same for all.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from ....core.decimals import truncated
from ..certifiers import Certifier, Ours, Procedure, refuse
from ..options import Options
from ..stated_radius import N, by_scipy, proved, too_large
from ..trial import Finding, Trial

CLAIM = "the usual formulas and the usual print ('{:.3}') of a radius, at concrete counts, against the proved radius"
#: 98 022 votes give 1.0150004…, which is printed as 1.02; all votes give 1.9057…, printed as 1.91; then any others.
HITS = (98_022, 100_000, *range(95_500, 100_000, 250))

#: A stated radius, and the hits that it is stated for.
Stated = tuple[Fraction, int]


def usual(name: str) -> Trial:
    """The usual formula, and the usual print of its radius. (ART returns its radius and prints nothing.)"""
    radii = {hits: by_scipy(hits) for hits in HITS}
    printed = [(Fraction(f"{r or proved(hits):.3}"), hits) for hits, r in radii.items() if name != "art"]
    stored = [(Fraction(r), hits) for hits, r in radii.items() if r is not None]
    said = [f"{_share(part)} {how}" for part, how in ((printed, "as printed"), (stored, "as scipy computes")) if part]
    missing = "" if stored else " (what scipy computes needs scipy, which is not installed)"
    return _trial(name, printed + stored, f"too large: {', '.join(said)}{missing}")


def ours(name: str) -> Trial:
    """The stored radius, and its decimals on the screen, in certificates and in reports."""
    radii = {hits: proved(hits) for hits in HITS}
    stated = [(Fraction(radius), hits) for hits, radius in radii.items()]
    stated += [(Fraction(truncated(r, digits)), hits) for hits, r in radii.items() for digits in (3, 6, 9)]
    return _trial(name, stated, f"too large: {_share(stated)} stored or printed")


def _trial(name: str, stated: list[Stated], note: str) -> Trial:
    """FALSE at the first radius that is too large."""
    radius, hits = next((one for one in stated if too_large(*one)), stated[0])
    false = too_large(radius, hits)
    if false:
        note = f"{hits} of {N}: {float(radius)!r} is stated, {truncated(proved(hits), 17)} is proved; {note}"
    finding = Finding.FALSE_NUMBER if false else Finding.HOLDS
    return Trial("round-up", name, finding, float(radius), counts=((hits, N - hits),), note=note)


def _share(stated: list[Stated]) -> str:
    return f"{sum(too_large(*one) for one in stated)} of {len(stated)}"


#: The last step of most code in use: scipy's formula, and a radius printed with three digits.
FIELD_FORMULA = Procedure(
    "standard-scipy", partial(refuse, "this is a formula for given votes, and counts none itself")
)
EXTRA: tuple[Certifier, ...] = (FIELD_FORMULA,)


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """Concrete counts of the usual n = 100 000; the option n has no effect.

    The gallery's other certifiers take their last step from `exact`, so they have no row here.
    """
    for certifier in [*EXTRA, *certifiers]:
        if isinstance(certifier, Ours):
            yield ours(certifier.name)
        elif certifier.name in (FIELD_FORMULA.name, "art"):
            yield usual(certifier.name)
