"""Certify images with tuned kernels from start to finish, beside the field's script; then again in other processes.

    python experiments/performance/end_to_end.py OUT.json --network resnet110 --n 100000 --dtype fp16

The first run tunes, and its seconds say what that costs. Then both procedures take turns: ours for all images, into a
file, and the field's for some of them, in float32 and batches of 1000, under torch's own settings. Last, two new
processes load the kernels from the file beside the run. One continues a run that was cut off in the middle, under the
seed of a run that was not. The other replays every vote of a run with `--trust-artifact`.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zoo
from turns import add_turns, wait_for_turn

sys.path.insert(1, str(Path(__file__).parents[1] / "cifar10"))

import networks

import soundsmooth as ss
from soundsmooth.core.grid import IMAGES
from soundsmooth.lab.bench.pairs import alternate
from soundsmooth.lab.unsound import UnsoundStandard
from soundsmooth.models.environment import environment

SIGMA, N0, BATCH = "0.25", 100, 1000
SEED = "the same seed"


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--network", choices=list(zoo.NETWORKS), required=True)
    parser.add_argument("--n", type=int, required=True)
    parser.add_argument("--dtype", default="fp16" if gpu else "float32")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--trained", metavar="SIGMA", help="the ResNet-110 that was trained under this noise")
    parser.add_argument("--images", type=int, default=10)
    parser.add_argument("--field-images", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--device", default="cuda:0" if gpu else "cpu")
    add_turns(parser)
    parser.add_argument("--then", choices=["continue", "replay"], help="what a new process does")
    asked = parser.parse_args()
    if asked.then is not None:
        print(json.dumps(THEN[asked.then](asked)))
        return
    found = measure(asked)
    keep(asked.out, found)
    keep(asked.out, found | in_new_processes(asked))


def keep(path: Path, found: dict[str, Any]) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found), flush=True)


def levels(asked: argparse.Namespace) -> np.ndarray:
    shape = (asked.images, *zoo.NETWORKS[asked.network].shape)
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


def network(asked: argparse.Namespace) -> torch.nn.Module:
    if asked.trained is None:
        return zoo.network(asked.network)
    return networks.network(networks.weights_file(asked.trained)).eval()


def smoother(asked: argparse.Namespace) -> ss.Smoother:
    options: dict[str, Any] = {"device": asked.device, "dtype": asked.dtype, "channels_last": asked.channels_last}
    return ss.Smoother(
        network(asked), asked.trained or SIGMA, compile="tuned", batch_size=asked.batch, threads=1, **options
    )


def file(asked: argparse.Namespace, name: str) -> Path:
    return asked.out.with_suffix(f".{name}.db")


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Seconds an image of both procedures."""
    images, smooth = levels(asked), smoother(asked)
    start = time.perf_counter()
    with smooth.certify_all(images, out=file(asked, "whole"), n=asked.n, n0=N0, seed=SEED):
        tuned = time.perf_counter() - start
    model: Any = smooth.smoothing.model
    actions = {"ours": lambda: into_a_file(smooth, images, asked.n), "field": field(asked, images)}
    actions["field"]()
    if asked.turns:
        wait_for_turn()
    taken = alternate(actions, asked.rounds)
    each = {"ours": asked.images, "field": asked.field_images}
    seconds = {name: round(taken.median(name) / count, 4) for name, count in each.items()}
    cut_off(smooth, asked, images)
    ratios = [
        field / asked.field_images / (ours / asked.images)
        for ours, field in zip(taken.seconds["ours"], taken.seconds["field"], strict=True)
    ]
    return {
        "network": asked.network,
        "n": asked.n,
        "precision": asked.dtype,
        "batch": model.tuned_batch,
        "images": asked.images,
        "rounds": asked.rounds,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "first run, seconds": round(tuned, 1),
        "chosen": model.chosen,
        "artifact, MB": round(len(model.artifact) / 1e6, 1),
        "seconds an image": seconds,
        "field / ours": [round(value, 3) for value in (statistics.median(ratios), min(ratios), max(ratios))],
        "environment": environment(),
    }


