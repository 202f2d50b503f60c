"""What a run with looks costs beside the model: processor time of our own work for each image, by stage.

    python experiments/looks/overhead.py run docs/data/looks_overhead.json [--before OTHER/src]
    python experiments/looks/overhead.py table docs/data/looks_overhead.json docs/looks.md

The real pipeline certifies images of one pixel with a graph that compares it with a number, at σ = 0.12, for the table
of radii, into a file. So noise and model cost next to nothing. The pixels are chosen so that the images' p are about
those of the stored CIFAR-10 run: as many are decided at each look as there. (A graph of two answers selects the more
probable one, so that no p is below ½.)

A checkout of another version takes turns with this one, each in processes of its own; kept are the medians. A stage
does not count what the stages that it calls take. Waiting for the disk is no processor time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from soundsmooth.lab.scripts.pages import fill, table

HERE = Path(__file__).resolve().parent
SIGMA, BATCH, CUT = 0.12, 3200, 0.75
MARK = "overhead"
#: What a tuned network takes for a row, and a disk for a commit, in seconds.
ROW, COMMIT = 4.4e-6, 0.003
STAGES = ("model and noise", "blocks", "decisions", "packs", "certificates", "commits", "leases", "scheduler", "rest")


class Clock:
    """Processor time by stage, each without the stages that it calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._stack = ["rest"]
        self._since = time.process_time()

    def start(self) -> None:
        self.seconds.clear()
        self._since = time.process_time()

    def turn(self) -> None:
        now = time.process_time()
        self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    def timed(self, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            self.turn()
            self._stack.append(stage)
            try:
                return work(*args, **kwargs)
            finally:
                self.turn()
                self._stack.pop()

        return run

    def watch(self, place: Any, name: str, stage: str) -> None:
        setattr(place, name, self.timed(stage, getattr(place, name)))


def watched() -> Clock:
    """A clock over the stages of the pipeline of whichever version is imported."""
    from soundsmooth.runs import leases, pipeline, reader, scheduler, store, worker

    clock, writer = Clock(), pipeline._RunWriter
    for method in ("give", "rest"):
        clock.watch(worker.Worker, method, "model and noise")
    clock.watch(writer, "_write_votes", "blocks")
    clock.watch(writer, "_begin_round", "packs")
    clock.watch(writer, "_certify", "certificates")
    clock.watch(pipeline, "image_votes", "decisions")
    clock.watch(reader, "image_votes", "decisions")
    for method in ("take", "beat"):
        clock.watch(leases.Leases, method, "leases")
    for method in ("step", "add", "wants_tasks"):
        clock.watch(scheduler.Scheduler, method, "scheduler")
    run = store.Database.execute

    def execute(self: Any, statement: str, *values: object) -> Any:
        return (committed if statement == "COMMIT" else run)(self, statement, *values)

    committed = clock.timed("commits", run)
    store.Database.execute = execute
    return clock


class Device:
    """A GPU that takes so long for each row and nothing else, beside the processor time that the host takes.

    Tasks wait in its queue, as with a GPU. Nobody waits for it in earnest: its clock is put forward. So a busy machine
    makes no difference.
    """

    def __init__(self) -> None:
        self.ahead = self.busy = self.free = 0.0
        self.ends: dict[int, float] = {}

    def now(self) -> float:
        return time.process_time() + self.ahead

    def begin(self, task: Any) -> None:
        seconds = ROW * BATCH * -(-task.copies // BATCH)
        self.busy, self.free = self.busy + seconds, max(self.free, self.now()) + seconds
        self.ends[id(task)] = self.free

    def finish(self, task: Any) -> None:
        self.ahead += max(0.0, self.ends.pop(id(task)) - self.now())

    def watch(self) -> None:
        """Let the voters of whichever version is imported vote on this device, and commits take their time."""
        from soundsmooth.runs import store, voter

        begin, finish, execute = voter.Voter._begin, voter.Voter._finish, store.Database.execute

        def begun(voter: Any, task: Any, images: Any) -> Any:
            found = begin(voter, task, images)
            self.begin(task)
            return found

        def finished(voter: Any, begun: Any) -> Any:
            self.finish(begun.task)
            return finish(voter, begun)

        def executed(database: Any, statement: str, *values: object) -> Any:
            self.ahead += COMMIT * (statement == "COMMIT")
            return execute(database, statement, *values)

        voter.look_ahead = lambda replica: voter.AHEAD
        voter.Voter._begin, voter.Voter._finish, store.Database.execute = begun, finished, executed


def graph(path: Path) -> None:
    """Class 0 below the cut, class 1 above it; the other eight are never first."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    slopes = np.array([[-1.0, 1.0, *[0.0] * 8]], np.float32)
    heights = np.array([CUT, -CUT, *[-100.0] * 8], np.float32)
    made = helper.make_graph(
        [
            helper.make_node("Flatten", ["x"], ["flat"]),
            helper.make_node("Gemm", ["flat", "slopes", "heights"], ["y"]),
        ],
        "threshold",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, 1, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(slopes, "slopes"), numpy_helper.from_array(heights, "heights")],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def pixels(count: int) -> Any:
    """One for each image of the stored run, over and over: its p is nearest to the image's."""
    import numpy as np

    sys.path.insert(0, str(HERE))
    import simulate

    shares = [min(max(each.p, 0.5), 1 - 1e-6) for each in simulate.images("0.12", "all")]
    heights = np.array([simulate.NORMAL.inv_cdf(share) for share in shares])
    levels = np.clip(np.round(255 * (CUT - SIGMA * heights)), 0, 255).astype(np.uint8)
    return np.resize(levels, count)[:, None, None, None]


def measure(count: int) -> dict[str, Any]:
    """Milliseconds of processor time for each image, by stage, of one run into a file; and seconds for each image, with
    a device, of another one.
    """
    clock = watched()
    found = certified(count, clock.start)
    clock.turn()
    found["milliseconds"] = {stage: 1000 * clock.seconds[stage] / count for stage in STAGES}
    device = Device()
    device.watch()
    starts: list[float] = []
    certified(count, lambda: starts.append(device.now()))
    total = (device.now() - starts[0]) / count
    return {**found, "device": {"seconds": total, "busy": device.busy / count}}


def certified(count: int, begin: Callable[[], None]) -> dict[str, Any]:
    """Certify the images; `begin` is called when that has been planned."""
    import soundsmooth as ss
    from soundsmooth.certification.promise import secret
    from soundsmooth.certification.settings import settings
    from soundsmooth.runs.pipeline import certify_into, open_store
    from soundsmooth.runs.plan import plan_run
    from soundsmooth.runs.pools import LocalPool

    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "threshold.onnx"
        graph(model)
        images = pixels(count)
        inputs = ss.load(images, labels=[0] * count)
        smooth = ss.Smoother(model, str(SIGMA), batch_size=BATCH, threads=1)
        plan = plan_run(LocalPool(smooth.smoothing), inputs, settings(n=100_000, radii="steps"), secret("overhead"))
        with open_store(Path(folder) / "run.db", plan, votes=False) as store:
            begin()
            with closing(certify_into(store, plan)) as issued:
                finished = sum(1 for _ in issued)
            blocks = store.db.one("SELECT COUNT(*) FROM blocks")
            return {"images": finished, "copies": store.copies_voted(), "blocks": blocks}


def other(source: Path, count: int) -> dict[str, Any]:
    """The same, of the version in a folder, in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "one", str(count)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(source)}
    )
    return json.loads(done.stdout)


def run(target: Path, count: int, rounds: int, before: Path | None) -> None:
    sources = {**({} if before is None else {"before": before}), "now": HERE.parents[1] / "src"}
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in sources}
    for _ in range(rounds):
        for name, source in sources.items():
            runs[name].append(other(source, count))
    found = [summary(name, each) for name, each in runs.items()]
    target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(rendered(found))


def summary(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The medians, and the range of what all stages but the model take together."""
    stages = {stage: round(statistics.median(run["milliseconds"][stage] for run in runs), 3) for stage in STAGES}
    ours = [round(sum(run["milliseconds"].values()) - run["milliseconds"][STAGES[0]], 3) for run in runs]
    whole = {"least": min(ours), "median": statistics.median(ours), "most": max(ours)}
    said = {key: runs[0][key] for key in ("images", "copies", "blocks")}
    device = {key: round(statistics.median(run["device"][key] for run in runs), 5) for key in ("seconds", "busy")}
    found = {"version": name, "rounds": len(runs), **said, "milliseconds": stages, "all but the model": whole}
    share = ROW * said["copies"] / said["images"] / device["seconds"]
    return {**found, "device": device, "share of the gain": round(share, 3)}


def rendered(found: list[dict[str, Any]]) -> str:
    heads = ["for each image", *(each["version"] for each in found)]
    body = [[stage, *(f"{each['milliseconds'][stage]:.2f} ms" for each in found)] for stage in STAGES]
    last = [each["all but the model"] for each in found]
    whole = [f"{each['median']:.2f} ms ({each['least']:.2f} to {each['most']:.2f})" for each in last]
    rows = [[f"{1000 * each['device'][key]:.2f} ms" for each in found] for key in ("seconds", "busy")]
    shares = [f"{each['share of the gain']:.2f}" for each in found]
    return table(
        heads,
        [
            *body,
            ["**all but model and noise**", *whole],
            ["on a device of 4.4 µs a row: total", *rows[0]],
            ["of which the device is busy", *rows[1]],
            ["share of the gain in votes", *shares],
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("one").add_argument("images", type=int)
    asked = commands.add_parser("run")
    asked.add_argument("target", type=Path)
    asked.add_argument("--images", type=int, default=500)
    asked.add_argument("--rounds", type=int, default=7)
    asked.add_argument("--before", type=Path)
    shown = commands.add_parser("table")
    shown.add_argument("source", type=Path)
    shown.add_argument("page", type=Path)
    given = parser.parse_args()
    if given.command == "one":
        print(json.dumps(measure(given.images)))
    elif given.command == "run":
        run(given.target, given.images, given.rounds, given.before)
    else:
        fill(given.page, MARK, rendered(json.loads(given.source.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
