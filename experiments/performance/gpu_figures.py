"""Measure what the docs say of ways to run on a GPU, in one call, as far as there is time.

    python experiments/performance/gpu_figures.py OUT --seconds 1500 --cifar10 test.npz
    python experiments/performance/gpu_figures.py OUT --only "modes u-net" end --others "--rounds 5"
    python experiments/performance/modes_table.py docs/performance.md docs/data/modes/*.json docs/data/end_to_end/*.json

Commands prepare together, and one at a time is measured, alone (turns.py). Tuning is disturbed by the others, which can
make its choices worse; what it has chosen is measured alone. Votes for the price have their turns too: they would
disturb what others tune. Those that take long to prepare come first. A command whose result is in OUT is not run again,
so that a later call goes on. One that fails, or for which no time is left, is left out, and its line says so.

    OUT/price    votes of other images: experiments/looks/price.py, with --cifar10
    OUT/end      whole runs beside the field's script: end_to_end.py
    OUT/parts    what passes, votes and noise take: parts.py
    OUT/modes    ways to run, for each network: modes.py; options in --others prevail over its own
    OUT/looks    runs with looks and tuned kernels: experiments/looks/resnet110.py, with --cifar10
    OUT/logs     what the commands print
"""

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(1, str(Path(__file__).parents[1] / "looks"))

from simulate import SIGMAS
from turns import end_when_told, run_in_turns

HERE = Path(__file__).parent
LOOKS = HERE.parent / "looks"
#: Rows of a batch of the ResNet-110, in runs with looks and in votes for the price.
BATCH = "3200"
WIDE = ("--n", "10000", "--dtype", "bf16", "--batch", "500")
#: The two networks whose runs have aims of their own.
WHOLE_RUNS = {
    "resnet50": (*WIDE, "--channels-last"),
    "resnet110": ("--n", "100000", "--dtype", "fp16", "--batch", BATCH, "--channels-last", "--trained", "0.12"),
}
#: One thread each: those of several processes would wait for each other.
ALONE = ("--threads", "1")
#: A network that noise costs much, and one that it costs little.
TAKEN_APART = {
    "timm-style vit": ("--modes", "none", "torch-compile", "tuned"),
    "resnet50": ("--modes", "tuned"),
}
#: Several images, since the GPU has nothing to do when a run begins and ends. More, where an image takes little time.
SOME = ("--images", "2", "--rounds", "3", "--in-turn", *ALONE)
FAST = (*SOME, "--n", "100000", "--batch", "10000")
LARGE = (*SOME, *WIDE)
CONVOLUTIONS = (*LARGE, "--channels-last")
#: Early those with many different layers, which take long to tune.
COMPARED = {
    "torchvision densenet121": CONVOLUTIONS,
    "torchvision efficientnet_v2_s": CONVOLUTIONS,
    "torchvision maxvit_t": (*LARGE, "--n", "5000"),
    "torchvision swin_t": LARGE,
    "torchvision convnext_tiny": CONVOLUTIONS,
    "torchvision regnet_y_8gf": CONVOLUTIONS,
    "timm-style vit": (*LARGE, "--images", "8"),
    "torchvision vit_b_16": LARGE,
    "transformers vit": (*LARGE, "--images", "8"),
    "torchvision resnet50": (*CONVOLUTIONS, "--images", "4"),
    "resnet110": (*FAST, "--dtype", "fp16", "--channels-last"),
    "u-net": (*FAST, "--dtype", "bf16"),
}


class Figure(NamedTuple):
    """What is measured, by which command, and the file that is there afterwards."""

    name: str
    command: tuple[str, ...]
    made: Path


def figures(out: Path, cifar10: Path | None, others: Sequence[str] = ()) -> list[Figure]:
    """All of them; those of CIFAR-10 images only with these."""
    networks = [*of_networks("end", HERE / "end_to_end.py", WHOLE_RUNS, out)]
    networks += of_networks(
        "parts", HERE / "parts.py", {name: (*WIDE, *TAKEN_APART[name], *ALONE) for name in TAKEN_APART}, out
    )
    networks += of_networks("modes", HERE / "modes.py", {name: (*COMPARED[name], *others) for name in COMPARED}, out)
    return networks if cifar10 is None else [*prices(out, cifar10), *networks, *looks(out, cifar10)]


def of_networks(kind: str, script: Path, options: dict[str, tuple[str, ...]], out: Path) -> Iterator[Figure]:
    """One for each network, made by a script that takes `--network`."""
    for network, own in options.items():
        made = out / kind / f"{network.replace(' ', '-')}.json"
        yield figure(f"{kind} {network}", made, script, str(made), "--network", network, *own)


def prices(out: Path, cifar10: Path) -> Iterator[Figure]:
    images = ("--cifar10", str(cifar10), "--first", "2", "--step", "4")
    copies = ("--few", BATCH, "--more", str(4 * int(BATCH)))
    kept = ("--runs", str(out / "price"), "--artifact", str(out / "price"))
    for sigma in SIGMAS:
        made = out / "price" / f"{sigma}.json"
        words = ("vote", str(made), "--sigma", sigma, *images, *copies, *kept)
        yield figure(f"price {sigma}", made, LOOKS / "price.py", *words)


def looks(out: Path, cifar10: Path) -> Iterator[Figure]:
    options = ("--compile", "tuned", "--plain", "16", "--plain-batch", BATCH)
    for sigma in SIGMAS:
        folder, made = out / "looks", out / "looks" / f"resnet110_sigma{sigma}.json"
        words = (str(cifar10), str(folder), "--sigma", sigma, *options)
        yield figure(f"looks {sigma}", made, LOOKS / "resnet110.py", *words)


def figure(name: str, made: Path, script: Path, *words: str) -> Figure:
    return Figure(name, (sys.executable, str(script), *words, "--turns"), made)


def wanted(found: Sequence[Figure], only: Sequence[str] | None) -> list[Figure]:
    """Those that are not there yet, and whose names begin with one that was asked for."""
    return [each for each in found if not each.made.exists() and (not only or each.name.startswith(tuple(only)))]


def share_the_processor(commands: int) -> None:
    """So many commands compile at once: each with two processes for each core that it has, on average."""
    threads = max(2, 2 * (os.cpu_count() or 1) // max(1, commands))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(threads))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cifar10", type=Path, metavar="TEST.npz", help="images for the price and for looks")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="those whose names begin so")
    parser.add_argument(
        "--others", type=shlex.split, default=[], metavar='"--n 200"', help="for the comparisons of ways"
    )
    parser.add_argument("--seconds", type=float, default=1500, help="seconds for all of them")
    parser.add_argument("--together", type=int, default=6, help="how many are at work at once")
    asked = parser.parse_args()
    end_when_told()
    left = wanted(figures(asked.out, asked.cifar10, asked.others), asked.only)
    for each in left:
        each.made.parent.mkdir(parents=True, exist_ok=True)
    share_the_processor(min(asked.together, len(left)))
    commands = {each.name: each.command for each in left}
    ended = run_in_turns(commands, asked.out / "logs", asked.seconds, asked.together)
    sys.exit(any(each.startswith("failed") for each in ended.values()))


if __name__ == "__main__":
    main()
