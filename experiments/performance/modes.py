"""Certify with one network in each way in which it can run, beside its forward passes in the same way.

    python experiments/performance/modes.py OUT --network resnet110 --n 100000 --dtype float16 --modes none tuned

Everything is measured side by side in this one call: each round times every forward and every certification once, and
begins with another one. OUT gets one JSON object. `modes_table.py` makes a table of several. Without a GPU it runs on
the processor.

Selection has one batch, as large as the others, so that nothing is compiled for another size.

A forward is as many passes as the certification needs, on batches that lie ready, in the way and in the batches that
the certification has. `module` is the module itself, in eager mode and in the batches of the first way. `compiled` is
what people write: torch.compile over the module, with torch's own defaults, in the same batches. `--ours-only` leaves
that out. `--in-turn` also certifies with noise before each pass, and not beside it as GPUs do.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import zoo
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry, sdpa_flop_count
from turns import add_turns, wait_for_turn

import soundsmooth as ss
from soundsmooth import embedded
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import Settings, settings
from soundsmooth.core import cuda_streams
from soundsmooth.lab.bench.pairs import Alternated, Ratio, alternate
from soundsmooth.models.environment import environment
from soundsmooth.runs.run import finish_run, start_run

SIGMA, N0 = "0.25", 100
EMBEDDED = "embedded"
IN_TURN = "certify in turn"


def attention_flop(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(query, key, value)


#: Torch counts attention's operations on a GPU only.
ATTENTION = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flop}


def arguments(description: str | None) -> argparse.ArgumentParser:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--network", choices=[EMBEDDED, *zoo.NETWORKS], required=True)
    parser.add_argument("--n", type=int, default=20_000 if gpu else 2000)
    parser.add_argument("--images", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--dtype", default="bf16" if gpu else "float32")
    parser.add_argument("--device", default="cuda:0" if gpu else "cpu")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--modes", nargs="+", default=["none", "torch-compile", "tuned"])
    parser.add_argument("--ours-only", action="store_true", help="leave out torch.compile over the module")
    parser.add_argument("--in-turn", action="store_true", help="certify with noise before each pass, too")
    add_turns(parser)
    return parser


def main() -> None:
    asked = arguments(__doc__).parse_args()
    if asked.network == EMBEDDED:
        asked.modes = ["none"]
    found = measure(asked)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["seconds"]), json.dumps(found["ratios"]))


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Seconds of each action, and certifications over the forward passes of the same way."""
    modes = {mode: Mode(asked, mode) for mode in asked.modes}
    actions: dict[str, Callable[[], object]] = {}
    for name, mode in modes.items():
        actions |= {f"{name} forward": mode.forward, f"{name} certify": mode.certify}
        if asked.in_turn:
            actions[f"{name} {IN_TURN}"] = with_noise_in_turn(mode.certify)
    first = next(iter(modes.values()))
    if first.module is not None:
        actions["module forward"] = first.module_forward
    if first.module is not None and not asked.ours_only:
        actions["compiled forward"] = first.compiled_forward()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if asked.turns:
        wait_for_turn()
    for mode in modes.values():
        mode.warm()
    work = {name: Work(action) for name, action in actions.items()}
    taken = alternate(work, asked.rounds)
    processor = Alternated({name: each.seconds for name, each in work.items()})
    return {
        "network": asked.network,
        "images": asked.images,
        "n": asked.n,
        "precision": asked.dtype,
        "device": device_name(),
        "threads": asked.threads,
        "rounds": asked.rounds,
        "modes": {name: mode.described for name, mode in modes.items()},
        "seconds": {name: round(taken.median(name), 4) for name in actions},
        "ratios": ratios(taken, list(modes)),
        "processor seconds": {name: round(processor.median(name), 4) for name in actions},
        "processor ratios": ratios(processor, list(modes)),
        "least": None if first.module is None else least_work(asked.network),
        "kernels": {name: mode.kernels() for name, mode in modes.items() if first.module is not None},
        "environment": environment(),
    }


class Work:
    """An action, and the processor time of each of its calls, in all threads: what others take does not count."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action
        self.seconds: list[float] = []

    def __call__(self) -> None:
        start = time.process_time()
        self._action()
        self.seconds.append(time.process_time() - start)


def least_work(network: str) -> dict[str, float]:
    """What one row takes at least: the operations of its products, and bytes to and from memory.

    Each product is one kernel, which reads its input and writes its output in 16 bits. All else is done on the way.
    """
    module, shape = zoo.network(network), zoo.NETWORKS[network].shape
    with FlopCounterMode(display=False, custom_mapping=ATTENTION) as counter, Moved(module) as moved:
        module(torch.zeros(1, *shape))  # with gradients: without them attention is one operator, which is not counted
    return {"operations": counter.get_total_flops(), "bytes": moved.bytes}


class Moved(TorchDispatchMode):
    """Counts what products read and write, their weights left out."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.bytes, self._weights = 0, {each.untyped_storage().data_ptr() for each in module.parameters()}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func.overloadpacket in {*flop_registry, *ATTENTION}:
            results = found if isinstance(found, tuple | list) else [found]
            tensors = [each for each in (*args, *results) if isinstance(each, torch.Tensor)]
            own = [each for each in tensors if each.untyped_storage().data_ptr() not in self._weights]
            self.bytes += 2 * sum(each.numel() for each in own)
        return found


def ratios(taken: Alternated, modes: list[str]) -> dict[str, list[float]]:
    pairs = [(f"{mode} certify", f"{mode} forward") for mode in modes]
    pairs += [(each, f"{mode} forward") for mode in modes if (each := f"{mode} {IN_TURN}") in taken.seconds]
    for plain in [name for name in ("module forward", "compiled forward") if name in taken.seconds]:
        pairs += [(f"{mode} {action}", plain) for mode in modes for action in ("forward", "certify")]
    return {f"{one} / {other}": interval(taken.ratio(one, other)) for one, other in pairs}


