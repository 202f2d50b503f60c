"""What more than one machine costs: Ray's calls, the store, and the whole against two plain processes.

    python experiments/scale/measure.py docs/data/scale.json

The page docs/scale.md is written from it by table.py. Ratios are medians over alternating rounds, with the smallest and
the largest; on a machine that others use too, only the ratios mean anything.
"""

import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from soundsmooth import embedded
from soundsmooth.grid import IMAGES
from soundsmooth.machine import environment
from soundsmooth.models import Identity
from soundsmooth.noise import law
from soundsmooth.promise import Inputs, secret
from soundsmooth.recipe import Recipe
from soundsmooth.runs.blocks import BlockVotes
from soundsmooth.runs.crew import Elsewhere, Muster, News
from soundsmooth.runs.data import read_npz
from soundsmooth.runs.engine import Smoothing, certify_inputs
from soundsmooth.runs.ray_engine import Need, RayCrew, RayHand
from soundsmooth.runs.resume import certify_into, open_store
from soundsmooth.runs.station import Arrival, Kind, Survey, run_elsewhere
from soundsmooth.runs.voter import Outcome
from soundsmooth.settings import settings

ROUNDS = 6
WORKERS = 2
CALLS = 2000
#: Many images and small blocks (250 copies): more is asked of Ray here than in a real run, where blocks are larger.
IMAGES_EACH, COPIES = 24, 5_000
#: As a run on ImageNet has it: blocks of 5000 copies, 1000 classes.
CLASSES, DRIVER_IMAGES = 1000, 60
SPAWN = multiprocessing.get_context("spawn")


