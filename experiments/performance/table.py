"""Write the GPU tables of docs/performance.md from the JSON of `soundsmooth bench gpu`.

    python experiments/performance/table.py docs/data/gpu.json docs/performance.md

Only what lies between the two marks in the page is replaced.
"""

import json
import sys
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- gpu tables begin -->", "<!-- gpu tables end -->"


def main(source: Path, page: Path) -> None:
    text, found = page.read_text(), json.loads(source.read_text())
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n{tables(found)}\n{END}{after}")


def tables(found: dict[str, Any]) -> str:
    parts = [machine(found), noise(found["noise"]), whole(found["whole"]), exactness(found["exactness"])]
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
    names = ["forward passes", "standard", "ours, fresh", "ours, shared", "paper64"]
    body = [
        [
            f"{row['network']}, n = {row['n']}, {row['precision']}",
            *(f"{row['seconds'][name]:.3f}" for name in names),
            ratio(row["ratios"]["ours, fresh / forward passes"]),
            ratio(row["ratios"]["ours, fresh / standard"]),
        ]
        for row in rows
    ]
    return table(["one image, seconds", *names, "fresh / forward", "fresh / standard"], body)


def exactness(rows: dict[str, dict[str, int]]) -> str:
    body = [[sigma, f"{row['compared']}", f"{row['different']}"] for sigma, row in rows.items()]
    return table(["σ", "elements compared with the CPU's", "different"], body)


def ratio(values: list[float]) -> str:
    return f"{values[0]:.4f} [{values[1]:.4f}, {values[2]:.4f}]"


def table(head: list[str], body: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
