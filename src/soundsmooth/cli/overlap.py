"""`soundsmooth overlap`: how far the noise of neighbouring levels overlaps in floats, as a table, JSON or a plot."""

import json
from math import ceil, floor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..certification.settings import copies
from ..lab.gallery.overlap import CLAIM, FIRST, PIXELS, PRECISIONS, Overlap, measure
from ..lab.gallery.pictures import check_matplotlib, draw_overlap
from .plain import print_line

LEGEND = (
    "P: how likely a float that is a plus noise could also be b plus noise. If it is below 1, some noisy values give a "
    "away, and a classifier can tell a from b. Levels are a and b (of 0 … 255), ⊕ is addition in floats.",
    f"a, b: the level a ≥ {FIRST} that is hardest to tell from its neighbours, and the neighbour b that is easiest to "
    f"tell from it. between: bounds at a confidence of 99.9 %. < {CLAIM}: whether the paper's claim holds there (? is "
    f"undecided: raise --n). ≥ {CLAIM}: how many levels contradict it. median: of P over all levels.",
)
ANSWERS = {True: "[green]yes[/]", False: "[red]no[/]", None: "[yellow]?[/]"}


def run_overlap(precisions: list[str], n: int, plot: Path | None, json_lines: bool) -> None:
    """Run the experiment of the paper's section 4.2 for the named precisions (all by default)."""
    copies(n, "n")
    for name in precisions:
        if name not in PRECISIONS:
            raise ValueError(f"there is no precision {name!r}; there are {', '.join(PRECISIONS)}")
    if plot is not None:
        check_matplotlib()
        if plot.suffix != ".png":
            raise ValueError(f"the plot's file must end in .png, not {plot.name!r}")
    found = [measure(name, n) for name in precisions or PRECISIONS]
    if json_lines:
        for overlap in found:
            print(json.dumps(to_dict(overlap)), flush=True)
    else:
        _show(Console(), found)
    if plot is not None:
        draw_overlap(found, plot)


def to_dict(overlap: Overlap) -> dict[str, Any]:
    """Plain data for a line of JSON."""
    level = overlap.worst_level
    low, high = overlap.bounds(level)
    return {
        "precision": overlap.precision,
        "sigma": 1,
        "n": overlap.n,
        "worst": {
            "level": level,
            "partner": int(overlap.partner[level]),
            "probability": overlap.worst,
            "lower": low,
            "upper": high,
        },
        "below_0.99": overlap.claim,
        "levels_at_0.99_or_more": overlap.exceptions,
        "median": overlap.median,
        "image_at_worst": overlap.image_at_worst,
        "image_spread": overlap.image_spread,
        "partner": overlap.partner.tolist(),
        "probability": overlap.probability.tolist(),
    }


def _show(console: Console, found: list[Overlap]) -> None:
    title = f"P(a ⊕ ε₁ = b ⊕ ε₂ for some ε₂), σ = 1, best b within 2/255; worst a ≥ {FIRST}"
    headings = ("precision", "a, b", "P there", "between", f"< {CLAIM}", f"≥ {CLAIM}", "median")
    table = Table(*headings, title=title, title_justify="left", title_style="bold")
    for overlap in found:
        level = overlap.worst_level
        table.add_row(
            overlap.precision,
            f"{level}, {overlap.partner[level]}",
            f"{overlap.worst:.5f}",
            _interval(overlap),
            ANSWERS[overlap.claim],
            str(overlap.exceptions),
            f"{overlap.median:.4f}",
        )
    console.print(table)
    for text in LEGEND:
        print_line(console, text)
    for overlap in found:
        print_line(console, _consequence(overlap))


def _interval(overlap: Overlap) -> str:
    """The bounds, rounded outwards."""
    if overlap.n is None:
        return "all floats"
    low, high = overlap.bounds(overlap.worst_level)
    return f"{floor(low * 1e5) / 1e5:.5f}…{ceil(high * 1e5) / 1e5:.5f}"


def _consequence(overlap: Overlap) -> str:
    """What it means for an image of 3072 values of which half are at level 5 or above."""
    if overlap.image_at_worst < 1:
        worst = f"at most {overlap.image_at_worst:.1e} (the paper, from 0.99: {CLAIM**PIXELS:.1e})"
    else:
        worst = f"up to 1, when all are at level {overlap.worst_level}"
    return (
        f"{overlap.precision}: a noisy image with {PIXELS} of 3072 values at levels ≥ {FIRST} could come from the "
        f"other image with probability {worst}; with these values spread over all levels, {overlap.image_spread:.1e}"
    )