def main(out: Path) -> None:
    import ray

    found: dict[str, Any] = {"driver": driver(1), "driver, busy": driver(256)}
    ray.init(num_cpus=WORKERS, object_store_memory=100 << 20, include_dashboard=False, logging_level="ERROR")
    try:
        found |= {"calls": calls(), "throughput": throughput()}
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
    with RayCrew(Need(cpus=1)) as crew:
        hands = [crew.hire() for _ in range(WORKERS)]
        _nap(crew, hands, 20, 1)
        alone = _nap(crew, hands[:1], CALLS // 4, 1)
        queued = _nap(crew, hands, CALLS, 3)
        for hand in hands:
            hand.kill()
    return {"seconds for one": alone / (CALLS // 4), "per second": CALLS / queued}


def _nap(crew: RayCrew, hands: list[RayHand], count: int, depth: int) -> float:
    start, given, done = time.perf_counter(), 0, 0
    while done < count:
        for hand in hands:
            while given < count and len(hand.answers) < depth:
                hand.call("nap", 0.0)
                given += 1
        done += len(crew.wait(list(hands), 1.0))
    return time.perf_counter() - start


# What the driver can write down


@dataclass(eq=False)
class InstantHand:
    """A worker that needs no time: its votes lie ready."""

    votes: dict[int, BlockVotes]
    calls: deque[Any] = field(default_factory=deque)

    def call(self, method: str, *arguments: Any) -> None:
        self.calls.append((method, arguments))

    def kill(self) -> None:
        pass

    def answer(self) -> Any:
        method, arguments = self.calls.popleft()
        if method == "begin":
            return KIND_ARRIVES
        return [Outcome(arguments[0], self.votes[arguments[0].block.count], (), 0.3)]


KIND = Kind("cpu", "any", "none")
KIND_ARRIVES = Arrival(KIND, 0)


@dataclass(eq=False)
class InstantCrew:
    """As many workers as answers are to come at a time."""

    votes: dict[int, BlockVotes]
    size: int

    def strength(self) -> int:
        return self.size

    def hire(self) -> InstantHand:
        return InstantHand(self.votes)

    def share(self, value: Any) -> Any:
        return value

    def wait(self, hands: list[Any], seconds: float) -> list[News]:
        return [News(hand, hand.answer()) for hand in hands if hand.calls]

    def describe(self) -> dict[str, str]:
        return {}


def driver(size: int) -> dict[str, float]:
    """Blocks per second from answers to certificates in the store, when the workers need no time at all."""
    chosen = settings(n0=100, n=100_000)
    levels = tuple(np.zeros((3, 8, 8), np.int16) for _ in range(DRIVER_IMAGES))
    inputs = Inputs(range(DRIVER_IMAGES), levels, [0] * DRIVER_IMAGES)
    chance = np.random.default_rng(0)
    votes = {
        count: BlockVotes(np.where(chance.random(count) < 0.9, 7, chance.integers(0, CLASSES, count)), CLASSES)
        for count in (100, 5000)
    }
    smoothing = Smoothing(law("0.5", 6, IMAGES), (), 1000, "nowhere")
    run = run_elsewhere(Survey(Identity("onnx", "0" * 64), smoothing, KIND, environment()), inputs, chosen, secret())
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "run.db", run) as store:
        engine: Any = Elsewhere(InstantCrew(votes, size), None, run, KIND)  # type: ignore[arg-type]
        start, cpu = time.perf_counter(), time.process_time()
        issued = sum(1 for _ in certify_into(store, run, engine=engine))
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


def work() -> tuple[Recipe, Inputs]:
    recipe = Recipe.of(embedded.model_for(1), "0.5", threads=1)
    return recipe, read_npz(embedded.IMAGES, recipe.grid, limit=IMAGES_EACH)


def throughput() -> dict[str, Any]:
    rounds = [{"ray": by_ray(), "plain": by_plain_processes()} for _ in range(ROUNDS)]
    ratios = [each["plain"] / each["ray"] for each in rounds]
    copies = IMAGES_EACH * (COPIES + 100)
    speeds = {name: statistics.median(copies / each[name] for each in rounds) for name in ("ray", "plain")}
    return {
        "workers": WORKERS,
        "images": IMAGES_EACH,
        "n": COPIES,
        "copies per second": speeds,
        "ray / plain": [statistics.median(ratios), min(ratios), max(ratios)],
        "rounds": rounds,
    }


@dataclass(eq=False)
class WarmCrew(RayCrew):
    """Its workers have built their models before the clock starts, as those of the plain processes have."""

    ready: list[RayHand] = field(default_factory=list)

    def hire(self) -> RayHand:
        return self.ready.pop() if self.ready else super().hire()


def by_ray() -> float:
    """Seconds, the store included."""
    (recipe, inputs), chosen = work(), settings(n=COPIES)
    with WarmCrew(Need(cpus=1), WORKERS) as crew, tempfile.TemporaryDirectory() as folder:
        first, second = (Muster.of(crew, recipe, inputs, chosen) for _ in range(WORKERS))
        crew.ready = [second.hand]  # type: ignore[list-item]
        run = first.run(secret("the same"))
        with open_store(Path(folder) / "run.db", run) as store:
            start = time.perf_counter()
            assert sum(1 for _ in certify_into(store, run, engine=first.engine(run))) == IMAGES_EACH
            return time.perf_counter() - start


def by_plain_processes() -> float:
    """Seconds until two processes have certified all images, each taking the next one; they keep them to themselves."""
    ready, done, following = SPAWN.Barrier(WORKERS + 1), SPAWN.Barrier(WORKERS + 1), SPAWN.Value("i", 0)
    children = [SPAWN.Process(target=plain, args=(ready, done, following)) for _ in range(WORKERS)]
    for child in children:
        child.start()
    ready.wait()
    start = time.perf_counter()
    done.wait()
    seconds = time.perf_counter() - start
    for child in children:
        child.join()
    return seconds


def plain(ready: Any, done: Any, following: Any) -> None:
    recipe, inputs = work()
    smoothing = recipe.build()
    ready.wait()
    while (place := _take(following)) < IMAGES_EACH:
        one = Inputs([inputs.indices[place]], [inputs.levels[place]], [inputs.labels[place]])
        for _ in certify_inputs(smoothing, one, settings(n=COPIES), secret("the same")):
            pass
    done.wait()


def _take(following: Any) -> int:
    with following.get_lock():
        following.value += 1
        return int(following.value) - 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
