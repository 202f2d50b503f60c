"""The paper's numbers about false certificates, each measured or computed again: `soundsmooth break --numbers`."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..certificate import truncated
from ..exact import clopper_pearson_below, hoeffding_below, radius_below
from ..noise import law
from ..report import decimal_below
from ..unsound import UnsoundStandard
from .certifiers import Array, values
from .entries.image import brighter, enough_ink, reachable_from_any
from .entries.listing1 import reachable_from
from .guard_loss import losses
from .images import load_images
from .overlap import measure

ALPHA = Fraction(1, 1000)
N = 100_000
HALF, ONE = Fraction(1, 2), Fraction(1)


class Number(NamedTuple):
    """One statement of the paper, what we find, and the judgement."""

    where: str
    what: str
    paper: str
    ours: str
    judgement: str


def paper_numbers(n: int = 1_000_000) -> Iterator[Number]:
    """All of them; `n` draws where something is measured."""
    yield from _listing1(n)
    yield from _image()
    yield from _proposition()
    yield from _revisions(n)


def _listing1(n: int) -> Iterator[Number]:
    shares = {dtype: _share(dtype, 0, n) for dtype in ("float16", "float32", "float64")}
    found = ", ".join(f"{share:.3f} ({dtype})" for dtype, share in shares.items())
    yield Number("Listing 1", "share of hits at 0", "0.46", found, "reproduced")
    kept = ", ".join(f"{_share(dtype, 210, n):.6f} ({dtype})" for dtype in shares)
    yield Number("Listing 1", "share of hits at 210/255", "1.0", kept, "reproduced")
    hoeffding = radius_below(hoeffding_below(N, N, ALPHA), HALF)
    yield Number("Listing 1", "radius by Hoeffding", "1.26", truncated(hoeffding, 4), "reproduced (printed rounded up)")
    clopper = radius_below(clopper_pearson_below(N, N, ALPHA), HALF)
    yield Number("Section 4", "radius by Clopper–Pearson", "1.9", truncated(clopper, 4), "reproduced")
    yield Number(
        "Section 4",
        "from 200/255 every level is covered",
        "yes",
        f"largest distance {200 / 255:.4f} < {truncated(clopper, 4)}",
        "reproduced",
    )
    exact = {dtype: truncated(_grid_radius(dtype), 4) for dtype in ("float64", "float32")}
    yield Number(
        "Section 5",
        "sound radius at 210/255, with infinitely many copies",
        "0.6",
        f"{exact['float64']} (f in float64), {exact['float32']} (float32)",
        "reproduced in float64; in float32 f has another smoothed value",
    )
    yield Number("Section 5", "distance of 210/255 and 0", "0.82", decimal_below(Fraction(210, 255), 4), "reproduced")


def _share(dtype: str, level: int, n: int) -> float:
    """The share of class 1 among n float copies of a level, for f of Listing 1."""
    kind = np.dtype(dtype)
    smooth = UnsoundStandard(reachable_from(210)(kind), 2, HALF, dtype=dtype)
    counts = smooth.sample_under_noise(values(np.full(1, level), kind), n, 100_000)
    return float(counts[1] / n)


def _grid_radius(dtype: str) -> float:
    """σΦ⁻¹(p) for the exact p = Σ_t P(clamp(210 + T) = t) f(t), to 128 bits, rounded down."""
    a_law, bits = law(HALF), 128
    edges = [0, *a_law.breakpoints(bits), 1 << bits]
    levels = np.clip(210 + np.arange(-a_law.reach, a_law.reach + 1), a_law.lowest, a_law.highest)
    kind = np.dtype(dtype)
    hit = reachable_from(210)(kind)(values(levels[:, None], kind))[:, 1] > 0
    mass = sum(edges[i + 1] - edges[i] for i in np.flatnonzero(hit))
    return radius_below(float(Fraction(mass, 1 << bits)), HALF)


def _image() -> Iterator[Number]:
    radius = radius_below(clopper_pearson_below(N, N, ALPHA), ONE)
    yield Number(
        "Section 4.1", "radius of G_a, σ = 1", "3.8115", truncated(radius, 6), "reproduced (printed rounded up)"
    )
    yield Number("Section 4.1", "‖a − a′‖ for 512 pixels", "< 0.09", f"{math.sqrt(512) / 255:.4f}", "reproduced")
    images = enough_ink(load_images(None)[0])[:200]
    for dtype in ("float32", "float64", "float16"):
        largest = max(_hits_at_other(image, dtype) for image in images)
        judged = "reproduced" if largest <= 0.2 else "contradicted: half precision tells fewer images apart"
        what = f"largest share of G_a at a′, {len(images)} embedded images, {dtype}"
        yield Number("Section 4.1", what, "≤ 0.2", f"{largest:.3f}", judged)


def _hits_at_other(image: Array, dtype: str, n: int = 500) -> float:
    kind = np.dtype(dtype)
    other, _ = brighter(image, np.random.default_rng(3))
    smooth = UnsoundStandard(reachable_from_any(image[None])(kind), 2, ONE, dtype=dtype)
    return float(smooth.sample_under_noise(values(other, kind), n, n)[1] / n)


def _proposition() -> Iterator[Number]:
    needed = _least(lambda hits: radius_below(clopper_pearson_below(hits, N, ALPHA), ONE) >= 3, 99_000, N)
    yield Number("Appendix H", "hits of 100 000 for radius 3", "99 900", str(needed), _enough(needed, 99_900))
    needed = _least(lambda hits: clopper_pearson_below(hits, N, ALPHA) > 0.5, 50_000, N)
    yield Number("Appendix H", "hits of 100 000 for the class", "50 500", str(needed), _enough(needed, 50_500))
    copies = _least(lambda n: radius_below(clopper_pearson_below(n, n, ALPHA), ONE) >= 3, 1000, 100_000)
    yield Number("Proposition 4.1", "copies for radius 3, all votes right", "not stated", str(copies), "computed")
    norm = math.sqrt(240**2 + 3071) / 255
    yield Number("Proposition 4.1", "‖p‖ of the universal perturbation", "≤ 1", f"{norm:.4f}", "reproduced")


def _least(enough: Any, low: int, high: int) -> int:
    """The least integer in (low, high] that is enough, by bisection."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _enough(needed: int, stated: int) -> str:
    return "reproduced: the stated number is enough" if needed <= stated else "contradicted: more are needed"


