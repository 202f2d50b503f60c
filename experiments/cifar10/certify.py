"""Certify CIFAR-10 images, sound and standard, with the same networks.

    python experiments/cifar10/certify.py DATA.npz OUT --n 10000                              # every 20th image, all σ
    python experiments/cifar10/certify.py DATA.npz OUT --n 100000 --spread 5 --first 100      # first every 5th of them

For each σ and n, OUT holds a run of the library (`sound_sigma0.25_n10000.db`, votes left out) and the results of the
paper's Algorithm 1 as the field runs it (`standard_sigma0.25_n10000.jsonl`: what it ran with, then a line for each
image). The same command continues what is there; with `--seconds` it stops after the last image that fits, and ends
with code 3 if something is left to do. With `--spread 5` a run begins with every 5th image, so that a part of it is a
fair part; without `--first` the same command goes on to all images. On a GPU the networks run in float16, channels
last, else in float32. DATA.npz holds x (uint8, images × 32 × 32 × 3) and y. Needs torch, and of the package's
dependencies NumPy, python-flint and cryptography.
"""

import argparse
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networks
import torch

from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import Settings, settings
from soundsmooth.core.grid import IMAGES
from soundsmooth.data.load import load
from soundsmooth.lab.unsound import UnsoundStandard
from soundsmooth.models.environment import environment
from soundsmooth.models.torch_module import TorchModel
from soundsmooth.runs.leases import LeaseClock
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.reader import terms_at
from soundsmooth.runs.store import Store
from soundsmooth.smoother import Smoother
from soundsmooth.smoothing.classifier import Smoothing

UNFINISHED = 3
GPU_BATCH, CPU_BATCH = 1000, 100
CLASSES = 10
#: One process at a time works on a run here: another machine that was killed need not be waited for long.
PACE = LeaseClock(expiry=30)


@dataclass
class Clock:
    """Says when to stop: before an image that may take longer than is left.

    The first image of a run does not count as one that takes long: it waits for compilers.
    """

    seconds: float = float("inf")
    now: Callable[[], float] = time.monotonic
    _longest: float = 0.0
    _start: float = field(init=False)
    _last: float | None = None
    """When the last image was finished; None at the beginning of a run."""

    def __post_init__(self) -> None:
        self._start = self.now()

    def begin(self) -> None:
        """A run begins."""
        self._last = None

    def lap(self) -> None:
        """An image is finished."""
        now = self.now()
        if self._last is not None:
            self._longest = max(self._longest, now - self._last)
        self._last = now

    @property
    def over(self) -> bool:
        return self.now() - self._start + 1.5 * self._longest >= self.seconds


def main() -> None:
    asked = _arguments().parse_args()
    clock = Clock(asked.seconds)
    asked.out.mkdir(parents=True, exist_ok=True)
    images = images_of(asked)
    left = sum(certify(asked, sigma, images, clock) for sigma in asked.sigma)
    print(f"{left} images are left to do; the same command continues" if left else "finished", flush=True)
    sys.exit(UNFINISHED if left else 0)


def _arguments() -> argparse.ArgumentParser:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--n", type=int, required=True)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--spread", type=int, default=1, help="the order: first every so-manieth of the images")
    parser.add_argument("--first", type=int, help="finish so many images of each run, in this order")
    parser.add_argument("--sigma", nargs="+", default=list(networks.SIGMAS))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--batch", type=int, default=GPU_BATCH if gpu else CPU_BATCH)
    parser.add_argument("--device", default="cuda:0" if gpu else "cpu")
    parser.add_argument("--compile", default="none", help="none, cuda-graph or torch-compile")
    parser.add_argument("--threads", type=int, default=1 if gpu else None, help="promised, so the same for all runs")
    parser.add_argument("--layout", default="nhwc-to-nchw")
    parser.add_argument("--weights", type=Path, default=networks.WEIGHTS, help="the folder of the networks")
    parser.add_argument("--only", choices=("sound", "standard"))
    return parser


def images_of(asked: argparse.Namespace) -> Inputs:
    """The images, in the order in which they are certified."""
    found = load(asked.data, grid=IMAGES, layout=asked.layout, every=asked.every)
    order = [place for first in range(asked.spread) for place in range(first, len(found.levels), asked.spread)]
    return Inputs(*(tuple(each[place] for place in order) for each in (found.indices, found.levels, found.labels)))


def certify(asked: argparse.Namespace, sigma: str, images: Inputs, clock: Clock) -> int:
    """Both procedures, with one and the same model; returns how many images are left to do."""
    chosen, name = settings(n0=100, n=asked.n), f"sigma{float(sigma):.2f}_n{asked.n}"
    paths = {"sound": asked.out / f"sound_{name}.db", "standard": asked.out / f"standard_{name}.jsonl"}
    procedures = {"sound": sound, "standard": standard}
    wanted = frozenset(images.indices[: asked.first])
    left = {kind: wanted - finished(path) for kind, path in paths.items() if asked.only in (None, kind)}
    left = {kind: missing for kind, missing in left.items() if missing}
    if not left or clock.over:
        return sum(map(len, left.values()))
    smoothing = smoothing_of(asked, sigma)
    batch = smoothing.batch_for(images.shape, asked.n)
    smoothing.prepared(images.shape, batch)  # the module is exported now: both procedures run the same graph
    for kind, missing in left.items():
        procedures[kind](paths[kind], smoothing, images, chosen, clock, missing)
        left[kind] = missing - finished(paths[kind])
        print(f"{paths[kind].name}: {len(left[kind])} of {len(wanted)} images left", flush=True)
    return sum(map(len, left.values()))


