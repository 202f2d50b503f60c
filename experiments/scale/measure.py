"""What more than one machine costs: Ray's calls, the store, and the whole against two plain processes.

    python experiments/scale/measure.py docs/data/scale.json

The page docs/scale.md is written from it by table.py. Ratios are medians over alternating rounds, with the smallest and
the largest; on a machine that others use too, only the ratios mean anything.
"""

import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from soundsmooth import embedded
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import Settings, settings
from soundsmooth.core.grid import IMAGES, Levels
from soundsmooth.data.load import load
from soundsmooth.lab.scripts.arguments import paths
from soundsmooth.models import Identity, Votes
from soundsmooth.models.environment import environment
from soundsmooth.noise import Gaussian
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import plan_run
from soundsmooth.runs.pools import Message, WorkerHandle, WorkerPool
from soundsmooth.runs.ray_pool import Need, RayPool, RayWorker
from soundsmooth.runs.run import certify_inputs
from soundsmooth.runs.tasks import Outcome
from soundsmooth.runs.worker import ModelSurvey, WorkerKind, WorkerReady
from soundsmooth.smoothing.recipe import SmootherRecipe

ROUNDS = 5
WORKERS = 2
CALLS = 2000
#: Images, and copies of each: blocks of 1000 copies, and of 200. Those of a run with n = 100 000 have 5000.
WORKS = {"throughput": (6, 20_000), "throughput, small blocks": (16, 5_000)}
#: As a run on ImageNet has it: blocks of 5000 copies, 1000 classes.
CLASSES, DRIVER_IMAGES = 1000, 60
SPAWN = multiprocessing.get_context("spawn")


def main(out: Path) -> None:
    import ray

    found: dict[str, Any] = {"driver": driver(1), "driver, busy": driver(256)}
    quietly = {"include_dashboard": False, "logging_level": "ERROR"}
    ray.init(address="local", num_cpus=WORKERS, object_store_memory=100 << 20, **quietly)
    try:
        found["calls"] = calls()
        found |= {name: throughput(*work) for name, work in WORKS.items()}
    finally:
        ray.shutdown()
    import onnxruntime

    versions = {"ray": ray.__version__, "onnxruntime": onnxruntime.__version__}
    found["environment"] = environment() | versions | {"load": os.getloadavg()[1]}
    out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


# What a call costs


