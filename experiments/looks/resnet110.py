"""Certify CIFAR-10 images with looks, and some of them with all n copies, in one run on one machine.

    python experiments/looks/resnet110.py DATA.npz OUT --sigma 0.25 0.5

For each σ, OUT gets `looks_sigma0.25_n100000.db` (the table's radii, votes left out), `plain_sigma0.25_n100000.db` (the
first images with all n copies, and which of their votes were hits) and `resnet110_sigma0.25.json`: copies, seconds, and
the seconds before the first vote. Both kinds of run use the same network, compiled before a time is taken. Tuned
kernels are kept in `batch3200_sigma0.25.artifact`, so that every vote can be repeated.
"""

import argparse
import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "performance"))
sys.path.insert(0, str(Path(__file__).parents[1] / "cifar10"))

import certify as cifar10
import networks
from turns import add_turns, wait_for_turn

from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import Settings, settings
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.smoothing.classifier import Smoothing


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sigma", nargs="+", default=list(networks.SIGMAS))
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--limit", type=int, help="only so many images")
    parser.add_argument("--plain", type=int, default=40, help="so many images with all n copies")
    parser.add_argument("--batch", type=int, default=3200 if gpu else 100)
    parser.add_argument("--plain-batch", type=int, default=10_000 if gpu else 100)
    parser.add_argument("--device", default="cuda:0" if gpu else "cpu")
    parser.add_argument("--compile", default="torch-compile" if gpu else "none")
    parser.add_argument("--artifact", type=Path, help="tuned kernels, for both batch sizes if they are the same")
    add_turns(parser)
    asked = parser.parse_args()
    asked.layout, asked.threads, asked.spread, asked.weights = "nhwc-to-nchw", 1 if gpu else None, 1, networks.WEIGHTS
    asked.out.mkdir(parents=True, exist_ok=True)
    images = first(cifar10.images_of(asked), asked.limit)
    for sigma in asked.sigma:
        found = measure(asked, sigma, images)
        (asked.out / f"resnet110_sigma{float(sigma):.2f}.json").write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found), flush=True)


def first(images: Inputs, limit: int | None) -> Inputs:
    return Inputs(*(each[:limit] for each in (images.indices, images.levels, images.labels)))


def measure(asked: argparse.Namespace, sigma: str, images: Inputs) -> dict[str, Any]:
    """Both kinds of run at one σ: all images with looks between two halves of those without."""
    name = f"sigma{float(sigma):.2f}_n{asked.n}"
    few, plain = first(images, asked.plain), settings(n=asked.n)
    with_looks = settings(n=asked.n, radii="steps")
    networks_of = {batch: _network(asked, sigma, batch) for batch in {asked.batch, asked.plain_batch}}
    for batch, network in networks_of.items():  # the compiler's work
        run(None, network, first(images, 2), settings(n=2 * batch))
        run(None, network, first(images, 8), with_looks)  # noise for several images is a kernel of its own
        if network.model.artifact is not None:
            (asked.out / f"batch{batch}_sigma{float(sigma):.2f}.artifact").write_bytes(network.model.artifact)
    if asked.turns:
        wait_for_turn()
    found = run(asked.out / f"looks_{name}.db", networks_of[asked.batch], images, with_looks)
    whole = run(asked.out / f"plain_{name}.db", networks_of[asked.plain_batch], few, plain, votes=True)
    gain = {what: whole[what] / whole["images"] / (found[what] / found["images"]) for what in ("copies", "seconds")}
    device = torch.cuda.get_device_name() if asked.device != "cpu" else "cpu"
    batches = {"batch": asked.batch, "plain batch": asked.plain_batch}
    ran = {"sigma": sigma, "n": asked.n, "device": device, "compile": asked.compile, **batches}
    return {**ran, "looks": found, "plain": whole, "gain": gain}


def _network(asked: argparse.Namespace, sigma: str, batch: int) -> Smoothing:
    smoothing = cifar10.smoothing_of(argparse.Namespace(**{**vars(asked), "batch": batch}), sigma)
    if asked.artifact is not None:
        smoothing.model.run_as("tuned", asked.artifact.read_bytes())
    return smoothing


def run(
    path: Path | None, network: Smoothing, images: Inputs, chosen: Settings, votes: bool = False
) -> dict[str, float]:
    """Certify the images; how many copies voted, and how long that took."""
    start = time.perf_counter()
    plan = plan_run(LocalPool(network), images, chosen, secret())
    planned = time.perf_counter()
    with open_store(path, plan, votes=votes) as store, closing(certify_into(store, plan)) as issued:
        finished = sum(1 for _ in issued)
        seconds = time.perf_counter() - planned
        return {
            "images": finished,
            "copies": store.copies_voted(),
            "seconds": seconds,
            "seconds before": planned - start,
        }


if __name__ == "__main__":
    main()
