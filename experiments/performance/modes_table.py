"""Write the table of ways to run in docs/performance.md, from the JSON objects of `modes.py`.

    python experiments/performance/modes_table.py docs/performance.md docs/data/modes/*.json

Only what lies between the two marks in the page is replaced.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from soundsmooth.lab.scripts.pages import fill, interval, table

MODES = ("none", "torch-compile", "tuned", "auto")


def main(page: Path, sources: Sequence[Path]) -> None:
    fill(page, "modes", rows([json.loads(source.read_text()) for source in sources]))


def rows(found: Sequence[dict[str, Any]]) -> str:
    """A row for each measured way of each network."""
    head = ["network", "n", "precision", "way", "batch", "forward, s an image", "certify / forward", "forward / module"]
    body = [row(each, mode) for each in found for mode in MODES if mode in each["modes"]]
    return table(head, body)


def row(found: dict[str, Any], mode: str) -> list[str]:
    ratios, seconds = found["ratios"], found["seconds"][f"{mode} forward"] / found["images"]
    module = ratios.get(f"{mode} forward / module forward")
    what = [found["network"], str(found["n"]), found["precision"], mode, str(found["modes"][mode]["batch"])]
    return [
        *what, f"{seconds:.4f}",
        interval(ratios[f"{mode} certify / {mode} forward"]), "" if module is None else interval(module),
    ]  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(each) for each in sys.argv[2:]])
