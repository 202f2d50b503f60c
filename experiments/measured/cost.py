"""What a row alone costs: seconds until the fresh process is ready, milliseconds a row, and of processor time.

    taskset -c 0,1 python experiments/measured/cost.py [--rows 300] [--rounds 5]

Medians over rounds, with the smallest and the largest; kinds alternate. torch is left out where it is not installed.
Processor time is that of the fresh process and its children, where /proc tells; it is less hurt by a busy machine.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from soundsmooth import embedded
from soundsmooth.core.machine import cores
from soundsmooth.models.load import model_of
from soundsmooth.models.row_voter import RowVoter


def brightness(batch: np.ndarray) -> np.ndarray:
    mean = batch.reshape(len(batch), -1).mean(axis=1)
    return np.stack([0.5 - mean, mean - 0.5], axis=1)


def kinds() -> Iterator[tuple[str, object, tuple[int, ...]]]:
    yield "NumPy function", brightness, (1, 28, 28)
    yield "embedded CNN, onnxruntime", embedded.model_for(1), (1, 28, 28)
    if find_spec("torch") is not None:
        from torch import nn

        layers = [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU()]
        end = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        yield "small CNN, torch", nn.Sequential(*layers, *end, nn.Linear(32, 10)), (3, 32, 32)
        deep = [layer for width in [3] + 7 * [64] for layer in (nn.Conv2d(width, 64, 3, padding=1), nn.ReLU())]
        yield "eight convolutions of 64 channels, torch", nn.Sequential(*deep, *end, nn.Linear(64, 10)), (3, 32, 32)


def measured(recipe: bytes, shape: tuple[int, ...], rows: np.ndarray) -> tuple[float, float, float]:
    """Seconds until it is ready, seconds a row, and seconds of processor time a row."""
    start = time.perf_counter()
    with RowVoter(recipe, shape) as alone:
        alone.wait()
        ready, before = time.perf_counter(), processor_seconds(alone._process.pid)
        assert len(list(alone.votes(iter(rows)))) == len(rows)
        took = time.perf_counter() - ready
        list(alone.votes(iter(rows[:1])))  # by now the others have ended
        used = processor_seconds(alone._process.pid) - before
        return ready - start, took / len(rows), used / len(rows)


def processor_seconds(process: int) -> float:
    """Of a process, and of its children that have ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    models = {name: (model_of(source).recipe(), shape) for name, source, shape in kinds()}
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in models}
    for _ in range(asked.rounds):
        for name, (recipe, shape) in models.items():
            rows = np.random.default_rng().random((asked.rows, *shape), np.float32)
            found[name].append(measured(recipe, shape, rows))
    print(f"{cores()} cores, Python {sys.version.split()[0]}\n\n| model | ready after | a row | processor time |")
    print("|---|---|---|---|")
    for name, times in found.items():
        ready, rows, processor = zip(*times, strict=True)
        print(f"| {name} | {statistics.median(ready):.1f} s | {_spread(rows)} | {_spread(processor)} |")


def _spread(seconds: tuple[float, ...]) -> str:
    """Their median in milliseconds, the smallest and the largest."""
    low, middle, high = (1000 * each for each in (min(seconds), statistics.median(seconds), max(seconds)))
    return f"{middle:.1f} ms [{low:.1f}, {high:.1f}]"


if __name__ == "__main__":
    main()
