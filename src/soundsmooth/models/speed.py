"""How long forward passes take: whether the graph that votes is as fast as its module, and whether compiling pays."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from ..core.errors import first_line
from .compiled import Forward, forward_of

if TYPE_CHECKING:
    import torch

#: A graph may take so much of the module's time.
TOLERATED = 1.03
#: Passes of either, in turn, after one that counts for nothing.
ROUNDS = 5
#: Passes from which the time of a run is estimated, the first of which counts for nothing.
GLANCE = 3
#: So many operators are named.
MOST_NAMED = 3
#: Seconds of forward passes from which on it pays to compile. That takes about a minute, and saves a third or more.
PAYS = 300.0
#: What is compiled is taken if it takes at most this share of the time.
FASTER = 0.97
#: Bytes that a layer may give for a batch, for each thread of a processor. Larger tensors leave the caches, and the C
#: library takes their memory from the system each time.
SMALL_OUTPUT = 4 << 20


def quick_rows(module: "torch.nn.Module", row: "torch.Tensor", most: int) -> int:
    """A divisor of `most`: the largest for which every layer's output is small on this processor.

    `most` if the layers cannot be watched. What is wrong with a module is said when it votes.
    """
    import torch

    sizes, hooks = [1], []

    def note(_layer: object, _given: object, found: object) -> None:
        each = found if isinstance(found, tuple | list) else (found,)
        sizes.extend(value.nbytes for value in each if isinstance(value, torch.Tensor))

    try:
        hooks += [layer.register_forward_hook(note) for layer in module.modules()]
        with torch.inference_mode():
            module(row)
    except Exception:
        return most
    finally:
        for hook in hooks:
            hook.remove()
    room = SMALL_OUTPUT * torch.get_num_threads() // max(sizes)
    return max((rows for rows in range(1, most + 1) if most % rows == 0 and rows <= room), default=1)


def describe_slower(
    module: Forward, graph: Forward, batch: "torch.Tensor", clock: Callable[[], float] = time.perf_counter
) -> str | None:
    """A sentence with the operators that cost most, if the graph takes longer than the module; None otherwise."""
    import torch

    try:
        before, after = _usual_seconds((module, graph), batch, clock)
    except Exception:  # of their code, or of the GPU's memory: nothing but a remark is lost
        free_memory()
        return None
    if after <= TOLERATED * before:
        return None
    share = f"the exported graph, which votes, takes {after / before:.2f} times as long as the module itself"
    with torch.inference_mode():
        costly = ", ".join(_costliest(_operators(module, batch), _operators(graph, batch)))
    return f"{share}; most of that is {costly}" if costly else share


class Compared(NamedTuple):
    """What became of compiling a module."""

    compiled: Forward | None
    """The module compiled, if that is faster."""
    said: str
    """What it gains, or why the module runs as it is."""


def faster_compiled(
    module: Forward, batch: "torch.Tensor", copies: int, clock: Callable[[], float] = time.perf_counter
) -> Compared | None:
    """Whether the module is faster compiled; None if a run of so many copies is too short to try."""
    glance = [seconds_of_passes(module, batch, 1, clock) for _ in range(GLANCE)][1:]
    expected = median(glance) * copies / len(batch)
    if expected < PAYS:
        return None
    try:
        compiled = forward_of(module, "torch-compile", batch)
        before, after = _usual_seconds((module, compiled), batch, clock)
    except Exception as error:  # no compiler, too little memory, or anything else in torch's
        free_memory()
        return Compared(None, f"torch cannot compile it here, so it runs as it is: {first_line(error)}")
    if after > FASTER * before:
        return Compared(None, "not compiled: that would be no faster")
    saved = (1 - after / before) * expected / 60
    said = f"compiled: {before / after:.2f} times as fast as before, which saves up to {saved:.0f} min"
    return Compared(compiled, said)


def _usual_seconds(
    forwards: tuple[Forward, Forward], batch: "torch.Tensor", clock: Callable[[], float]
) -> tuple[float, float]:
    """The medians of some passes of both, in turn, after one of each that counts for nothing."""
    rounds = [[seconds_of_passes(each, batch, 1, clock) for each in forwards] for _ in range(ROUNDS + 1)][1:]
    return median(before for before, _ in rounds), median(after for _, after in rounds)


def seconds_of_passes(forward: Forward, batch: "torch.Tensor", passes: int, clock: Callable[[], float]) -> float:
    """Until all scores are there, also on a GPU."""
    import torch

    with torch.inference_mode():
        _wait_for(batch)
        start = clock()
        for _ in range(passes):
            forward(batch)
        _wait_for(batch)
        return clock() - start


def _wait_for(batch: "torch.Tensor") -> None:
    import torch

    if batch.is_cuda:
        torch.cuda.synchronize(batch.device)


def free_memory() -> None:
    """Give back the GPU memory of what has failed."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _operators(forward: Forward, batch: "torch.Tensor") -> dict[str, float]:
    """The microseconds that each operator takes in one pass, without those that it calls."""
    from torch import profiler

    kinds = [profiler.ProfilerActivity.CPU, *([profiler.ProfilerActivity.CUDA] if batch.is_cuda else [])]
    with profiler.profile(activities=kinds) as found:
        forward(batch)
        _wait_for(batch)
    field = "self_device_time_total" if batch.is_cuda else "self_cpu_time_total"
    return {each.key: getattr(each, field) for each in found.key_averages() if each.key.startswith("aten::")}


def _costliest(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """The operators that take most time more than in the module, with the milliseconds."""
    more = {name: spent - before.get(name, 0.0) for name, spent in after.items()}
    first = sorted((name for name in more if more[name] > 0), key=lambda name: -more[name])[:MOST_NAMED]
    return [f"{name.removeprefix('aten::')} ({more[name] / 1000:.1f} ms a batch)" for name in first]
