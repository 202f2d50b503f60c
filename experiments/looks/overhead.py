"""What a run with looks costs beside the model: seconds of our own work for each image, by stage.

    python experiments/looks/overhead.py [--images 500] [--rounds 3] [--source OTHER/src]

The real pipeline certifies images of one pixel with a graph that compares it with a number, at σ = 0.12, for the table
of radii, into a file. So noise and model cost next to nothing. The pixels are chosen so that the images' p are about
those of the stored CIFAR-10 run: as many are decided at each look as there. (A graph of two answers selects the more
probable one, so that no p is below ½.)

With `--source` a checkout of another version takes turns with this one, each in processes of its own; shown are the
medians. The stages are exclusive: what one of them calls is not counted twice.
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

HERE = Path(__file__).resolve().parent
SIGMA, BATCH, CUT = 0.12, 3200, 0.75
STAGES = ("model and noise", "blocks", "decisions", "packs", "certificates", "commits", "leases", "scheduler", "rest")


class Clock:
    """Seconds by stage, each without the stages that it calls."""

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
    """Milliseconds for each image, by stage, of one run into a file."""
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
        clock = watched()
        with open_store(Path(folder) / "run.db", plan, votes=False) as store:
            with closing(certify_into(store, plan)) as issued:
                clock.start()
                finished = sum(1 for _ in issued)
                clock.turn()
            copies = store.copies_voted()
            tasks = store.db.one("SELECT COUNT(*) FROM blocks")
    milliseconds = {stage: 1000 * clock.seconds[stage] / finished for stage in STAGES}
    return {"images": finished, "copies": copies, "blocks": tasks, "milliseconds": milliseconds}


def other(source: Path, count: int) -> dict[str, Any]:
    """The same, of the version in a folder, in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--images", str(count), "--one"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(source)}
    )
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--source", type=Path, nargs="*", default=[])
    parser.add_argument("--one", action="store_true", help="one run, in this process, as JSON")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.images)))
        return
    sources = [*given.source, HERE.parents[1] / "src"]
    found: dict[Path, list[dict[str, Any]]] = {source: [] for source in sources}
    for _ in range(given.rounds):
        for source in sources:
            found[source].append(other(source, given.images))
    for source, runs in found.items():
        print(f"{source}: {runs[0]['images']} images, {runs[0]['copies']} copies, {runs[0]['blocks']} blocks")
        for stage in STAGES:
            print(f"  {stage:16} {statistics.median(run['milliseconds'][stage] for run in runs):7.3f} ms an image")
        ours = [sum(run["milliseconds"].values()) - run["milliseconds"][STAGES[0]] for run in runs]
        print(f"  {'all but model':16} {statistics.median(ours):7.3f} ms an image ({min(ours):.3f} to {max(ours):.3f})")


if __name__ == "__main__":
    main()
