"""Compare the ways to run for many networks. Some prepare together, and one at a time is measured, alone.

    python experiments/performance/all_modes.py docs/data/modes --seconds 1200
    python experiments/performance/modes_table.py docs/performance.md docs/data/modes/*.json

Each network is one call of `modes.py`, in a process of its own; its report is in FOLDER/NAME.log. Options in --others
prevail over those of a network. What is in FOLDER already is not measured again, so a later call goes on. A network
that fails, or for which no time is left, is left out, and its line says so. Tuning is disturbed by the others, which
can make its choices worse; what it has chosen is measured alone.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from turns import end_when_told, run_in_turns


class Comparison(NamedTuple):
    """One network, and what `modes.py` is told of it."""

    network: str
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.network.replace(" ", "-")


#: One thread each: those of several processes would wait for each other. Several images, since the last one's bound is
#: worked out while the GPU has nothing more to do.
ALL = ("--images", "2", "--rounds", "3", "--threads", "1")
FAST = (*ALL, "--n", "100000", "--batch", "10000")
LARGE = (*ALL, "--n", "10000", "--batch", "500", "--dtype", "bf16")
QUICK = (*LARGE, "--images", "4")
CONVOLUTIONS = (*LARGE, "--channels-last")
#: Those with aims of their own first, and early those with many different layers, which take long to tune.
COMPARISONS = (
    Comparison("torchvision vit_b_16", LARGE),
    Comparison("torchvision densenet121", CONVOLUTIONS),
    Comparison("transformers vit", QUICK),
    Comparison("torchvision efficientnet_v2_s", CONVOLUTIONS),
    Comparison("timm-style vit", QUICK),
    Comparison("resnet110", (*FAST, "--dtype", "fp16", "--channels-last")),
    Comparison("torchvision maxvit_t", (*LARGE, "--n", "5000")),
    Comparison("torchvision resnet50", (*QUICK, "--channels-last")),
    Comparison("u-net", (*FAST, "--dtype", "bf16")),
    Comparison("torchvision swin_t", LARGE),
    Comparison("torchvision convnext_tiny", CONVOLUTIONS),
    Comparison("torchvision regnet_y_8gf", CONVOLUTIONS),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=1200, help="seconds for all of them")
    parser.add_argument("--together", type=int, default=6, help="how many networks are at work at once")
    parser.add_argument("--networks", nargs="+", choices=[each.name for each in COMPARISONS])
    parser.add_argument(
        "--others", type=shlex.split, default=[], help='others="--n 200": prevail over a network\'s own'
    )
    asked = parser.parse_args()
    wanted = [each for each in COMPARISONS if asked.networks is None or each.name in asked.networks]
    commands = commands_for(asked.folder, wanted, asked.others)
    share_the_processor(min(len(commands), asked.together))
    end_when_told()
    run_in_turns(commands, asked.folder, asked.seconds, asked.together)


def share_the_processor(commands: int) -> None:
    """So many commands compile at once: each with two processes for each core that it has, on average."""
    threads = max(2, 2 * (os.cpu_count() or 1) // max(1, commands))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(threads))


def commands_for(folder: Path, wanted: Sequence[Comparison], options: Sequence[str]) -> dict[str, list[str]]:
    """By network; what is in the folder is not measured again."""
    modes, found = str(Path(__file__).with_name("modes.py")), dict[str, list[str]]()
    for each in wanted:
        out = folder / f"{each.name}.json"
        if out.exists():
            print(f"{each.name}: measured before")
        else:
            own = ["--network", each.network, *each.options, *options]
            found[each.name] = [sys.executable, modes, str(out), "--turns", *own]
    return found


if __name__ == "__main__":
    main()
