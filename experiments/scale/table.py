"""Write the tables of docs/scale.md from what was measured.

    python experiments/scale/table.py docs/data/gpu.json docs/data/scale.json docs/scale.md

Only what lies between the marks in the page is replaced; no number there is typed by hand.
"""

import json
import math
import statistics
from fractions import Fraction
from pathlib import Path
from typing import Any

from soundsmooth.certification.settings import settings
from soundsmooth.lab.scripts.arguments import paths
from soundsmooth.lab.scripts.pages import fill, table
from soundsmooth.smoothing.blocks import block_size, vote_blocks
from soundsmooth.smoothing.classifier import CPU_BATCH

IMAGES, SIDE, CHANNELS, BATCH = 50_000, 224, 3, 1000
CHOSEN = settings(n0=100, n=100_000)
GPUS = (1, 8, 1000)
LEVEL_BYTES = 2


def main(gpu: Path, scale: Path, page: Path) -> None:
    forward, measured = json.loads(gpu.read_text()), json.loads(scale.read_text())
    fill(page, "overhead", overhead(measured))
    fill(page, "imagenet", imagenet(forward, measured))


def overhead(found: dict[str, Any]) -> str:
    calls, machine = found["calls"], found["environment"]
    single, busy = found["driver"], found["driver, busy"]
    body = [
        ["a call that does nothing, there and back", f"{1e3 * calls['seconds for one']:.2f} ms"],
        ["such calls with queues filled, per second", f"{calls['per second']:.0f}"],
        ["blocks written per second, one at a time", f"{single['blocks per second']:.0f}"],
        [f"the same, {busy['answers at a time']} at a time", f"{busy['blocks per second']:.0f}"],
        ["processor time for a block, its share of bound and certificate included",
         f"{1e3 * busy['processor seconds per block']:.2f} ms"],
        ["the store's size", f"{busy['bytes per block'] / 1e3:.1f} kB a block"],
    ]  # fmt: skip
    for work in (found["throughput"], found["throughput, small blocks"]):
        body += throughput(work)
    versions = f"Python {machine['python']}, Ray {machine['ray']}, onnxruntime {machine['onnxruntime']}"
    load = f"a load of {machine['load']:.1f} from whatever else ran"
    where = f"{machine['cores']} cores of an {machine['processor']}; {versions}; {load}."
    return f"{where}\n\n{table(['what', 'measured'], body)}"


def throughput(work: dict[str, Any]) -> list[list[str]]:
    size = block_size(settings(n=work["n"]), CPU_BATCH, 1)
    name = f"{work['workers']} Ray workers, driver and store, over plain processes; blocks of {size} copies"
    kinds = ("processor seconds", "seconds")
    rows = [[f"{name}: by {kind}", interval(work[f"ray / plain, by {kind}"], len(work["rounds"]))] for kind in kinds]
    blocks = work["images"] * len(vote_blocks(settings(n=work["n"]), size))
    more = statistics.median(
        each["ray"]["processor seconds"] - each["plain"]["processor seconds"] for each in work["rounds"]
    )
    return [*rows, ["processor time that a block takes more there", f"{1e3 * more / blocks:.1f} ms"]]


def interval(ratio: list[float], rounds: int) -> str:
    middle, low, high = ratio
    return f"{middle:.3f} (between {low:.3f} and {high:.3f} in {rounds} rounds)"


def imagenet(forward: dict[str, Any], measured: dict[str, Any]) -> str:
    rows = [row for row in forward["whole"] if row["network"] == "resnet50"]
    body = [cells for row in rows for cells in costs(row, per_driver(measured))]
    head = ["ResNet-50", "GPUs", "time", "GPU hours", "blocks per second", "runs", "images to send"]
    numbers = (
        f"{IMAGES} images, n = {CHOSEN.n}, n₀ = {CHOSEN.n0}, on {forward['machine']}s; {blocks_each()} blocks an "
        f"image; one driver keeps up with {per_driver(measured):.0f} blocks per second."
    )
    room = IMAGES * image_bytes()
    size = IMAGES * blocks_each() * measured["driver, busy"]["bytes per block"]
    sizes = f"The images take {room / 1e9:.0f} GB of the driver's memory, the store {size / 1e9:.1f} GB of its disk."
    return f"{numbers}\n\n{table(head, body)}\n\n{sizes}"


def costs(row: dict[str, Any], limit: float) -> list[list[str]]:
    """For each number of GPUs: how long it takes, and what that asks of the driver and of the network."""
    each = row["seconds"]["ours, fresh"] / row["n"] * (CHOSEN.n + CHOSEN.n0)
    lines = []
    for gpus in GPUS:
        seconds = IMAGES * each / gpus
        blocks = IMAGES * blocks_each() / seconds
        lines.append(
            [
                row["precision"],
                str(gpus),
                duration(seconds),
                f"{IMAGES * each / 3600:.0f}",
                f"{blocks:.1f}",
                str(math.ceil(blocks / limit)),
                f"{IMAGES * image_bytes() / seconds / 1e6:.2f} MB/s",
            ]
        )
    return lines


def per_driver(measured: dict[str, Any]) -> float:
    """Blocks per second: a call to a worker, and what is written when its answer comes."""
    return 1 / (1 / measured["calls"]["per second"] + 1 / measured["driver, busy"]["blocks per second"])


def blocks_each() -> int:
    return len(vote_blocks(CHOSEN, block_size(CHOSEN, BATCH, CHANNELS * SIDE * SIDE)))


def image_bytes() -> int:
    return CHANNELS * SIDE * SIDE * LEVEL_BYTES


def duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{float(Fraction(seconds) / size):.1f} {unit}"
    return f"{seconds:.0f} seconds"


if __name__ == "__main__":
    main(*paths(__doc__, "gpu", "scale", "page"))
