"""How much of α the bounds with looks use, exactly: the largest probability of a false claim, over all p.

    python experiments/looks/levels.py docs/data/looks_levels.json

For n = 100 000, α = 0.001, the default looks and levels, each σ, and radii in steps of 0.25 as far as n reaches:

- `b`, set radii. p₀ is the threshold of the radius. A claim "R > r" is false if p < p₀. Its probability rises with p,
  so the supremum over these p is P_p₀(some boundary is reached). This is what stands here, as a share of α.
- `a`, Clopper–Pearson at each look: the same for the claim p_lower ≥ p₀.
- `a_near`, Clopper–Pearson, any claim. P_p(p_lower > p) rises with p between two jumps, which are the values that the
  bound of some look can have. So its supremum is that of the limits from below at the jumps. Here is the largest of
  these limits at the jumps next below p₀, one for each look.

`a_grid` has the same limits at jumps that are spread evenly over (½, 1), `a_most` the largest of all. Each number is a
proved upper bound of a probability, by the walk in balls of `exact.group_sequential`, and less than 2⁻⁶⁰ above it.
"""

import json
import sys
from bisect import bisect_left
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path

from soundsmooth.certification.goal import STEP, default_counts, default_levels, threshold
from soundsmooth.exact import boundaries, clopper_pearson_below, crossing_probability
from soundsmooth.noise import Gaussian

ALPHA, N = Fraction(1, 1000), 100_000
SIGMAS = ("0.12", "0.25", "0.5", "1")
LOOKS = default_counts(N, None)
LEVELS = default_levels(LOOKS, ALPHA)
GRID = 200
DIGITS = 6


@cache
def bound_of(look: int, hits: int) -> float:
    """The Clopper–Pearson bound of so many hits at a look."""
    return clopper_pearson_below(hits, LOOKS[look], LEVELS[look])


def least_hits(look: int, p: float) -> int:
    """How many hits at a look have a bound that is not below p; one more than there are copies if none."""
    return bisect_left(range(LOOKS[look] + 1), p, key=lambda hits: bound_of(look, hits))


def share(p: float, reached: tuple[int, ...]) -> float:
    """The probability under p that some look has so many hits, as a share of α."""
    return crossing_probability(p, LOOKS, reached) / float(ALPHA)


def share_alone(p: float) -> float:
    """P_p(p_lower ≥ p) for Clopper–Pearson at each look: at a jump, the limit of P_q(p_lower > q) from below."""
    return share(p, tuple(least_hits(look, p) for look in range(len(LOOKS))))


def jumps_below(p: float) -> list[float]:
    """For each look, the largest value not above p that its bound can have."""
    found = {bound_of(look, least_hits(look, p) - 1) for look in range(len(LOOKS)) if least_hits(look, p) > 0}
    return sorted(value for value in found if value > 0)


def radii_of(sigma: str) -> Iterator[dict[str, object]]:
    """What is used of α at each radius that n copies can reach."""
    law, step = Gaussian(sigma), 0
    while True:
        radius = STEP * step
        p = threshold(law, radius)
        found = (N + 1,) if p is None else boundaries(p, LOOKS, LEVELS)
        if p is None or found[-1] > N:
            return
        near = max(map(share_alone, jumps_below(p)))
        yield {
            "radius": str(radius),
            "in_sigmas": round(float(radius / law.sigma), 3),
            "threshold": p.hex(),
            "b": round(share(p, found), DIGITS),
            "a": round(share_alone(p), DIGITS),
            "a_near": round(near, DIGITS),
        }
        step += 1


def grid() -> list[list[float]]:
    """Jumps of the last look, spread evenly over (½, 1), each with what Clopper–Pearson uses of α there."""
    last = len(LOOKS) - 1
    jumps = [bound_of(last, least_hits(last, 0.5 + (i + 1) / (2 * GRID + 2))) for i in range(GRID)]
    return [[p, round(share_alone(p), DIGITS)] for p in jumps]


def main(out: Path) -> None:
    print(f"{'sigma':>6} {'radius':>7} {'/ sigma':>8} {'(b)':>7} {'(a)':>7} {'(a) near':>9}")
    tables = {}
    for sigma in SIGMAS:
        tables[sigma] = list(radii_of(sigma))
        for row in tables[sigma]:
            print(f"{sigma:>6} {row['radius']:>7} {row['in_sigmas']:>8} {row['b']:>7.4f} {row['a']:>7.4f}", end="")
            print(f" {row['a_near']:>9.4f}", flush=True)
    spread = grid()
    most = max([used for _, used in spread] + [float(str(row["a_near"])) for rows in tables.values() for row in rows])
    print(f"(a), at most: {most:.4f} of alpha")
    found = {
        "n": N,
        "alpha": str(ALPHA),
        "looks": LOOKS,
        "levels": [str(level) for level in LEVELS],
        "sigmas": tables,
        "a_grid": spread,
        "a_most": most,
    }
    out.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