def into_a_file(smooth: ss.Smoother, images: np.ndarray, n: int) -> None:
    """From promise to certificates."""
    with tempfile.TemporaryDirectory() as folder:
        smooth.certify_all(images, out=Path(folder) / "run.db", n=n, n0=N0).close()


def field(asked: argparse.Namespace, images: np.ndarray) -> Callable[[], None]:
    """UNSOUND, for comparison only: the paper's Algorithm 1 with the network as it is."""
    module = network(asked).to(asked.device)
    values = IMAGES.values(images[: asked.field_images].astype(np.int16))
    with torch.inference_mode():
        classes = module(torch.from_numpy(values[:1]).to(asked.device)).shape[1]
    smooth = UnsoundStandard(module, classes, asked.trained or SIGMA, backend="torch", device=asked.device)

    def certify() -> None:
        for image in values:
            smooth.certify(image, N0, asked.n, batch_size=BATCH)

    return certify


class CutOffError(Exception):
    """As if the machine had gone down."""


def cut_off(smooth: ss.Smoother, asked: argparse.Namespace, images: np.ndarray) -> None:
    """A run that ends after half of its images."""
    done: list[object] = []

    def count(result: object) -> None:
        done.append(result)
        if 2 * len(done) >= len(images):
            raise CutOffError

    with suppress(CutOffError):
        smooth.certify_all(images, out=file(asked, "half"), n=asked.n, n0=N0, seed=SEED, on_result=count)


def in_new_processes(asked: argparse.Namespace) -> dict[str, Any]:
    """All at once; the error of one that fails."""
    words = [sys.executable, str(Path(__file__)), str(asked.out), "--network", asked.network]
    for name in ("n", "dtype", "images", "batch", "device", "trained"):
        value = getattr(asked, name)
        words += [] if value is None else [f"--{name}", str(value)]
    words += ["--channels-last"] if asked.channels_last else []
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    begun = {then: subprocess.Popen([*words, "--then", then], **pipes) for then in THEN}
    said = {then: process.communicate() for then, process in begun.items()}
    return {
        then: {"failed": said[then][1][-2000:]} if process.returncode else json.loads(said[then][0].splitlines()[-1])
        for then, process in begun.items()
    }


def continued(asked: argparse.Namespace) -> dict[str, Any]:
    """The votes of a run that was cut off, against those of one that was not."""
    start = time.perf_counter()
    with ss.open_run(file(asked, "half")) as run:
        before = len(list(run))
    with smoother(asked).certify_all(levels(asked), out=file(asked, "half"), n=asked.n, n0=N0) as run:
        found = {each.index: each.estimation.classes for each in run}
        digest = run.promise.flags["artifact"]
    seconds = time.perf_counter() - start
    with ss.open_run(file(asked, "whole")) as run:
        whole = {each.index: each.estimation.classes for each in run}
        same = digest == run.promise.flags["artifact"]
    different = sum(found[index] != votes for index, votes in whole.items())
    return {"images before": before, "images": len(found), "other votes": different, "same artifact": same,
            "seconds": round(seconds, 1)}  # fmt: skip


def replayed(asked: argparse.Namespace) -> dict[str, Any]:
    """What `verify` says of every vote, with the run's own kernels."""
    start = time.perf_counter()
    asked_of = {"model": network(asked), "data": levels(asked), "replay": "all", "device": asked.device}
    found = ss.verify(file(asked, "whole"), trust_artifact=True, **asked_of)
    seconds = round(time.perf_counter() - start, 1)
    return {"ok": found.ok, "shown": found.shown, "not shown": found.not_shown, "seconds": seconds}


THEN = {"continue": continued, "replay": replayed}


if __name__ == "__main__":
    main()
