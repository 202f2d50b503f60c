"""Write the GPU tables of docs/performance.md from the JSON of `soundsmooth bench gpu`.

    python experiments/performance/table.py docs/data/gpu.json docs/performance.md

Only what lies between the two marks in the page is replaced.
"""

import json
from pathlib import Path
from typing import Any

from soundsmooth.lab.scripts.arguments import paths
from soundsmooth.lab.scripts.pages import fill, interval, table


def main(source: Path, page: Path) -> None:
    fill(page, "gpu tables", tables(json.loads(source.read_text())))


def tables(found: dict[str, Any]) -> str:
    rows = found["whole"]
    parts = [machine(found), noise(found["noise"]), whole(rows), faster(rows), exactness(found["exactness"])]
    return "\n\n".join(parts)


def machine(found: dict[str, Any]) -> str:
    software = found["environment"]
    return (
        f"One {found['machine']}; Python {software['python']}, torch {software['torch']}, Triton {software['triton']}."
    )


def noise(rows: list[dict[str, Any]]) -> str:
    names = list(rows[0]["ms"])
    body = [
        [
            "×".join(str(d) for d in (row["copies"], *row["shape"])),
            row["sigma"],
            *(f"{row['ms'][name]:.3f}" for name in names),
        ]
        for row in rows
    ]
    return table(["noisy copies alone, ms", "σ", *names], body)


def whole(rows: list[dict[str, Any]]) -> str:
    names = list(rows[0]["seconds"])
    body = [
        [
            f"{row['network']}, n = {row['n']}, {row['precision']}",
            *(f"{row['seconds'][name]:.3f}" for name in names),
            interval(row["ratios"]["ours, fresh / forward passes"]),
            interval(row["ratios"]["ours, fresh / standard"]),
        ]
        for row in rows
    ]
    return table(["one image, seconds", *names, "fresh / forward", "fresh / standard"], body)


def faster(rows: list[dict[str, Any]]) -> str:
    """Half the precision, channels last, and the batch that we choose, against what the field runs."""
    seconds = {(row["network"], row["precision"]): row["seconds"] for row in rows}
    body = []
    for name in dict.fromkeys(row["network"] for row in rows):
        field = seconds[name, "fp32"]["standard"]
        ours = seconds[name, "bf16 channels-last"]["ours, fresh, own batch"]
        body.append([name, f"{field:.3f}", f"{ours:.3f}", f"{field / ours:.2f}"])
    return table(["one image, seconds", "standard, fp32, batch 1000", "ours, bf16, own batch", "times as fast"], body)


def exactness(rows: dict[str, dict[str, int]]) -> str:
    body = [[sigma, f"{row['compared']}", f"{row['different']}"] for sigma, row in rows.items()]
    return table(["σ", "elements compared with the CPU's", "different"], body)


if __name__ == "__main__":
    main(*paths(__doc__, "source", "page"))
