"""A store with very many certificates, votes left out: how long it takes to open, show and export, in how much memory.

    python experiments/runs/million.py --count 1000000 --folder /tmp

The certificates are real ones under one promise (counts, proved bounds, digests) for images that nobody voted on.
Each step runs in a process of its own. Prints one line of JSON for each.
"""

import argparse
import contextlib
import io
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from soundsmooth.certification.certificate import Certificate
from soundsmooth.certification.certify import Counts, Verdict, certify
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import settings
from soundsmooth.runs.image_votes import ImageVotes
from soundsmooth.runs.pipeline import open_store
from soundsmooth.runs.plan import RunPlan, plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.smoother import Smoother

N = 100_000
CLASSES = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--formats", nargs="*", default=["tsv", "csv", "jsonl"])
    parser.add_argument("--step")
    asked = parser.parse_args()
    path = asked.folder / f"{asked.count}.db"
    if asked.step:
        print(json.dumps(measure(asked.step, path, asked.count)))
        return
    for step in ("fill", "open", "show", *asked.formats):
        command = [sys.executable, __file__, "--step", step, "--count", str(asked.count), "--folder", str(asked.folder)]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip(), flush=True)


def measure(step: str, path: Path, count: int) -> dict[str, object]:
    """Seconds (in all, and of this processor), and by how much the process has grown (MB)."""
    from soundsmooth.cli.runs import export_run, show_run  # imports are not what is measured
    from soundsmooth.runs.store import Store

    before, start, busy = _memory(), time.perf_counter(), time.process_time()
    file = path
    with contextlib.redirect_stdout(io.StringIO()):
        if step == "fill":
            fill(path, count)
        elif step == "open":
            Store.read(path).close()
        elif step == "show":
            show_run(path)
        else:
            file = path.with_suffix(f".{step}")
            export_run(path, file)
    found = {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - busy,
        "grown_mb": _memory() - before,
        "file_mb": file.stat().st_size / 1e6,
    }
    return {"step": step, **{name: round(value, 2) for name, value in found.items()}}


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def brightness(batch: np.ndarray) -> np.ndarray:
    return np.repeat(batch.reshape(len(batch), -1)[:, :1], CLASSES, axis=1)


def fill(path: Path, count: int) -> None:
    """As many images, each with a certificate."""
    image = np.zeros((1, 2, 2), np.int16)
    image.setflags(write=False)  # else each would be copied
    inputs = Inputs(range(count), [image] * count, [place % CLASSES for place in range(count)])
    plan = plan_run(LocalPool(Smoother(brightness, "0.25").smoothing), inputs, settings(n=N), secret("many"))
    found = [_found(plan, hits) for hits in (50_050, 66_000, 80_000, 93_000, 99_000, 99_900, 100_000)]
    with open_store(path, plan, votes=False) as store:
        for first in range(0, count, 10_000):
            with store.db.transaction():
                for place in range(first, min(first + 10_000, count)):
                    store.add_certificate(place, _certificate(plan, place, *found[place % len(found)]))


def _found(plan: RunPlan, hits: int) -> tuple[Verdict, ImageVotes]:
    selection = Counts((100,) + (0,) * (CLASSES - 1), 0)
    votes = ImageVotes(selection, Counts((hits, N - hits) + (0,) * (CLASSES - 2), 0), None, (), {})
    return certify(votes.selection, votes.estimation, plan.survey.law, plan.settings), votes


def _certificate(plan: RunPlan, place: int, found: Verdict, votes: ImageVotes) -> Certificate:
    return plan.certificate(place, found, votes, None, plan.survey.environment, 0.125)


if __name__ == "__main__":
    main()
