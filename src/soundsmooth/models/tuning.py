"""Choose by measuring how a graph is compiled and launched, and in batches of which size; once, before the promise.

Kernels that are chosen by timing add up in orders of their own, and another process might choose others. So the choice
is kept with the compiled kernels in an `Artifact`, and each process that votes loads that.
"""

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.arrays import repeated_uniform
from ..core.errors import first_line
from .artifact import WAY_OUT, Artifact, Way, compress
from .compiled import Compiled, CudaGraph, Forward, nothing_by_timing
from .compiler_caches import own_caches, recorded_reads
from .speed import free_memory, seconds_of_passes

if TYPE_CHECKING:
    import torch

#: Rounds in which two ways are timed in turn. There are more, for so many seconds, while the quickest few of a way
#: differ, as they do where other programs are at work.
ROUNDS, QUICKEST, MOST_SECONDS = 5, 3, 2.0
#: They differ if the slowest of them takes so many times as long as the quickest.
ALIKE = 1.01
#: What is timed at once takes at least so many seconds.
LEAST_SECONDS = 0.02
#: A way is taken in place of another if it takes at most this share of its time.
WORTH = 0.99
#: What torch calls the choosing of kernels by timing, where it keeps how long everything took.
CHOOSING = ("CachingAutotuner.benchmark_all_configs", "CachingAutotuner.coordinate_descent_tuning")


@dataclass(frozen=True)
class Tunable:
    """What is tuned."""

    module: Forward
    """The module as it is."""
    graph_of: Callable[[int, bool], Any]
    """The graph for batches of a size, with normalisation folded or not; None if it cannot be. Each time another
    object: what is compiled for one is not used for the next."""
    batch_of: Callable[[int], "torch.Tensor"]
    """A batch of that many rows."""


class Choice(NamedTuple):
    """What was found to be fastest."""

    way: Way
    gain: float
    """How many times as fast as the module as it is, in batches of the first size."""
    seconds: float
    """That the search took."""
    failed: str | None = None
    """Why torch could not compile, if that was so."""

    def __str__(self) -> str:
        found = f"tuned in {self.seconds:.0f} s ({self.way}): {self.gain:.2f} times as fast as the module itself"
        return found if self.failed is None else f"{found}; torch cannot compile it here: {self.failed}"


class _NoGraphError(ValueError):
    """A module has none with folded normalisation, or none that is proved."""


class _Tried(NamedTuple):
    """One way, ready to run."""

    way: Way
    forward: Forward
    rows: "torch.Tensor"


def tune(subject: Tunable, batches: Sequence[int], model: str, machine: str) -> tuple[Choice, Artifact]:
    """Choose a way, and keep the kernels that were found to be fastest: they are not compiled or timed once more."""
    with own_caches():
        choice = choose(subject, batches)
        return choice, pack(subject, choice, model, machine)


def choose(subject: Tunable, batches: Sequence[int], clock: Callable[[], float] = time.perf_counter) -> Choice:
    """The fastest way, and the fastest of the batch sizes: each change is kept if rows then take less time. It belongs
    inside `own_caches`.

    A way that fails, or whose scores differ from pass to pass, is left out. If the graph as it is turns out to be as
    fast at the end, the changes were timed while something else was at work, and none is kept.
    """
    start, failures = clock(), list[str]()
    best = first = _made(subject, Way(batches[0]))
    plain = best._replace(forward=subject.module)
    for steps in _changes(batches, best.rows.is_cuda):
        for change in steps:
            way = best.way._replace(**change)
            found = _try(subject, way, best, failures, clock) if way.compiled or way.layouts else None
            if found is None:
                break
            best = found
    if best is not first and _ratio(first, best, clock) > WORTH:
        best = first
    gain = 1 / _ratio(plain, best, clock)
    failed = None if best.way.compiled or not failures else failures[0]
    return Choice(best.way, gain, clock() - start, failed)