def finished(path: Path) -> set[int]:
    """The numbers of the images that are certified in a file, or abstained on; none if nothing was begun."""
    if path.suffix == ".jsonl":
        return {row["index"] for row in read_standard(path)[1]}
    if terms_at(path) is None:
        return set()
    with Store.read(path) as store:
        return {certificate.index for certificate in store.certificates()}


def smoothing_of(asked: argparse.Namespace, sigma: str) -> Smoothing:
    """On a GPU in float16, channels last; elsewhere in float32.

    Not in bfloat16, which moves the levels of (0, 1) away from 0, as it does not move the sums of standard smoothing.
    """
    module = networks.network(networks.weights_file(sigma, asked.weights))
    gpu = asked.device.startswith("cuda")
    return Smoother(
        module,
        sigma,
        batch_size=asked.batch,
        device=asked.device,
        dtype="fp16" if gpu else "float32",
        channels_last=gpu,
        compile=asked.compile,
        threads=asked.threads,
        workers=1,
    ).smoothing


def sound(
    path: Path, smoothing: Smoothing, images: Inputs, chosen: Settings, clock: Clock, missing: frozenset[int]
) -> None:
    """The library's own run, in its store; it is left at the end of an image, so that no image mixes two machines."""
    begun = terms_at(path)
    run = plan_run(LocalPool(smoothing), images, chosen, secret() if begun is None else begun.secret)
    with open_store(path, run, votes=False) as store:
        clock.begin()
        if not clock.over:
            with closing(certify_into(store, run, clock=PACE)) as issued:
                for certificate in issued:
                    missing -= {certificate.index}
                    clock.lap()
                    if clock.over or not missing:
                        break


def standard(
    path: Path, smoothing: Smoothing, images: Inputs, chosen: Settings, clock: Clock, missing: frozenset[int]
) -> None:
    """UNSOUND, for comparison only: Algorithm 1 with the same model, an image a line, each under a seed of its own."""
    terms = standard_terms(smoothing, images, chosen)
    done = _begin(path, terms)
    clock.begin()
    for row in standard_rows(smoothing, images, chosen, done):
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        done.add(row["index"])
        clock.lap()
        if clock.over or missing <= done:
            break


def standard_terms(smoothing: Smoothing, images: Inputs, chosen: Settings) -> dict[str, Any]:
    """What the standard procedure ran with, in the words of a promise; though nothing is promised."""
    identity = smoothing.model.identity()
    return {
        "procedure": "standard",
        "sigma": str(smoothing.law.sigma),
        "n0": chosen.n0,
        "n": chosen.n,
        "alpha": str(chosen.alpha),
        "bound": chosen.bound,
        "batch": smoothing.batch_for(images.shape, chosen.n),
        "model": identity.digest,
        "precision": identity.precision,
        "device": identity.device,
        "flags": identity.flags_text,
        "inputs": images.digest(),
        "input count": len(images.levels),
    }


def standard_rows(smoothing: Smoothing, images: Inputs, chosen: Settings, done: set[int]) -> Iterator[dict[str, Any]]:
    """The images that are not done, one after the other."""
    model = smoothing.model
    assert isinstance(model, TorchModel)
    device = "cpu" if model.placement is None else model.placement.device
    batch = smoothing.batch_for(images.shape, chosen.n)
    for index, level, truth in zip(images.indices, images.levels, images.labels, strict=True):
        if index in done:
            continue
        start, seed = time.perf_counter(), secrets.randbits(63)
        smooth = UnsoundStandard(
            _scores(model), CLASSES, smoothing.law.sigma, backend="torch", device=device, seed=seed
        )
        found = smooth.certify(IMAGES.values(level), chosen.n0, chosen.n, chosen.alpha, batch, chosen.bound)
        yield {
            "index": index,
            "truth": truth,
            "label": found.label,
            "radius": found.radius,
            "p_lower": found.p_lower,
            "selection": found.selection,
            "estimation": found.counts,
            "seed": seed,
            "seconds": round(time.perf_counter() - start, 4),
        }


def _scores(model: TorchModel) -> Callable[[torch.Tensor], torch.Tensor]:
    """The model's forward pass, on a batch of float32 that is cast and laid out as the model wants it."""

    def scores(batch: torch.Tensor) -> torch.Tensor:
        cast = model.cast(batch)  # as the library does: before inference mode
        with torch.inference_mode():
            found: torch.Tensor = model.forward(cast)
            return found

    return scores


def _begin(path: Path, terms: dict[str, Any]) -> set[int]:
    """The images that are done; a file that is there must have been begun with the same terms."""
    whole = _whole_lines(path)
    if not whole:
        path.write_text(json.dumps({**terms, "environment": environment()}) + "\n", encoding="utf-8")
        return set()
    os.truncate(path, len(whole.encode()))  # a line that was cut short is made again
    begun, rows = read_standard(path)
    differ = [name for name, value in terms.items() if begun.get(name) != value]
    if differ:
        raise ValueError(f"{path.name} was begun with other terms: {', '.join(differ)}")
    return {row["index"] for row in rows}


def read_standard(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the standard procedure ran with, and a row for each image; a last line that was cut short is left out."""
    head, *rows = [json.loads(line) for line in _whole_lines(path).splitlines()] or [{}]
    return head, rows


def _whole_lines(path: Path) -> str:
    if not path.exists():
        return ""
    text, end, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return text + end


if __name__ == "__main__":
    main()
