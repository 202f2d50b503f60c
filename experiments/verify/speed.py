"""How fast `soundsmooth verify` goes through a run: a store of made-up votes at n = 100 000, on one core.

python experiments/verify/speed.py [CERTIFICATES] [--no-votes]
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import soundsmooth as ss
from soundsmooth.certification.certify import certify
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import settings
from soundsmooth.models import Votes
from soundsmooth.noise import Purpose
from soundsmooth.runs.pipeline import terms_of
from soundsmooth.runs.plan import plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.store import Store
from soundsmooth.smoothing.blocks import packed_bits
from soundsmooth.smoothing.voting import counted

CLASSES = 10


def scores(batch: np.ndarray) -> np.ndarray:
    return batch.reshape(len(batch), -1)[:, :CLASSES]


def fill(path: Path, count: int, votes: bool) -> None:
    """A run as it would be, if each image had a probability of its own between 0.4 and 1."""
    chance = np.random.default_rng(0)
    inputs = Inputs(tuple(range(count)), [np.zeros((10, 1), np.int16)] * count, [0] * count)
    smoothing = ss.Smoother(scores, "0.25", batch_size=100).smoothing
    plan = plan_run(LocalPool(smoothing), inputs, settings(n=100_000), secret("speed", "ab" * 32))
    with Store.begin(path, terms_of(plan, votes), inputs) as store, store.db.transaction():
        for place in range(count):
            p = chance.uniform(0.4, 1)
            for block in store.all_blocks:
                others = chance.integers(1, CLASSES, block.count)
                found = Votes(np.where(chance.random(block.count) < p, 0, others), CLASSES)
                hits = packed_bits(found.labels == 0) if votes and block.purpose == Purpose.ESTIMATION else None
                store.add_block(place, block, counted(found), hits, 0.1, plan.survey.environment)
            votes_cast = store.votes(place)
            proved = certify(votes_cast.selection, votes_cast.estimation, plan.survey.law, plan.settings)
            store.add_certificate(
                place, plan.certificate(place, proved, votes_cast, None, plan.survey.environment, 1.0)
            )


def main(count: int, votes: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.db"
        fill(path, count, votes)
        command = [sys.executable, "-c", "from soundsmooth.cli.main import main; main()", "verify", str(path)]
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        one_core = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=one_core)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(next(line for line in done.stdout.splitlines() if "arithmetic" in line))
        print(f"{count} certificates, {path.stat().st_size / 1e6:.1f} MB, bitmaps {'kept' if votes else 'left out'}")
        print(
            f"wall {wall:.1f} s, {count / wall:.0f} per second; processor {spent:.1f} s, {count / spent:.0f} per second"
        )
        print(f"peak memory {after.ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    main(numbers[0] if numbers else 3000, "--no-votes" not in sys.argv)
