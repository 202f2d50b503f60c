"""The paper's numbers about false certificates, each measured or computed again: `soundsmooth break --numbers`."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ...certification.report import decimal_below
from ...core.decimals import raised, truncated
from ...exact import clopper_pearson_below, hoeffding_below, radius_below
from ...noise import Gaussian
from ..unsound import UnsoundStandard, failure_odds
from ..unsound.failures import PAPER_SIGMAS
from .certifiers import Array, values
from .guard_loss import Loss, losses
from .images import load_images
from .known_by_floats import brighter, enough_ink, reachable_from, reachable_from_any
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
    yield from _sampling()
    yield from _quantization()


def _listing1(n: int) -> Iterator[Number]:
    shares = {dtype: _hits(dtype, 0, n) / n for dtype in ("float16", "float32", "float64")}
    found = ", ".join(f"{share:.3f} ({dtype})" for dtype, share in shares.items())
    near = all(abs(share - 0.46) < 0.015 for share in shares.values())
    yield Number("Listing 1", "share of hits at 0", "0.46", found, _judged(near))
    at_a = {dtype: _hits(dtype, 210, n) / n for dtype in shares}
    kept = ", ".join(f"{share:.6f} ({dtype})" for dtype, share in at_a.items())
    yield Number("Listing 1", "share of hits at 210/255", "1.0", kept, _judged(min(at_a.values()) > 0.9999))
    hoeffding = radius_below(hoeffding_below(N, N, ALPHA), HALF)
    yield Number("Listing 1", "radius by Hoeffding", "1.26", truncated(hoeffding, 4), _rounded(hoeffding, "1.26"))
    clopper = radius_below(clopper_pearson_below(N, N, ALPHA), HALF)
    yield Number("Section 4", "radius by Clopper–Pearson", "1.9", truncated(clopper, 4), _rounded(clopper, "1.9"))
    near_a = {dtype: _standard_radius(dtype, 200) for dtype in ("float32", "float64")}
    balls = ", ".join(f"{truncated(radius, 2)} ({dtype})" for dtype, radius in near_a.items())
    yield Number(
        "Section 4",
        "the ball at 200/255 covers every level",
        "yes",
        f"largest distance {200 / 255:.4f}, radius {balls}",
        _judged(min(near_a.values()) > 200 / 255),
    )
    exact = {dtype: _grid_radius(dtype) for dtype in ("float64", "float32")}
    yield Number(
        "Section 5",
        "sound radius at 210/255, with infinitely many copies",
        "0.6",
        f"{truncated(exact['float64'], 4)} (f in float64), {truncated(exact['float32'], 4)} (float32)",
        f"{_rounded(exact['float64'], '0.6')} in float64; in float32 f has another smoothed value",
    )
    yield Number(
        "Section 5",
        "distance of 210/255 and 0",
        "0.82",
        decimal_below(Fraction(210, 255), 4),
        _rounded(210 / 255, "0.82"),
    )


def _hits(dtype: str, level: int, n: int) -> int:
    """The votes for class 1 among n float copies of a level, for f of Listing 1."""
    kind = np.dtype(dtype)
    smooth = UnsoundStandard(reachable_from(210)(kind), 2, HALF, dtype=dtype)
    return int(smooth.sample_under_noise(values(np.full(1, level), kind), n, 100_000)[1])


def _standard_radius(dtype: str, level: int) -> float:
    """The radius by Clopper–Pearson for class 1 at a level, of the same f."""
    return radius_below(clopper_pearson_below(_hits(dtype, level, N), N, ALPHA), HALF)


def _grid_radius(dtype: str) -> float:
    """σΦ⁻¹(p) for the exact p = Σ_t P(clamp(210 + T) = t) f(t), to 128 bits, rounded down."""
    a_law, bits = Gaussian(HALF), 128
    edges = [0, *a_law.breakpoints(bits), 1 << bits]
    levels = np.clip(210 + np.arange(-a_law.reach, a_law.reach + 1), a_law.lowest, a_law.highest)
    kind = np.dtype(dtype)
    hit = reachable_from(210)(kind)(values(levels[:, None], kind))[:, 1] > 0
    mass = sum(edges[i + 1] - edges[i] for i in np.flatnonzero(hit))
    return radius_below(float(Fraction(mass, 1 << bits)), HALF)


def _image() -> Iterator[Number]:
    radius = radius_below(clopper_pearson_below(N, N, ALPHA), ONE)
    yield Number("Section 4.1", "radius of G_a, σ = 1", "3.8115", truncated(radius, 6), _rounded(radius, "3.8115"))
    yield Number(
        "Section 4.1",
        "‖a − a′‖ for 512 pixels",
        "< 0.09",
        f"{math.sqrt(512) / 255:.4f}",
        _judged(512 < (0.09 * 255) ** 2),
    )
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
    yield Number("Proposition 4.1", "‖p‖ of the universal perturbation", "≤ 1", f"{norm:.4f}", _judged(norm <= 1))


def _least(enough: Any, low: int, high: int) -> int:
    """The least integer in (low, high] that is enough, by bisection."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _judged(holds: bool) -> str:
    return "reproduced" if holds else "contradicted"


