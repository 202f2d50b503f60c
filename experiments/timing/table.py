"""Write the timing table of docs/paper.md from what was measured.

    python experiments/timing/table.py docs/data/timing.json docs/paper.md

Only what lies between the marks in the page is replaced; no number there is typed by hand.
"""

import json
from pathlib import Path
from typing import Any

from soundsmooth.lab.scripts.arguments import paths
from soundsmooth.lab.scripts.pages import fill, interval, table

METHODS = ("shared", "reloaded", "fresh")


def main(source: Path, page: Path) -> None:
    fill(page, "timing", tables(json.loads(source.read_text())))


def tables(rows: list[dict[str, Any]]) -> str:
    machines = sorted({f"{row['machine']}, torch {row['environment']['torch']}" for row in rows})
    works = sorted({f"{row['network']} with n = {row['n']} in batches of {row['batch']}" for row in rows})
    command = "python experiments/timing/measure.py docs/data/timing.json"
    commands = "\n".join(f"    {command} {_options(rows, rounds)}" for rounds in sorted({r["rounds"] for r in rows}))
    return (
        f"On one GPU, {'; '.join(machines)}; {', '.join(works)}:\n\n{commands}\n\n"
        f"{_seconds(rows)}\n\n{_ratios(rows)}\n\n"
        "A ratio is the median of those of the rounds, in each of which every method ran once; in square brackets its "
        "bootstrap interval, which for so few is hardly less than their whole range; in round ones the paper's. "
        "Breakpoints and tables are proved from nothing, on one core. Where a round has one image only, *shared* noise "
        "is made for it as well, which takes milliseconds. Standard smoothing, as the field writes it, fetches the "
        "votes after every batch, and the GPU waits; ours stay there while later batches run. *Kept* is standard "
        "smoothing that does the same, so the last column is what is left of the difference."
    )


def _options(rows: list[dict[str, Any]], rounds: int) -> str:
    """Those that made the rows with so many rounds."""
    precisions = {row["precision"] for row in rows if row["rounds"] == rounds}
    only = "" if precisions == {row["precision"] for row in rows} else f' --precision "{precisions.pop()}"'
    return f"--rounds {rounds}{only}"


def _seconds(rows: list[dict[str, Any]]) -> str:
    names = ("standard", "kept", *METHODS)
    body = [
        [*_which(row), *(f"{row['seconds'][name]:.3f}" for name in names), f"{row['breakpoints, seconds']:.3f}"]
        for row in rows
    ]
    return table(["one image, seconds", "k", "rounds", *names, "breakpoints"], body)


def _ratios(rows: list[dict[str, Any]]) -> str:
    names = [f"{name} / standard" for name in METHODS]
    body = []
    for row in rows:
        ratios = [f"{interval(row['ratios'][f'{name} / standard'], 3)} ({row['paper'][name]})" for name in METHODS]
        body.append([*_which(row), *ratios, interval(row["ratios"]["fresh / kept"], 3)])
    return table(["ratios", "k", "rounds", *names, "fresh / kept"], body)


def _which(row: dict[str, Any]) -> tuple[str, str, str]:
    return f"{row['network']}, {row['precision']}", row["k"], str(row["rounds"])


if __name__ == "__main__":
    main(*paths(__doc__, "source", "page"))
