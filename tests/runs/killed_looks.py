"""Runs with looks whose processes are killed again and again, without a clock: see `main`.

The lives of a run are forks of one process, which makes no model itself. All clocks stand still in them, so that the
content of two runs can be compared byte by byte.
"""

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

import soundsmooth as ss
from classifiers import brightness_of_three
from golden.surface import DATA
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import settings
from soundsmooth.runs import store as stores
from soundsmooth.runs.database import Database
from soundsmooth.runs.leases import LeaseClock
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import RunPlan, plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.reader import terms_at
from soundsmooth.runs.store import Store

FORK = multiprocessing.get_context("fork")
QUICK = LeaseClock(look=0.01)
#: Whoever lives that long finishes.
FOR_EVER = 10**9
N0, N = 20, 400
ASKED: dict[str, Any] = {"radii": [0, "1/4"], "looks": [40, 80, 160, N], "skip_wrong": True}

#: How the rows of a run are known to be independent, and its noise. Proved rows share batches with other images'.
KINDS = {
    "proved": ("proved", "fresh"),
    "assumed": ("assumed", "fresh"),
    "batchwise": ("assumed", "batchwise"),
    "measured": ("measured", "fresh"),
}


def inputs(count: int) -> Inputs:
    """Every other image is black, and is soon decided; the rest are doubtful, and one of them has a wrong label."""
    black, doubtful = np.zeros((1, 2, 2), np.int16), np.array([[[90, 200], [75, 75]]], np.int16)
    levels = [doubtful + np.int16(5 * i) if i % 2 else black for i in range(count)]
    labels = [2 if i == 1 else None for i in range(count)]
    return Inputs(tuple(range(5, 5 + 3 * count, 3)), levels, labels)


def planned(kind: str) -> RunPlan:
    """Batches of 10 copies; where images share batches, packs of 320."""
    independence, noise = KINDS[kind]
    scores: Any = DATA / "linear.onnx" if kind == "proved" else brightness_of_three
    again, count = (30, 5) if kind == "measured" else (None, 9)
    smooth = ss.Smoother(scores, "1/2", batch_size=10, threads=1, independence=independence, again=again)
    chosen = settings(n0=N0, n=N, alpha="1/100", noise=noise, **ASKED)
    return plan_run(LocalPool(smooth.smoothing), inputs(count), chosen, secret("kill", "ab" * 32))


def _stop_clocks() -> None:
    time.perf_counter = lambda: 0.0
    stores._now = lambda: "2000-01-01T00:00:00+00:00"


def finish(path: Path, kind: str) -> None:
    _stop_clocks()
    plan = planned(kind)
    with open_store(path, plan) as store:
        for _ in certify_into(store, plan, clock=QUICK):
            pass


def _life(path: Path, kind: str, blocks: int) -> None:
    """Work, and end by SIGKILL just before, or just after, the block of that number is written, within its
    transaction.
    """
    execute, left = Database.execute, [blocks]

    def counting(db: Database, statement: str, *values: object) -> Any:
        left[0] -= statement == stores.BLOCK
        found = execute(db, statement, *values) if blocks % 2 or left[0] else None
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    Database.execute = counting  # type: ignore[method-assign]
    finish(path, kind)


def partly_voted(path: Path) -> int:
    """How many images have votes and no certificate."""
    if terms_at(path) is None:
        return 0
    with Store.read(path) as store:
        return int(store.db.one("SELECT COUNT(DISTINCT place) FROM blocks WHERE place NOT IN "
                                "(SELECT place FROM certificates)"))  # fmt: skip


def killed(path: Path, kind: str, first: int, more: int) -> list[int]:
    """Lives until the run is finished, each killed so many blocks later than the one before.

    Returns how many images were partly voted after each kill.
    """
    found = []
    for number in range(200):
        child = FORK.Process(target=_life, args=(path, kind, first + more * number))
        child.start()
        child.join()
        if child.exitcode == 0:
            return found
        assert child.exitcode == -signal.SIGKILL, child.exitcode
        found.append(partly_voted(path))
    raise AssertionError("the run never ended")


def main(quiet: str, disturbed: str, kind: str, first: str, more: str) -> None:
    """A run that nothing happens to, and one that is killed."""
    assert not killed(Path(quiet), kind, FOR_EVER, 0)
    print(*killed(Path(disturbed), kind, int(first), int(more)))