def _rounded(found: float, stated: str) -> str:
    """Whether the paper's decimal is what was found, rounded to as many digits; and whether that claims too much."""
    digits = len(stated.split(".")[1])
    if f"{found:.{digits}f}" != stated:
        return "contradicted"
    return "reproduced (printed rounded up)" if Fraction(stated) > Fraction(found) else "reproduced"


def _enough(needed: int, stated: int) -> str:
    return "reproduced: the stated number is enough" if needed <= stated else "contradicted: more are needed"


def _revisions(n: int) -> Iterator[Number]:
    for size, stated in ((3072, "0.997"), (150_528, "0.86")):
        power = (1 - 1e-6) ** size
        yield Number(
            "Section 4.3", f"(1 − 10⁻⁶)^{size} (printed as 1 − 10⁶)", stated, f"{power:.4f}", _rounded(power, stated)
        )
    for loss in losses():
        what = f"copies kept by a guard band, {loss.images}, {loss.precision}"
        kept = truncated(loss.kept, 3) if loss.kept > 1e-3 else f"< {max(loss.kept, 1e-15) * 10:.0e}"
        yield Number("Section 4.3", what, loss.paper or "not stated", kept, _guard(loss))
    for precision in ("single", "double", "half"):
        found = measure(precision, n)
        low, high = found.bounds(found.worst_level)
        text = f"≥ {truncated(low, 5)}" if found.claim is False else f"≤ {raised(high, 5)}"
        judged = "not decided by these draws" if found.claim is None else _judged(found.claim)
        what = f"overlap for a ≥ 5/255, {precision} precision, worst level {found.worst_level}"
        yield Number("Section 4.2", what, "< 0.99", text, judged)
        if precision == "single":
            image = found.image_at_worst
            decided = image < 2e-7 or low**1536 >= 2e-7  # the draws give an interval
            judged = _judged(image < 2e-7) if decided else "not decided by these draws"
            yield Number("Section 4.2", "the same for 1536 pixels, at most", "2·10⁻⁷", f"{image:.1e}", judged)


def _guard(loss: Loss) -> str:
    """The paper's share, or its "the problem will persist", against the computed one."""
    if not loss.paper:
        return "computed"
    if loss.precision == "float16":
        return _judged(loss.kept < 0.5)
    return "reproduced" if loss.kept >= float(loss.paper) else "contradicted: a guard that covers the rounding is wider"


def _sampling() -> Iterator[Number]:
    """Section 5.2.1 at 64 bits: how often Algorithm 2 (mended) has to give up, over the paper's σ, at k = 7.5 · 255."""
    odds = [failure_odds(sigma) for sigma in PAPER_SIGMAS]
    worst = max(odds, key=lambda each: each.per_position)
    holds = worst.per_position <= worst.paper_per_position
    wider = "contradicted for the noise of Algorithm 2, which has 2(k + 255) breaking points; right for N_D^k"
    why = "reproduced" if holds else wider
    yield Number("Section 5.2.1", "failure at one position", "≤ 2¹² / 2⁶⁴", f"{worst.ambiguous} / 2⁶⁴", why)
    right = 1 - max(each.anywhere[1] for each in odds)
    what = "no failure in 100 000 × 3 × 224 × 224"
    judged = _judged(right > Fraction("0.999996"))
    yield Number("Section 5.2.1", what, "> 0.999996", f"≥ {decimal_below(right, 8)}", judged)


def _quantization() -> Iterator[Number]:
    """Appendix E: other grids, and inputs that are rounded to one."""
    more = math.lcm(255, 256) // 255
    yield Number(
        "Appendix E", "integrals for a grid of 1/256, times those for 1/255", "256", str(more), _judged(more == 256)
    )
    distance = math.sqrt(3072) / 2000
    yield Number(
        "Appendix E", "√(3072 / 2000²)", "0.055", f"{distance:.4f}", f"{_rounded(distance, '0.055')}: arithmetic"
    )


def markdown(numbers: Iterator[Number]) -> str:
    """The table as it stands in docs/gallery.md."""
    lines = ["| where | what | the paper | found | |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *("| " + " | ".join(number) + " |" for number in numbers)])
