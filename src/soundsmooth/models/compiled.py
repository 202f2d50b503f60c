"""Ways to run a torch module: as it is, as a CUDA graph, or compiled. The way is promised like any kernel flag."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import Condition, Lock
from typing import Any, Literal, get_args

from ..core.cuda_streams import HIGH
from ..core.errors import first_line

#: What a promise may say.
Promised = Literal["none", "cuda-graph", "torch-compile", "tuned"]
#: What a user may ask for: `auto` becomes one of the others before the promise.
Compilation = Literal["auto", "none", "cuda-graph", "torch-compile", "tuned"]
AUTO, TUNED = "auto", "tuned"
PROMISED: tuple[Promised, ...] = get_args(Promised)
COMPILATIONS: tuple[Compilation, ...] = get_args(Compilation)

#: A batch goes in, scores come out, on the device.
Forward = Callable[[Any], Any]
#: Held while kernels are recorded: torch records one graph at a time.
RECORDING = Lock()


def check_way(how: str, device: str) -> None:
    """A ValueError for a way that there is not."""
    if how not in COMPILATIONS:
        raise ValueError(f"compile must be one of {', '.join(COMPILATIONS)}, not {how!r}")
    if how == "cuda-graph" and device != "cuda":
        raise ValueError(f'compile="cuda-graph" needs a model on a GPU, and this one is on {device}')


def forward_of(module: Any, how: str, batch: Any) -> Forward:
    """The module, run in one of the ways and ready for batches of this shape.

    `tuned` is for one shape, which `tuning` makes ready. Those of other shapes need no tuning: on a GPU their kernels
    are launched together.
    """
    forward: Forward = module
    recorded = how == "cuda-graph" or (how == TUNED and batch.is_cuda)
    if recorded or how == "torch-compile":
        import torch

        with torch.inference_mode():
            forward = CudaGraph(module, batch) if recorded else Compiled(module, batch)
    return forward


class CudaGraph:
    """The kernels of one forward pass, recorded once and launched together.

    Its input and its scores lie at fixed places. A batch is copied there after the scores of the batch before were
    copied out, in whatever thread and stream that was: nothing is overwritten before its votes are counted.
    """

    def __init__(self, module: Any, batch: Any) -> None:
        import torch

        with torch.inference_mode(False):  # compiled code takes one kind of tensor only, as batches are
            self._input = batch.clone()
        aside = _aside(batch.device)
        with RECORDING:
            aside.wait_stream(torch.cuda.current_stream(batch.device))
            with torch.cuda.stream(aside):
                for _ in range(3):  # libraries set themselves up at first
                    module(self._input)
            torch.cuda.current_stream(batch.device).wait_stream(aside)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=aside, capture_error_mode="thread_local"):
                self._scores = module(self._input)
        self._turn, self._copied = Lock(), torch.cuda.current_stream(batch.device).record_event()

    def __call__(self, batch: Any) -> Any:
        import torch

        stream = torch.cuda.current_stream(batch.device)
        with self._turn:
            stream.wait_event(self._copied)
            self._input.copy_(batch)
            self._graph.replay()
            scores = self._scores.clone()
            self._copied = stream.record_event()
        return scores


@cache
def _aside(device: Any) -> Any:
    """The stream of a GPU in which its graphs are recorded.

    torch's own stream for that is on the GPU that was recorded on first: there a graph of another GPU stays empty. And
    each kernel of a graph keeps the priority of the stream in which it was recorded: it has to go before noise.
    """
    import torch

    return torch.cuda.Stream(device, priority=HIGH)  # type: ignore[no-untyped-call]


#: Keep the compiler from choosing, by timing them, between kernels that add up in different orders: another process,
#: which continues or repeats a run, would have another F. It gets the first of these options that it knows.
NOTHING_BY_TIMING: tuple[tuple[str, bool], ...] = (("deterministic", True), ("triton.autotune_pointwise", False))


#: What torch calls it that nothing may be compiled again.
NEVER_AGAIN = "fail_on_recompile"


class Stance:
    """Whether torch's compiler may compile: a setting that all threads share.

    Guarantee: whoever votes gets an error in place of a compilation; whoever compiles is alone. Afterwards it is as it
    was before.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._voting = self._compiling = 0
        self._set: Any = None

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Others who vote have finished, or begin later."""
        with self._changed:
            self._compiling += 1
            try:
                self._changed.wait_for(lambda: not self._voting)
                yield
            finally:
                self._compiling -= 1
                self._changed.notify_all()

    @contextmanager
    def voting(self) -> Iterator[None]:
        """Any number at once: the first one sets it, and the last one puts it back."""
        import torch

        with self._changed:
            self._changed.wait_for(lambda: not self._compiling)
            if not self._voting:
                self._set = torch.compiler.set_stance(NEVER_AGAIN)
            self._voting += 1
        try:
            yield
        finally:
            with self._changed:
                self._voting -= 1
                if not self._voting:
                    self._set.__exit__(None, None, None)
                self._changed.notify_all()


STANCE = Stance()


class Compiled:
    """torch.compile for one shape. A second compilation would be another F: it is an error.

    Kernels are not chosen by timing, unless the `options` of torch's compiler say so.

    Guarantee: where torch cannot compile the module, or has its compiler switched off, it is a RuntimeError. What runs
    is never the module as it is.
    """

    def __init__(self, module: Any, batch: Any, options: Mapping[str, object] | None = None) -> None:
        import torch

        compiler: Any = torch
        try:
            chosen = nothing_by_timing() if options is None else dict(options)
            self._run = compiler.compile(module, dynamic=False, options=chosen)
            with STANCE.compiling(), _errors_are_raised():
                self._run(batch)
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception as error:  # of two compilers, and of the folders where they keep files
            found = getattr(error, "inner_exception", error)  # what torch's compiler says of another one's
            raise RuntimeError(f"{first_line(found)}; compile none leaves the compiler out") from error

    def __call__(self, batch: Any) -> Any:
        with STANCE.voting():
            try:
                return self._run(batch)
            except RuntimeError as error:
                if NEVER_AGAIN not in str(error):
                    raise
                raise RuntimeError(
                    f"something is not as it was when torch compiled the model ({_changed(error)}): set it back, or "
                    "begin anew"
                ) from error


def _changed(error: RuntimeError) -> str:
    """What torch says has changed since it compiled."""
    found = re.search(r"^ *- [0-9/]+: (.+)", str(error), re.MULTILINE)
    return first_line(error) if found is None else found[1].strip()


#: Of torch's compiler: how often it compiles the same code, in a row and in all.
LIMITS = ("recompile_limit", "accumulated_recompile_limit")
MANY = 1 << 30


@contextmanager
def _errors_are_raised() -> Iterator[None]:
    """Where torch is told to go on without its compiler, it runs the module as it is, and says nothing of it. So it
    does with code that it has compiled eight times: for other shapes, or for other modules of the class.
    """
    from torch._dynamo import config

    if config.disable or os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        raise RuntimeError("torch's compiler is switched off (TORCH_COMPILE_DISABLE or TORCHDYNAMO_DISABLE)")
    limits = {name: MANY for name in LIMITS if hasattr(config, name)}
    with config.patch({"suppress_errors": False, **limits}):
        yield


def nothing_by_timing() -> dict[str, object]:
    """The options with which torch's compiler makes the same kernels in each process."""
    from torch import _inductor

    known = set(_inductor.list_options())
    return dict([next(option for option in NOTHING_BY_TIMING if option[0] in known)])
