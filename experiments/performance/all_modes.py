"""Compare the ways to run for one network after the other, as long as there is time.

    python experiments/performance/all_modes.py docs/data/modes --seconds 560
    python experiments/performance/modes_table.py docs/performance.md docs/data/modes/*.json

Each network is one call of `modes.py`, in a process of its own; its report is in FOLDER/NAME.log. Options in --others
prevail over those of a network. What is in FOLDER already is not measured again, so a later call goes on. A network
that fails or takes too long is left out, and its line says so.
"""

import argparse
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple


class Comparison(NamedTuple):
    """One network, and what `modes.py` is told of it."""

    network: str
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.network.replace(" ", "-")


FAST = ("--n", "100000", "--dtype", "float16", "--images", "10", "--rounds", "3")
LARGE = ("--n", "10000", "--dtype", "bf16", "--images", "1", "--rounds", "5")
#: Those with aims of their own first, then attention, then the rest.
COMPARISONS = (
    Comparison("resnet110", FAST),
    Comparison("resnet50", LARGE),
    *(
        Comparison(network, LARGE)
        for network in (
            "torchvision vit_b_16", "transformers vit", "timm-style vit", "torchvision swin_t", "torchvision maxvit_t",
            "torchvision resnet50", "torchvision convnext_tiny", "torchvision efficientnet_v2_s",
            "torchvision densenet121", "torchvision regnet_y_8gf",
        )
    ),
    Comparison("u-net", ("--n", "100000", "--dtype", "bf16", "--images", "1", "--rounds", "5")),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--networks", nargs="+", choices=[each.name for each in COMPARISONS])
    parser.add_argument(
        "--others", type=shlex.split, default=[], help='others="--n 200": prevail over a network\'s own'
    )
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + asked.seconds
    for each in COMPARISONS:
        if asked.networks is None or each.name in asked.networks:
            print(f"{each.name}: {measured(asked.folder, each, asked.others, end)}", flush=True)


def measured(folder: Path, each: Comparison, options: list[str], end: float) -> str:
    """What came of one network. No result is half written."""
    out, started, left = folder / f"{each.name}.json", time.monotonic(), end - time.monotonic()
    if out.exists():
        return "measured before"
    if left <= 0:
        return "no time left"
    command = [sys.executable, str(Path(__file__).with_name("modes.py")), str(out), "--network", each.network]
    with out.with_suffix(".log").open("w") as log:
        try:
            ended = subprocess.run([*command, *each.options, *options], stdout=log, stderr=log, timeout=left)
        except subprocess.TimeoutExpired:
            return "stopped, out of time"
    took = f"{time.monotonic() - started:.0f} s"
    return took if ended.returncode == 0 else f"failed after {took}, see {out.stem}.log"


if __name__ == "__main__":
    main()