def _changes(batches: Sequence[int], on_gpu: bool) -> list[list[dict[str, Any]]]:
    """What is tried, one after the other, each list as long as that saves time: to fewer rows each time.

    Timing kernels takes longest, so it comes when the batch is chosen.
    """
    sizes = [{"batch": size} for size in batches[1:]]
    timed = [{"compiled": True, "timed": True}]
    return [[{"compiled": True}], [{"folded": True}], [{"layouts": False}], sizes, timed, [{"recorded": True}] * on_gpu]


def _try(subject: Tunable, way: Way, best: _Tried, failures: list[str], clock: Callable[[], float]) -> _Tried | None:
    """A way that is faster than the best; None if it is not, fails here, or gives other scores for the same rows."""
    try:
        made = _recorded(best) if way == best.way._replace(recorded=True) else _made(subject, way)
        return made if _repeats(made) and _ratio(best, made, clock) <= WORTH else None
    except _NoGraphError:
        return None
    except Exception as error:  # of torch's compiler, of the C++ compiler that it calls, of the GPU's memory
        failures.extend([first_line(error)] if way.compiled else [])
        free_memory()
        return None


def _made(subject: Tunable, way: Way) -> _Tried:
    graph, rows = subject.graph_of(way.batch, way.folded), subject.batch_of(way.batch)
    if graph is None:
        raise _NoGraphError("there is no such graph")
    return _Tried(way, launched(graph, way, rows), rows)


def _recorded(made: _Tried) -> _Tried:
    """The same kernels, launched at once."""
    way = made.way._replace(recorded=True)
    return made._replace(way=way, forward=launched(made.forward, way._replace(compiled=False), made.rows))


def _repeats(made: _Tried) -> bool:
    """Whether the same rows get the same scores again."""
    return scores_digest(made.forward, made.rows) == scores_digest(made.forward, made.rows)


def _ratio(before: _Tried, after: _Tried, clock: Callable[[], float]) -> float:
    """The time of a row after over that before. Of passes in turn the quickest count: other programs only take time."""
    passes, seconds = [_passes(each, clock) for each in (before, after)], (list[float](), list[float]())
    end = clock() + MOST_SECONDS
    while len(seconds[0]) < ROUNDS or (clock() < end and not all(map(_is_settled, seconds))):
        for (each, count), taken in zip(passes, seconds, strict=True):
            taken.append(seconds_of_passes(each.forward, each.rows, count, clock) / count / each.way.batch)
    return min(seconds[1]) / min(seconds[0])


def _is_settled(seconds: Sequence[float]) -> bool:
    """Whether the quickest are alike: nothing else was at work in these."""
    quickest = sorted(seconds)[:QUICKEST]
    return quickest[-1] <= ALIKE * quickest[0]


def _passes(tried: _Tried, clock: Callable[[], float]) -> tuple[_Tried, int]:
    """So many passes that the clock can tell them apart; the first one counts for nothing."""
    seconds_of_passes(tried.forward, tried.rows, 1, clock)
    one = seconds_of_passes(tried.forward, tried.rows, 1, clock)
    return tried, max(1, min(100, math.ceil(LEAST_SECONDS / max(one, 1e-6))))


def launched(graph: Any, way: Way, rows: "torch.Tensor") -> Forward:
    """The graph, compiled in this way and ready for batches like the rows."""
    import torch

    with torch.inference_mode():
        forward: Forward = Compiled(graph, rows, _options(way)) if way.compiled else graph
        return CudaGraph(forward, rows) if way.recorded else forward


def _options(way: Way) -> dict[str, object]:
    """Of torch's compiler.

    Its mode "max-autotune" varies the kernels that it has chosen once more, one after the other. That takes longest,
    and is done again where they are loaded: what comes from a process of the compiler has lost the mark of it.
    """
    options = {"max_autotune": True} if way.timed else nothing_by_timing()
    return {**options, "layout_optimization": way.layouts}


