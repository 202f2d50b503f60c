"""Whether the graph that votes takes longer than the module that it was made of, and which operators cost that."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import TYPE_CHECKING

from .compiled import Forward

if TYPE_CHECKING:
    import torch

#: A graph may take so much of the module's time.
TOLERATED = 1.03
#: Passes of either, in turn, after one that counts for nothing.
ROUNDS = 5
#: So many operators are named.
MOST_NAMED = 3


def describe_slower(
    module: Forward, graph: Forward, batch: "torch.Tensor", clock: Callable[[], float] = time.perf_counter
) -> str | None:
    """A sentence with the operators that cost most, if the graph takes longer than the module; None otherwise."""
    import torch

    with torch.inference_mode():
        rounds = [[_seconds(forward, batch, clock) for forward in (module, graph)] for _ in range(ROUNDS + 1)]
        ratio = median(after for _, after in rounds[1:]) / median(before for before, _ in rounds[1:])
        if ratio <= TOLERATED:
            return None
        before, after = _operators(module, batch), _operators(graph, batch)
    share = f"the exported graph, which votes, takes {ratio:.2f} times as long as the module itself"
    costly = ", ".join(_costliest(before, after))
    return f"{share}; most of that is {costly}" if costly else share


def _seconds(forward: Forward, batch: "torch.Tensor", clock: Callable[[], float]) -> float:
    """Until the scores are there, also on a GPU."""
    _wait_for(batch)
    start = clock()
    forward(batch)
    _wait_for(batch)
    return clock() - start


def _wait_for(batch: "torch.Tensor") -> None:
    import torch

    if batch.is_cuda:
        torch.cuda.synchronize(batch.device)


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
