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
    names = ["one image, seconds", "k", "rounds", "standard", "kept", *METHODS, "breakpoints", *ratios, "fresh / kept"]
    machines = sorted({f"{row['machine']}, torch {row['environment']['torch']}" for row in rows})
    several = sorted({row["rounds"] for row in rows})
    command = "python experiments/timing/measure.py docs/data/timing.json"
    note = (
        "A ratio is the median of those of the rounds, in each of which every method ran once; in square brackets "
        "its bootstrap interval, which for so few is hardly less than their whole range; in round ones the paper's. "
        "Breakpoints and tables are proved from nothing, on one core. Where a round has one image only, *shared* noise "
        "is made for it as well, which takes milliseconds. Standard smoothing, as the field writes it, fetches the "
        "votes after every batch, and the GPU waits; ours stay there while later batches run. *Kept* is standard "
        "smoothing that does the same, so the last column is what is left of the difference."
    )
    commands = "\n".join(f"    {command} {_options(rows, rounds)}" for rounds in several)
    measured = table(names, [row_of(row) for row in rows])
    return f"On one GPU, {'; '.join(machines)}:\n\n{commands}\n\n{measured}\n\n{note}"


def _options(rows: list[dict[str, Any]], rounds: int) -> str:
    """Those that made the rows with so many rounds."""
    precisions = {row["precision"] for row in rows if row["rounds"] == rounds}
    only = "" if precisions == {row["precision"] for row in rows} else f' --precision "{precisions.pop()}"'
    return f"--rounds {rounds}{only}"


def row_of(row: dict[str, Any]) -> list[str]:
    seconds = row["seconds"]
    return [
        f"{row['network']}, n = {row['n']}, batch {row['batch']}, {row['precision']}",
        row["k"],
        str(row["rounds"]),
        *(f"{seconds[name]:.3f}" for name in ("standard", "kept", *METHODS)),
        f"{row['breakpoints, seconds']:.3f}",
        *(f"{interval(row['ratios'][f'{name} / standard'], 3)} ({row['paper'][name]})" for name in METHODS),
        interval(row["ratios"]["fresh / kept"], 3),
    ]


if __name__ == "__main__":
    main(*paths(__doc__, "source", "page"))