def interval(found: Ratio) -> list[float]:
    """The median, and where it lies."""
    return [round(each, 4) for each in (found.median, found.low, found.high)]


def device_name() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


class Mode:
    """One way to run the network: what it was tuned to, its forward passes, and a run of some images."""

    def __init__(self, asked: argparse.Namespace, mode: str) -> None:
        self._asked, self.way, start = asked, mode, time.perf_counter()
        small = asked.network == EMBEDDED
        self.module = None if small else zoo.network(asked.network)
        shape = (1, 28, 28) if small else zoo.NETWORKS[asked.network].shape
        levels = np.random.default_rng(0).integers(0, 256, (asked.images, *shape)).astype(np.int16)
        self._inputs = Inputs(tuple(range(asked.images)), tuple(levels), (None,) * asked.images)
        options: dict[str, Any] = {"threads": asked.threads, "batch_size": asked.batch}
        if not small:
            options |= {"device": asked.device, "dtype": asked.dtype, "compile": mode}
            options |= {"channels_last": asked.channels_last}
        source: Any = embedded.MODELS[min(embedded.MODELS)] if small else self.module
        self._smooth = ss.Smoother(source, SIGMA, **options)
        self._first = Inputs((0,), (levels[0],), (None,))
        self._certify(self._first)  # tunes and compiles, and says what was chosen
        self._model: Any = self._smooth.smoothing.model
        chosen = self._settings()
        self.levels, self.replica = levels[0], self._smooth.smoothing.replicas[0]
        self.batch = batch = self._smooth.smoothing.batch_of(shape, chosen)
        self._passes = [(min(batch, chosen.n0), -(-chosen.n0 // batch)), (batch, -(-asked.n // batch))]
        self._rows = {rows: self._make_rows(rows, shape) for rows, _ in self._passes}
        self.described = {
            "batch": batch,
            "independence": self._model.identity().independence.text,
            "chosen": self._model.chosen,
            "slower": self._model.slower,
            "ready after": round(time.perf_counter() - start, 1),
        }

    def _settings(self) -> Settings:
        return settings(n=self._asked.n, n0=max(N0, self._asked.batch or 0))

    @property
    def _all(self) -> list[tuple[int, int]]:
        """The passes of all images."""
        return self._asked.images * self._passes

    @property
    def _one(self) -> list[tuple[int, int]]:
        """One pass of each size: what comes with a first pass is done then."""
        return [(rows, 1) for rows, _ in self._passes]

    @property
    def passes(self) -> int:
        """How many a certification of all images takes."""
        return sum(count for _, count in self._all)

    def rows(self, count: int) -> Any:
        """A batch that lies ready."""
        return self._rows[count]

    def _make_rows(self, rows: int, shape: tuple[int, ...]) -> Any:
        values = np.random.default_rng(1).normal(0.5, 0.4, (rows, *shape)).astype(np.float32)
        return values if self.module is None else self._model.cast(values)

    def forward(self) -> None:
        """All passes of all images: what the model has to do, and nothing else."""
        self.run(self._all)

    def run(self, passes: Sequence[tuple[int, int]], forward: Callable[[Any], Any] | None = None) -> None:
        """So many passes on batches of each size, in this way, or by what else is given."""
        if forward is None:
            forward = self._model.scores if self.module is None else self._model.forward
        with torch.inference_mode():
            for rows, count in passes:
                for _ in range(count):
                    forward(self._rows[rows])
            if torch.cuda.is_available():
                torch.cuda.synchronize()

    def kernels(self) -> list[tuple[str, int, float]]:
        """Those of one pass on the GPU, with calls and milliseconds, the costliest first."""
        rows = self._rows[self._passes[-1][0]]
        if not rows.is_cuda:
            return []
        with torch.inference_mode(), profile(activities=[ProfilerActivity.CUDA]) as found:
            self._model.forward(rows)
            torch.cuda.synchronize()
        each = [(event.key[:160], event.count, event.self_device_time_total / 1000) for event in found.key_averages()]
        return sorted([one for one in each if one[2] > 0], key=lambda one: -one[2])[:60]

    def module_forward(self) -> None:
        """The same by the module itself, as one would write it."""
        self.run(self._all, self._model._module)

    def compiled_forward(self) -> Callable[[], None]:
        """The same by the module under torch.compile, which is compiled now."""
        compiled = torch.compile(self._model._module, dynamic=False)
        self.run(self._one, compiled)
        return lambda: self.run(self._all, compiled)

    def warm(self) -> None:
        """One pass of each size, by the module too, and a run of one image: what comes first only is done then."""
        self.run(self._one)
        if self.module is not None:
            self.run(self._one, self._model._module)
        self._certify(self._first)

    def certify(self) -> None:
        """A run in memory, from promise to certificates."""
        self._certify(self._inputs)

    def _certify(self, images: Inputs) -> None:
        pool = self._smooth.pool()
        plan, store = start_run(pool, images, self._settings(), secret())
        finish_run(plan, store).close()


class InTurn(cuda_streams.TwoStreams):
    """Noise in the model's stream, before its pass."""

    def make(self, request: Callable[[], Any]) -> tuple[Any, Any]:
        with self._turn, self._torch.cuda.stream(self._front):
            return request(), self._front.record_event()


def with_noise_in_turn(action: Callable[[], object]) -> Callable[[], None]:
    """The action, with nothing beside the model's work on a GPU."""

    def done() -> None:
        with patch.object(cuda_streams, "TwoStreams", InTurn):
            action()

    return done


if __name__ == "__main__":
    main()
