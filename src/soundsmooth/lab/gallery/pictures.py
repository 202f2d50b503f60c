"""Pictures for the entries where a picture helps. Matplotlib is imported only when one is drawn."""

from collections.abc import Callable
from importlib.util import find_spec
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.grid import IMAGES
from .certifiers import values
from .overlap import CLAIM, FIRST, PRECISIONS, Overlap, measure
from .reachable import Floats, reachable

SINGLE = np.dtype("float32")
BLUE, ORANGE, GREY = "#1f5fa8", "#d9661f", "#8a8a8a"
DPI = 110


def picture(entry: str, folder: Path) -> Path | None:
    """Draw the picture of an entry into the folder and return its path; None for an entry without one."""
    draw = PICTURES.get(entry)
    if draw is None:
        return None
    check_matplotlib()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{entry}.png"
    draw(path)
    return path


def check_matplotlib() -> None:
    """A clear error before any work is done, if matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise ValueError("pictures need matplotlib: pip install 'soundsmooth[plots]'")


def draw_reachable(path: Path, level: int = 210, other: int = 0) -> None:
    """Above: single floats that a and a′ can reach. Below: the share of floats that a can reach, along the line."""
    a, b = values(np.array([level, other]), SINGLE)
    figure = _figure(7.2, 4.6)
    near, far = figure.subplots(2, 1, height_ratios=(1, 1.5))
    _rows(near, consecutive(np.float32(0.11), 65), [(a, f"{level}/255", BLUE), (b, _value(other), ORANGE)])
    near.set_title(
        "65 neighbouring float32 numbers from 0.11 on: which are a sum with some float ε?", loc="left", fontsize=9
    )
    places = np.linspace(-2, 2, 801)
    density = np.array([exp(-2 * (x - b) ** 2) for x in places])
    far.fill_between(places, density, color=GREY, alpha=0.25, lw=0, label="density of a′ + ε, σ = 0.5")
    for point, name, colour in ((a, f"a = {level}/255", BLUE), (b, f"a′ = {_value(other)}", ORANGE)):
        share = np.array([share_reachable(point, x) for x in places])
        mean = float((share * density).sum() / density.sum())
        far.plot(places, share, color=colour, lw=1.2, label=f"from {name} (mean {mean:.2f})")
    far.set(xlim=(-2, 2), ylim=(0, 1.08), xlabel="v", ylabel="share of floats near v\nthat can be reached")
    far.legend(loc="center right", bbox_to_anchor=(0.94, 0.55), fontsize=8, framealpha=0.9)
    _save(figure, path)


def draw_float_sum(path: Path, first: int = 209, second: int = 210, k: int = 6) -> None:
    """The floats that the paper's published code gives one noisy level, from two neighbouring levels of the image."""
    noisy = np.arange(-k * IMAGES.q, (k + 1) * IMAGES.q + 1)
    sums = {level: float_sums(level, noisy, k) for level in (first, second)}
    figure = _figure(7.2, 4.6)
    near, far = figure.subplots(2, 1, height_ratios=(1.5, 1))
    window = slice(k * IMAGES.q + 40, k * IMAGES.q + 101)
    for level, colour, marker in ((first, ORANGE, "x"), (second, BLUE, "o")):
        gap = (sums[level].astype(np.float64) - noisy / IMAGES.q) * 2**24
        face = "none" if marker == "o" else colour
        near.scatter(noisy[window], gap[window], 26, color=colour, marker=marker, facecolors=face, label=f"i = {level}")
    near.axhline(0, color=GREY, lw=0.6)
    near.set_title("exact noise, added as floats: the sum tells from which level i it came", loc="left", fontsize=9)
    near.set(xlabel="noisy level t = i + noise", ylabel="float32 sum − t/255,\nin units of 2⁻²⁴")
    near.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, borderaxespad=0)
    differ = sums[first] != sums[second]
    blocks = differ[: len(differ) // 51 * 51].reshape(-1, 51)
    far.bar(noisy[: blocks.size : 51] / IMAGES.q, blocks.mean(1), 51 / IMAGES.q, align="edge", color=BLUE, alpha=0.7)
    far.set(xlim=(-k, k + 1), ylim=(0, 1), xlabel="noisy value t/255", ylabel="share of t\nwhere the sums differ")
    _save(figure, path)


def draw_overlap(found: list[Overlap], path: Path) -> None:
    """The minimised probability of every level, one panel for each precision."""
    figure = _figure(7.2, 1.0 + 1.75 * len(found))
    panels = figure.subplots(len(found), 1, sharex=True, squeeze=False)[:, 0]
    for panel, overlap in zip(panels, found, strict=True):
        level = np.arange(IMAGES.levels)
        high = overlap.probability >= CLAIM
        panel.axhline(CLAIM, color=GREY, lw=0.8, ls="--")
        for chosen, colour, name in ((~high, BLUE, f"below {CLAIM}"), (high, ORANGE, f"{CLAIM} or more")):
            panel.scatter(level[chosen], overlap.probability[chosen], 8, color=colour, label=name, lw=0)
        panel.axvspan(-2, FIRST - 0.5, color=GREY, alpha=0.2, lw=0)
        panel.set(xlim=(-2, 257), ylim=(0.65, 1.02), ylabel="least P")
        panel.set_title(f"{overlap.precision} precision ({_how(overlap)})", loc="left", fontsize=9)
    panels[0].legend(fontsize=8, loc="lower right", ncols=2)
    panels[-1].set_xlabel("level of a (grey: black and nearly black pixels, which the claim leaves out)")
    figure.suptitle("Could a ⊕ ε₁ have come from the best neighbour b, |a − b| ≤ 2/255?  σ = 1", fontsize=10)
    _save(figure, path)


def consecutive(start: np.floating[Any], count: int) -> Floats:
    """So many neighbouring positive floats, from `start` on."""
    first = np.asarray(start)
    bits = first.view(f"u{first.dtype.itemsize}") + np.arange(count, dtype=f"u{first.dtype.itemsize}")
    return bits.view(first.dtype)


def share_reachable(a: Floats, place: float, count: int = 64) -> float:
    """The share of neighbouring float32 numbers, from `place` on away from 0, that a can reach."""
    sign = SINGLE.type(-1 if place < 0 else 1)
    return float(reachable(a, sign * consecutive(np.float32(abs(place)), count)).mean())


def float_sums(level: int, noisy: npt.NDArray[np.int64], k: int) -> Floats:
    """fl(fl(fl(j/255) − (k + 1)) + fl(i/255)) for the noisy levels i + j − 255(k + 1), in float32."""
    j = noisy - level + IMAGES.q * (k + 1)
    sums: Floats = (values(j, SINGLE) - SINGLE.type(k + 1)) + values(np.array(level), SINGLE)
    return sums


def _rows(panel: Any, floats: Floats, rows: list[tuple[Floats, str, str]]) -> None:
    for height, (point, name, colour) in enumerate(reversed(rows)):
        hit = reachable(point, floats)
        at = np.arange(len(floats))
        panel.scatter(at, np.full(len(at), height), 9, color="#d0d0d0", lw=0)
        panel.scatter(at[hit], np.full(hit.sum(), height), 34, color=colour, lw=0)
        panel.text(-1.5, height, f"from {name}", ha="right", va="center", fontsize=9, color=colour)
    panel.set(xlim=(-1, len(floats)), ylim=(-0.7, len(rows) - 0.3), yticks=[], xlabel="floats, in order")
    for side in ("left", "top", "right"):
        panel.spines[side].set_visible(False)


def _value(level: int) -> str:
    return f"{level}/255" if level else "0"


def _how(overlap: Overlap) -> str:
    return "every float counted" if overlap.n is None else f"{overlap.n:,} draws".replace(",", " ")


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def _save(figure: Any, path: Path) -> None:
    for panel in figure.axes:
        panel.tick_params(labelsize=8)
        panel.xaxis.label.set_fontsize(9)
        panel.yaxis.label.set_fontsize(9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _draw_all_precisions(path: Path) -> None:
    draw_overlap([measure(name, 200_000) for name in PRECISIONS], path)


#: The entries that have a picture. (`overlap` is a command of its own.)
PICTURES: dict[str, Callable[[Path], None]] = {
    "listing1": draw_reachable,
    "pixel": draw_reachable,
    "float-sum": draw_float_sum,
    "overlap": _draw_all_precisions,
}
