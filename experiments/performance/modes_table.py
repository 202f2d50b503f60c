"""Write the tables of ways to run in docs/performance.md, from the JSON objects of `modes.py`.

    python experiments/performance/modes_table.py docs/performance.md docs/data/modes/*.json

What was measured on a GPU goes between two marks in the page, and what was measured on a processor between two others.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from soundsmooth.lab.scripts.pages import fill, interval, table
from soundsmooth.models.speed import FASTER

MODES = ("none", "torch-compile", "tuned", "auto")
#: Column by column: certifications in a way, over the forward passes of what.
OVER = {"the same": "{mode} forward", "eager": "module forward", "torch.compile": "compiled forward"}


def main(page: Path, sources: Sequence[Path]) -> None:
    found = [json.loads(source.read_text()) for source in sources]
    for mark, on_cpu in (("modes", False), ("modes on a processor", True)):
        some = [each for each in found if (each["device"] == "cpu") == on_cpu]
        if some:
            fill(page, mark, rows(some))


def rows(found: Sequence[dict[str, Any]]) -> str:
    """A row for each measured way of each network."""
    over = [f"certify / forward, {name}" for name in OVER]
    head = ["network", "n", "precision", "way", "batch", "forward, s an image", *over, "certify / fastest forward"]
    return table(head, [row(each, mode) for each in found for mode in MODES if mode in each["modes"]])


def row(found: dict[str, Any], mode: str) -> list[str]:
    """One way of one network. Of fastest forward passes there is the ratio of two medians, without an interval."""
    seconds, ratios = found["seconds"], found["ratios"]
    over = [ratios.get(f"{mode} certify / {name.format(mode=mode)}") for name in OVER.values()]
    fastest = min(spent for name, spent in seconds.items() if name.endswith("forward"))
    on_cpu = found["device"] == "cpu"
    way = f"{mode} (default)" if mode == ("none" if on_cpu else default(seconds)) else mode
    network = f"{found['network']}, threads: {found['threads']}" if on_cpu else found["network"]
    return [
        network, str(found["n"]), found["precision"], way, str(found["modes"][mode]["batch"]),
        f"{seconds[f'{mode} forward'] / found['images']:.4f}",
        *("" if each is None else interval(each) for each in over), f"{seconds[f'{mode} certify'] / fastest:.3f}",
    ]  # fmt: skip


def default(seconds: dict[str, float]) -> str:
    """What `auto` is in a long run on a GPU: compiled, if that gains enough."""
    compiled = seconds.get("torch-compile forward")
    return "none" if compiled is None or compiled > FASTER * seconds["none forward"] else "torch-compile"


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(each) for each in sys.argv[2:]])
