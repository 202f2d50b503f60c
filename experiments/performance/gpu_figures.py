"""Measure what the docs say of tuned kernels and looks on a GPU, in one call, as far as there is time.

    python experiments/performance/gpu_figures.py CIFAR10.npz OUT --seconds 1500
    python experiments/performance/gpu_figures.py CIFAR10.npz OUT --only price "modes u-net"

Commands prepare together, and what is timed is timed alone (turns.py). Those that take long to prepare come first. A
command whose result is in OUT is not run again, so that a later call goes on. Votes for the price have their turns too:
they would disturb what others tune. Reports are in OUT/logs.

    OUT/looks    runs with looks, and of all n copies, with their tuned kernels: experiments/looks/resnet110.py
    OUT/price    votes of other images: experiments/looks/price.py
    OUT/end      whole runs beside the field's script: end_to_end.py
    OUT/parts    what passes, votes and noise take: parts.py
    OUT/modes    ways to run: modes.py, by all_modes.py
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import all_modes
from turns import end_when_told, run_in_turns

HERE = Path(__file__).parent
LOOKS = HERE.parent / "looks"
SIGMAS = ("0.12", "0.25", "0.50", "1.00")
#: Rows of a batch of the ResNet-110, in runs with looks and in votes for the price.
BATCH = "3200"
WIDE = ("--n", "10000", "--dtype", "bf16", "--batch", "500")
#: The two networks whose runs have aims of their own.
WHOLE_RUNS = {
    "resnet50": (*WIDE, "--channels-last"),
    "resnet110": ("--n", "100000", "--dtype", "fp16", "--batch", BATCH, "--channels-last", "--trained", "0.12"),
}
#: A network that noise costs much, and one that it costs little.
TAKEN_APART = {
    "timm-style vit": ("none", "torch-compile", "tuned"),
    "resnet50": ("tuned",),
}


class Figure(NamedTuple):
    """What is measured, by which command, and the file that is there afterwards."""

    name: str
    command: tuple[str, ...]
    made: Path


def figures(data: Path, out: Path) -> list[Figure]:
    """All of them, those that take long to prepare first."""
    compared = {
        name: tuple(words) for name, words in all_modes.commands_for(out / "modes", all_modes.COMPARISONS, []).items()
    }
    modes = [Figure(f"modes {name}", words, Path(words[2])) for name, words in compared.items()]
    return [*prices(data, out), *whole_runs(out), *parts(out), *modes, *looks(data, out)]


def looks(data: Path, out: Path) -> list[Figure]:
    folder, found = out / "looks", []
    for sigma in SIGMAS:
        words = (
            str(data),
            str(folder),
            "--sigma",
            sigma,
            "--compile",
            "tuned",
            "--plain",
            "16",
            "--plain-batch",
            BATCH,
        )
        made = folder / f"resnet110_sigma{sigma}.json"
        found.append(Figure(f"looks {sigma}", script(LOOKS / "resnet110.py", *words, "--turns"), made))
    return found


def prices(data: Path, out: Path) -> list[Figure]:
    folder, found = out / "price", []
    for sigma in SIGMAS:
        made = folder / f"{sigma}.json"
        places = ("--first", "2", "--step", "4", "--few", BATCH, "--more", str(4 * int(BATCH)))
        words = ("vote", str(made), "--cifar10", str(data), "--sigma", sigma, *places)
        kept = ("--runs", str(folder), "--artifact", str(folder))
        found.append(Figure(f"price {sigma}", script(LOOKS / "price.py", *words, *kept, "--turns"), made))
    return found


def whole_runs(out: Path) -> list[Figure]:
    found = []
    for network, options in WHOLE_RUNS.items():
        made = out / "end" / f"{network}.json"
        words = (str(made), "--network", network, *options, "--turns")
        found.append(Figure(f"end {network}", script(HERE / "end_to_end.py", *words), made))
    return found


def parts(out: Path) -> list[Figure]:
    found = []
    for network, ways in TAKEN_APART.items():
        made = out / "parts" / f"{network}.json"
        words = (str(made), "--network", network, *WIDE, "--modes", *ways, "--threads", "1", "--turns")
        found.append(Figure(f"parts {network}", script(HERE / "parts.py", *words), made))
    return found


def script(path: Path, *words: str) -> tuple[str, ...]:
    return (sys.executable, str(path), *words)


def wanted(found: Sequence[Figure], only: Sequence[str] | None) -> list[Figure]:
    """Those that are not there yet, and whose names begin with one that was asked for."""
    return [each for each in found if not each.made.exists() and (not only or each.name.startswith(tuple(only)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="those whose names begin so")
    parser.add_argument("--seconds", type=float, default=1500, help="seconds for all of them")
    parser.add_argument("--together", type=int, default=6, help="how many are at work at once")
    asked = parser.parse_args()
    end_when_told()
    left = wanted(figures(asked.data, asked.out), asked.only)
    for each in left:
        each.made.parent.mkdir(parents=True, exist_ok=True)
    commands = {each.name: each.command for each in left}
    all_modes.share_the_processor(min(asked.together, len(commands)))
    ended = run_in_turns(
        commands, asked.out / "logs", asked.seconds, asked.together, lambda line: print(line, flush=True)
    )
    sys.exit(any(each.startswith("failed") for each in ended.values()))


if __name__ == "__main__":
    main()