def _revisions(n: int) -> Iterator[Number]:
    for size, stated in ((3072, "0.997"), (150_528, "0.86")):
        power = (1 - 1e-6) ** size
        yield Number("Section 4.3", f"(1 − 10⁻⁶)^{size} (printed as 1 − 10⁶)", stated, f"{power:.4f}", "reproduced")
    for loss in losses():
        if loss.paper:
            single = loss.precision == "float32"
            judged = "contradicted: a guard that covers the rounding is 240 times as wide" if single else "reproduced"
            what = f"copies kept by a guard band, {loss.images}, {loss.precision}"
            yield Number("Section 4.3", what, loss.paper, f"{loss.kept:.3g}", judged)
    for precision in ("single", "double", "half"):
        found = measure(precision, n)
        judged = (
            "reproduced" if found.claim else "contradicted" if found.claim is False else "not decided by these draws"
        )
        text = f"{found.bounds(found.worst_level)[1]:.5f} at most, level {found.worst_level}"
        yield Number("Section 4.2", f"overlap for a ≥ 5/255, {precision} precision", "< 0.99", text, judged)
        if precision == "single":
            yield Number(
                "Section 4.2", "the same for 1536 pixels", "2·10⁻⁷", f"{found.image_at_worst:.1e}", "reproduced"
            )


def markdown(numbers: Iterator[Number]) -> str:
    """The table as it stands in docs/gallery.md."""
    lines = ["| where | what | the paper | found | |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *("| " + " | ".join(number) + " |" for number in numbers)])
