"""Write the timing table of docs/paper.md from what was measured.

    python experiments/timing/table.py docs/data/timing.json docs/paper.md

Only what lies between the marks in the page is replaced; no number there is typed by hand.
"""

import json
from pathlib import Path
from typing import Any

from soundsmooth.bench.asked import paths
from soundsmooth.bench.pages import fill, interval, table

METHODS = ("shared", "reloaded", "fresh")


def main(source: Path, page: Path) -> None:
    fill(page, "timing", tables(json.loads(source.read_text())))


def tables(rows: list[dict[str, Any]]) -> str:
    ratios = [f"{name} / standard" for name in METHODS]
    names = ["one image, seconds", "k", "standard", *METHODS, "breakpoints", *ratios]
    machines = sorted({f"one {row['machine']}, torch {row['environment']['torch']}" for row in rows})
    rounds = min(row["rounds"] for row in rows)
    note = (
        f"A ratio is the median of {rounds} rounds or more, in each of which every method ran once; in square brackets "
        "its bootstrap interval, which for so few is hardly less than their whole range; in round ones the paper's. "
        "Breakpoints and tables are proved from nothing, on one core. Where a round has one image only, *shared* noise "
        "is made for it as well, which takes milliseconds. That ratios are below 1 is hardly the noise's merit, which "
        "takes a few milliseconds in either procedure: standard smoothing, as the field writes it, fetches the votes "
        "after every batch, and the GPU waits; ours stay there while later batches run."
    )
    command = "`python experiments/timing/measure.py docs/data/timing.json`."
    return f"On {'; '.join(machines)}: {command}\n\n{table(names, [row_of(row) for row in rows])}\n\n{note}"


def row_of(row: dict[str, Any]) -> list[str]:
    seconds = row["seconds"]
    return [
        f"{row['network']}, n = {row['n']}, batch {row['batch']}, {row['precision']}",
        row["k"],
        *(f"{seconds[name]:.3f}" for name in ("standard", *METHODS)),
        f"{row['breakpoints, seconds']:.3f}",
        *(f"{interval(row['ratios'][f'{name} / standard'], 3)} ({row['paper'][name]})" for name in METHODS),
    ]


if __name__ == "__main__":
    main(*paths(__doc__, "source", "page"))
