"""The paper's Table 1 on one GPU: seconds per image of standard smoothing, and of sound smoothing with noise that is
shared by all images, shared and reloaded from files for each of them, or fresh.

    python experiments/timing/measure.py docs/data/timing.json [--folder /var/tmp]

Everything in a row ran in one process, in turn. The networks have random weights. Standard smoothing is as the field
writes it: no bound, no records, no checks; *kept* is the same with votes that stay on the GPU until they are counted.
Rows that the file has, with as many rounds, are measured again and replaced. Needs a GPU and 4 GB on the disk.
"""

import argparse
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from soundsmooth.certification.certify import certify
from soundsmooth.certification.promise import Inputs
from soundsmooth.certification.settings import settings
from soundsmooth.core.grid import Levels
from soundsmooth.lab.bench import cpu, gpu, networks
from soundsmooth.lab.bench.gpu import PRECISIONS, WORKS, Precision, Work
from soundsmooth.lab.bench.pairs import alternate, milliseconds
from soundsmooth.lab.scripts.rows import keep
from soundsmooth.models.environment import environment
from soundsmooth.models.torch_module import TorchModel
from soundsmooth.noise import SHARED_STREAM, Gaussian, Keystream, Law, Noise, Noisy, Purpose
from soundsmooth.smoothing.classifier import Replica, Smoothing
from soundsmooth.smoothing.voting import Voting, sample_under_noise

N0, SIGMA = 100, "0.5"
#: Network, batch and margins k of the paper's table, and the ratios to the standard procedure that it found.
ROWS = (
    ("resnet110", 1000, ("1", "6"), {"shared": 1.005, "reloaded": 1.066, "fresh": 3.23}),
    ("resnet50", 100, ("3", "12"), {"shared": 1.002, "reloaded": 1.429, "fresh": 14.9}),
)
#: The precisions in which the networks run: the paper's, and the field's fastest.
MEASURED = (PRECISIONS[0], PRECISIONS[2])
#: A row of the file is replaced by one that has these in common with it.
SAME = ("machine", "network", "k", "precision", "rounds")
#: About so long takes one run of a method.
SECONDS = 2.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--folder", type=Path, help="for the files of noise")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--network", choices=[name for name, *_ in ROWS])
    parser.add_argument("--precision", choices=[precision.name for precision in MEASURED])
    asked = parser.parse_args()
    torch = gpu.torch_with_a_gpu()
    torch.backends.cudnn.benchmark = False
    for work, k, precision, paper in _rows(asked.network, asked.precision):
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            row = measure(torch, work, k, precision, asked.rounds, Path(folder)) | {"paper": paper}
        print(row, flush=True)
        keep(asked.out, row, SAME)


def _rows(network: str | None, precision: str | None) -> Iterator[tuple[Work, str, Precision, dict[str, float]]]:
    works = {work.network: work for work in WORKS}
    for name, batch, margins, paper in ROWS:
        for each in MEASURED:
            if network in (None, name) and precision in (None, each.name):
                for k in margins:
                    yield work_of(works[name], batch), k, each, paper


def work_of(work: Work, batch: int) -> Work:
    """The same work in batches of another size."""
    return Work(work.network, work.shape, work.classes, work.n, batch, work.copies)