def calls() -> dict[str, float]:
    """Calls that do nothing: one after the other, and with the workers' queues filled."""
    with RayPool(recipe(), Need(cpus=1)) as pool:
        workers = [pool.start_worker() for _ in range(WORKERS)]
        _idle(pool, workers, 20, 1)
        alone = _idle(pool, workers[:1], CALLS // 4, 1)
        queued = _idle(pool, workers, CALLS, 3)
        for worker in workers:
            worker.kill()
    return {"seconds for one": alone / (CALLS // 4), "per second": CALLS / queued}


def _idle(pool: RayPool, workers: list[RayWorker], count: int, depth: int) -> float:
    start, given, done = time.perf_counter(), 0, 0
    while done < count:
        for worker in workers:
            while given < count and len(worker.answers) < depth:
                worker.call("idle")
                given += 1
        done += len(pool.wait(list(workers), 1.0))
    return time.perf_counter() - start


# What the driver can write down


KIND = WorkerKind("cpu", "any", "none")


@dataclass(eq=False)
class InstantWorker:
    """A worker that needs no time: its votes lie ready."""

    votes: dict[int, Votes]
    calls: deque[Any] = field(default_factory=deque)

    def call(self, method: str, *arguments: Any) -> None:
        self.calls.append((method, arguments))

    def kill(self) -> None:
        pass

    def answer(self) -> Any:
        method, arguments = self.calls.popleft()
        if method == "begin":
            return WorkerReady(KIND, 0)
        return [Outcome(arguments[0], self.votes[arguments[0].block.count], (), 0.3)]


@dataclass(eq=False)
class InstantPool(WorkerPool):
    """As many workers as answers are to come at a time."""

    votes: dict[int, Votes]
    size: int

    def capacity(self) -> int:
        return self.size

    def start_worker(self) -> InstantWorker:
        return InstantWorker(self.votes)

    def wait(self, workers: list[WorkerHandle], seconds: float) -> list[Message]:
        return [(each, each.answer()) for each in workers if isinstance(each, InstantWorker) and each.calls]

    def survey(self, images: Sequence[Levels], settings: Settings) -> ModelSurvey:
        return ModelSurvey(Identity("onnx", "0" * 64), Gaussian("0.5", 6, IMAGES), 1000, KIND, environment())


def driver(size: int) -> dict[str, float]:
    """Blocks per second from answers to certificates in the store, when the workers need no time at all."""
    chosen = settings(n0=100, n=100_000)
    levels = tuple(np.zeros((3, 8, 8), np.int16) for _ in range(DRIVER_IMAGES))
    inputs = Inputs(range(DRIVER_IMAGES), levels, [0] * DRIVER_IMAGES)
    chance = np.random.default_rng(0)
    votes = {
        count: Votes(np.where(chance.random(count) < 0.9, 7, chance.integers(0, CLASSES, count)), CLASSES)
        for count in (100, 5000)
    }
    plan = plan_run(InstantPool(votes, size), inputs, chosen, secret())
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "run.db", plan) as store:
        start, cpu = time.perf_counter(), time.process_time()
        issued = sum(1 for _ in certify_into(store, plan))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        blocks = issued * len(store.all_blocks)
        bytes_ = store.db.one("PRAGMA page_count") * store.db.one("PRAGMA page_size")
    return {
        "answers at a time": size,
        "blocks": blocks,
        "blocks per second": blocks / seconds,
        "processor seconds per block": cpu / blocks,
        "bytes per block": bytes_ / blocks,
    }


# The whole, against two plain processes


def recipe() -> SmootherRecipe:
    return SmootherRecipe.of(embedded.model_for(Fraction(1)), "0.5", threads=1)


def inputs_of(images: int) -> Inputs:
    return load(embedded.IMAGES, grid=IMAGES, limit=images)


def throughput(images: int, n: int) -> dict[str, Any]:
    rounds = [{"ray": by_ray(images, n), "plain": by_plain_processes(images, n)} for _ in range(ROUNDS)]
    found: dict[str, Any] = {"workers": WORKERS, "images": images, "n": n, "rounds": rounds}
    for what in ("seconds", "processor seconds"):
        ratios = [each["plain"][what] / each["ray"][what] for each in rounds]
        found[f"ray / plain, by {what}"] = [statistics.median(ratios), min(ratios), max(ratios)]
    return found


class WarmPool(RayPool):
    """Its workers have built their models before the clock starts, as those of the plain processes have."""

    def __init__(self) -> None:
        super().__init__(recipe(), Need(cpus=1), WORKERS)
        self._built: list[Any] = []

    def build(self, inputs: Inputs, chosen: Settings) -> list[RayWorker]:
        """Every worker surveys the model once; these are then the workers of the run."""
        workers: list[Any] = []
        for _ in range(WORKERS):
            self.survey(inputs.levels[:1], chosen)
            workers += self.surveyor()
        self._built = list(workers)
        return workers

    def start_worker(self) -> RayWorker:
        return self._built.pop() if self._built else super().start_worker()

    def spent(self, workers: list[RayWorker]) -> float:
        """The processor time of idle workers so far."""
        for worker in workers:
            worker.call("idle")
        return sum(message.what for worker in workers for message in self.wait([worker], 60.0))


def by_ray(images: int, n: int) -> dict[str, float]:
    """The whole, the store included; processor time is that of the workers and of the driver."""
    inputs, chosen, pool = inputs_of(images), settings(n=n), WarmPool()
    with pool, tempfile.TemporaryDirectory() as folder:
        workers = pool.build(inputs, chosen)
        plan = plan_run(pool, inputs, chosen, secret("the same"))
        with open_store(Path(folder) / "run.db", plan) as store:
            spent = pool.spent(workers)
            start, cpu = time.perf_counter(), time.process_time()
            issued = certify_into(store, plan)
            for _ in range(images):
                next(issued)
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            spent = pool.spent(workers) - spent
            issued.close()
    return {"seconds": seconds, "processor seconds": spent + cpu, "of the driver": cpu}


def by_plain_processes(images: int, n: int) -> dict[str, float]:
    """Two processes, each taking the next image; each keeps its certificates in memory."""
    ready, done, following, cpu = (
        SPAWN.Barrier(WORKERS + 1),
        SPAWN.Barrier(WORKERS + 1),
        SPAWN.Value("i"),
        SPAWN.Queue(),
    )
    children = [SPAWN.Process(target=plain, args=(images, n, ready, done, following, cpu)) for _ in range(WORKERS)]
    for child in children:
        child.start()
    ready.wait()
    start = time.perf_counter()
    done.wait()
    seconds = time.perf_counter() - start
    spent = sum(cpu.get() for _ in children)
    for child in children:
        child.join()
    return {"seconds": seconds, "processor seconds": spent}


def plain(images: int, n: int, ready: Any, done: Any, following: Any, cpu: Any) -> None:
    os.setsid()  # as Ray's workers: some kernels share a busy machine between sessions, not between processes
    inputs, smoothing = inputs_of(images), recipe().build()
    ready.wait()
    start = time.process_time()
    while (place := _take(following)) < images:
        one = Inputs([inputs.indices[place]], [inputs.levels[place]], [inputs.labels[place]])
        certify_inputs(smoothing, one, settings(n=n), secret("the same")).close()
    done.wait()
    cpu.put(time.process_time() - start)


def _take(following: Any) -> int:
    with following.get_lock():
        following.value += 1
        return int(following.value) - 1


if __name__ == "__main__":
    main(*paths(__doc__, "out"))