def scores_digest(forward: Forward, rows: "torch.Tensor") -> str:
    """SHA-256 of the scores' bits for a batch that is always the same, of the size and type of these rows."""
    import torch

    with torch.inference_mode(False):  # compiled code takes one kind of tensor only, as batches are
        values = torch.empty_like(rows).copy_(
            3 * repeated_uniform(rows.shape, 22) - 1
        )  # beyond [0, 1] on both sides, as noisy values are
    with torch.inference_mode():
        scores = forward(values)
    return hashlib.sha256(scores.double().cpu().contiguous().numpy().tobytes()).hexdigest()


def pack(subject: Tunable, choice: Choice, model: str, machine: str) -> Artifact:
    """Load the kernels of the chosen way once more, from our own caches, and keep what the compiler reads there.

    Guarantee: what `load` makes of it computes, for a batch that is always the same, the scores seen here, bit for bit.
    """
    import torch

    with recorded_reads():
        made = _made(subject, choice.way)
        if not _repeats(made):
            raise ValueError(f"the tuned kernels give other scores for the same rows; choose compile none: {choice}")
        scores, kept = scores_digest(made.forward, made.rows), torch.compiler.save_cache_artifacts()
    if kept is None and choice.way.compiled:
        raise ValueError("torch's compiler keeps no kernels here (are its caches disabled?): choose another compile")
    kernels = compress(b"" if kept is None else kept[0])
    return Artifact(model, machine, tuple(made.rows.shape[1:]), choice.way, scores, kernels)


def load(artifact: Artifact, graph: Any, rows: "torch.Tensor") -> Forward:
    """The kernels of an artifact, for this graph; a ValueError unless they are its kernels and compute its scores.

    Loading runs code from the artifact.
    """
    forward = _loaded(artifact, graph, rows) if artifact.way.compiled else launched(graph, artifact.way, rows)
    if scores_digest(forward, rows) != artifact.scores:
        raise ValueError(f"the artifact's kernels compute other scores here than where they were tuned; {WAY_OUT}")
    return forward


def _loaded(artifact: Artifact, graph: Any, rows: "torch.Tensor") -> Forward:
    """Compiled code that comes from the artifact and from nowhere else."""
    import torch

    with own_caches():
        try:
            known, before = torch.compiler.load_cache_artifacts(artifact.kernels), _graphs_seen()
            forward = launched(graph, artifact.way, rows) if known is not None else None
            if forward is not None:
                scores_digest(forward, rows)  # what comes with the first pass is loaded while the files are there
        except Exception as error:  # it is somebody's bytes: anything can happen
            raise ValueError(f"the artifact's kernels cannot be loaded: {first_line(error)}; {WAY_OUT}") from error
        after = _graphs_seen()
        if forward is None or after.compiled != before.compiled or after.found == before.found:
            raise ValueError(f"the artifact has no kernels for this model on this machine; {WAY_OUT}")
        if after.chosen != before.chosen:
            raise ValueError(f"torch chose kernels by timing here, although the artifact has them; {WAY_OUT}")
    return forward


class _GraphsSeen(NamedTuple):
    """How many graphs torch's compiler has met."""

    found: int
    """In its caches."""
    compiled: int
    """Because its caches did not have them. With caches disabled, nothing counts."""
    chosen: int
    """How often it chose a kernel by timing."""


def _graphs_seen() -> _GraphsSeen:
    from torch._dynamo.utils import compilation_time_metrics, counters

    inductor, autograd = counters["inductor"], counters["aot_autograd"]
    found = inductor["fxgraph_cache_hit"] + autograd["autograd_cache_hit"]
    chosen = sum(len(compilation_time_metrics.get(name, ())) for name in CHOOSING)
    return _GraphsSeen(found, inductor["fxgraph_cache_miss"] + inductor["fxgraph_cache_bypass"], chosen)