def measure(torch: Any, work: Work, k: str, precision: Precision, rounds: int, folder: Path) -> dict[str, Any]:
    """Seconds per image for each method, and the ratios to the standard procedure with their intervals."""
    torch.manual_seed(0)
    module = getattr(networks, work.network)(work.classes).eval().cuda()
    with gpu.tf32(torch, precision.tf32):
        model = TorchModel(module, "cuda:0", precision.dtype, precision.channels_last)
        smoothing = Smoothing.of(model, Gaussian(SIGMA, k), work.batch)
        plain = gpu.Plain(torch, model, work, float(SIGMA))
        files = NoiseFiles.write(folder, smoothing, work)

        def whole(images: Inputs, n: int) -> dict[str, Callable[[], object]]:
            return methods(smoothing, plain, files, images, n)

        for warm_up in whole(gpu.some_images(work, 2), 2 * work.batch).values():
            warm_up()
        count = gpu.how_many(lambda: plain.standard(plain.noisy, work.n), SECONDS)
        taken = alternate(whole(gpu.some_images(work, count), work.n), rounds)
    return {
        "machine": torch.cuda.get_device_name(),
        "environment": environment(),
        "network": work.network,
        "n": work.n,
        "batch": work.batch,
        "k": k,
        "precision": precision.name,
        "images": count,
        "rounds": rounds,
        "breakpoints, seconds": round(milliseconds(lambda: cpu.cold_table(smoothing.law), 3) / 1000, 4),
        "seconds": {name: round(taken.median(name) / count, 4) for name in taken.seconds},
        "ratios": gpu.ratios(
            taken, [*((name, "standard") for name in ("shared", "reloaded", "fresh")), ("fresh", "kept")]
        ),
    }


def methods(
    smoothing: Smoothing, plain: gpu.Plain, files: "NoiseFiles", images: Inputs, n: int
) -> dict[str, Callable[[], object]]:
    """Those of the table, each for all images."""
    return {
        "standard": lambda: [plain.votes(each, plain.noisy) for _ in images.levels for each in (N0, n)],
        "kept": lambda: [plain.votes_kept(each, plain.noisy) for _ in images.levels for each in (N0, n)],
        "shared": lambda: gpu.certify_all(smoothing, images, n, "shared"),
        "reloaded": lambda: reloaded(smoothing, files, images.levels, n),
        "fresh": lambda: gpu.certify_all(smoothing, images, n, "fresh"),
    }


def reloaded(smoothing: Smoothing, files: "NoiseFiles", images: Sequence[Levels], n: int) -> None:
    """Sound certification with noise from files, read again for each image."""
    worker, chosen = smoothing.replicas[0], settings(n0=N0, n=n)
    batch, flags = smoothing.batch_for(images[0].shape, n), worker.model.identity().flags
    samples = ((Purpose.SELECTION, N0), (Purpose.ESTIMATION, n))
    votings = [Voting(worker.model, min(batch, count), flags) for _, count in samples]
    for x in images:
        counts = (
            sample_under_noise(voting, files, x, purpose, range(count))
            for voting, (purpose, count) in zip(votings, samples, strict=True)
        )
        certify(*counts, smoothing.law, chosen)


@dataclass(frozen=True)
class NoiseFiles:
    """Noise as levels in files, one for each batch: a source that reads, uploads and adds."""

    folder: Path
    worker: Replica
    law: Law

    @classmethod
    def write(cls, folder: Path, smoothing: Smoothing, work: Work) -> "NoiseFiles":
        """Draw the noise of a certification once and for all."""
        files, key = cls(folder, smoothing.replicas[0], smoothing.law), secrets.token_bytes(32)
        samples = ((Purpose.SELECTION, N0, min(N0, work.batch)), (Purpose.ESTIMATION, work.n, work.batch))
        for purpose, n, batch in samples:
            bits = Keystream(key, purpose, SHARED_STREAM)
            for first in range(0, n, batch):
                noise = files.worker.sampler.noise(bits, first, batch, work.level.size, sure=True)
                np.save(files._path(purpose, first, batch), noise.levels.cpu().numpy())
        return files

    def noisy(self, purpose: Purpose, x: Levels, first: int, copies: int, sure: bool = False) -> Noisy:
        import torch

        sampler: Any = self.worker.sampler
        levels = torch.from_numpy(np.load(self._path(purpose, first, copies))).to(sampler.placement.device)
        return sampler.add(Noise(levels, ()), x)  # type: ignore[no-any-return]

    def _path(self, purpose: Purpose, first: int, copies: int) -> Path:
        return self.folder / f"{purpose.name}_{first}_{copies}.npy"


if __name__ == "__main__":
    main()
