"""Two checkouts side by side: does the same certification take as long?

    python experiments/house/timings.py OLD NEW [--rounds 9] [--gpu]

Each checkout has a child process of its own. Both certify the same images under the same seed, in turn, round by round.
The first round only warms up. Prints, for each case, NEW's time over OLD's: the median and the range over the rounds,
and whether both counted the same votes. With `--gpu` the cases are ResNet-110 and ResNet-50 with random weights.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

CPU_CASES = ("one image", "eight images", "a kept run")
GPU_CASES = ("ResNet-110, one image", "ResNet-110, four images", "ResNet-50, one image", "ResNet-50, three images")


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("checkouts", nargs="*", type=Path)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--gpu", action="store_true")
    arguments.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    cases = GPU_CASES if chosen.gpu else CPU_CASES
    if chosen.child:
        answer(cases)
        return
    old, new = (start(checkout, chosen.gpu) for checkout in chosen.checkouts)
    print("| | new over old, median [range] | old, ms | same votes |\n|---|---|---:|---|")
    for case in cases:
        print(compare(case, old, new, chosen.rounds), flush=True)


def start(checkout: Path, gpu: bool) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, "--child", *(["--gpu"] if gpu else [])]
    path = os.pathsep.join([str(checkout.resolve() / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(child: "subprocess.Popen[str]", case: str) -> Any:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(case + "\n")
    child.stdin.flush()
    return json.loads(child.stdout.readline())


def compare(case: str, old: "subprocess.Popen[str]", new: "subprocess.Popen[str]", rounds: int) -> str:
    """A row of the table."""
    found = [(ask(old, case), ask(new, case)) for _ in range(rounds + 1)]
    ratios = sorted(after["seconds"] / before["seconds"] for before, after in found[1:])
    before = statistics.median(each["seconds"] for each, _ in found[1:])
    same = all(each["votes"] == after["votes"] for each, after in found)
    middle = statistics.median(ratios)
    return f"| {case} | {middle:.3f} [{ratios[0]:.3f}, {ratios[-1]:.3f}] | {1000 * before:.0f} | {same} |"


def answer(cases: tuple[str, ...]) -> None:
    """In a child: the time and the votes of each case that is asked for."""
    work = (gpu_work if cases == GPU_CASES else cpu_work)()
    for line in sys.stdin:
        begin = time.perf_counter()
        certificates = work[line.strip()]()
        seconds = time.perf_counter() - begin
        votes = [(each.selection.classes, each.estimation.classes) for each in certificates]
        print(json.dumps({"seconds": seconds, "votes": votes}), flush=True)


def cpu_work() -> dict[str, Callable[[], list[Any]]]:
    import numpy as np

    import soundsmooth as ss
    from soundsmooth import embedded

    with np.load(embedded.IMAGES) as data:
        images = data["x"][:8]
    smooth = ss.Smoother(next(iter(embedded.MODELS.values())), "0.25", threads=1)

    def kept() -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            model, data, run = next(iter(embedded.MODELS.values())), embedded.IMAGES, f"{folder}/run.db"
            words = [
                str(model),
                str(data),
                "--limit",
                "8",
                "--n",
                "2000",
                "--threads",
                "1",
                "--seed",
                "s",
                "--out",
                run,
            ]
            code = "from soundsmooth.cli.main import main; main()"
            subprocess.run([sys.executable, "-c", code, "certify", *words], check=True, capture_output=True)
        return []

    return {
        "one image": lambda: [smooth.certify(images[0], n=2000, seed="s")],
        "eight images": lambda: list(smooth.certify_all(images, n=2000, seed="s")),
        "a kept run": kept,
    }


def gpu_work() -> dict[str, Callable[[], list[Any]]]:
    import numpy as np
    import torch

    import soundsmooth as ss

    torch.manual_seed(0)
    try:
        networks = import_module("soundsmooth.lab.bench.networks")
    except ModuleNotFoundError:  # where older checkouts have it
        networks = import_module("soundsmooth.bench.networks")
    options: dict[str, Any] = {"device": "cuda", "channels_last": True, "batch_size": 1000, "workers": 1}
    small = ss.Smoother(networks.resnet110(), "0.25", dtype="fp16", **options)
    large = ss.Smoother(networks.resnet50(), "0.25", dtype="bf16", **options)
    little = np.arange(4 * 3072, dtype=np.uint32).reshape(4, 3, 32, 32).astype(np.uint8)
    big = np.arange(3 * 3 * 224 * 224, dtype=np.uint32).reshape(3, 3, 224, 224).astype(np.uint8)
    return {
        "ResNet-110, one image": lambda: [small.certify(little[0], n=100_000, seed="s")],
        "ResNet-110, four images": lambda: list(small.certify_all(little, n=100_000, seed="s")),
        "ResNet-50, one image": lambda: [large.certify(big[0], n=10_000, seed="s")],
        "ResNet-50, three images": lambda: list(large.certify_all(big, n=10_000, seed="s")),
    }


if __name__ == "__main__":
    main()
