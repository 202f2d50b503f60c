"""onnxruntime sessions whose graph is known: what was inspected is what runs.

onnxruntime rewrites a graph before it runs it, so a proof about the file would be a proof about another graph. Here the
optimizer works once and writes down what it made of the graph; a second session runs exactly those bytes with
rewriting turned off, and writes down the graph that it runs. This last graph is the one that is inspected.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy.typing as npt

from ..core.errors import first_line
from ..independence.proof import Report, prove_onnx
from ..independence.proof.onnx_graph import OnnxGraph, hopeless
from ..independence.proof.onnx_seen import Probe
from ..independence.proof.report import not_proved
from ..independence.proof.values import Unproved
from .onnx_session import LEVELS, NotFrozenError, frozen_session, run, run_all, session


class Frozen(NamedTuple):
    """A session, how far its graph was optimized, and the graph that it runs; or why that is not known."""

    session: Any
    level: str
    graph: bytes | None
    why_not: str = ""


@dataclass(frozen=True)
class Runtime:
    """Makes sessions for one graph, here or in another process."""

    plain: Callable[[str], Any]
    """A session with this level of optimization."""
    frozen: Callable[[str], tuple[Any, bytes]]
    """A session for what the optimizer made of the graph, and the graph that it runs; or a NotFrozenError."""
    vote: Callable[[Any, npt.NDArray[Any]], npt.NDArray[Any]]
    """A session's first output for a batch."""
    probe: Probe
    """Another graph, run as it is, where and how sessions run."""


def runtime_here(graph: bytes, device: str, number: str, threads: int, name: str, output: str) -> Runtime:
    """Sessions in this process; `name` and `output` are the graph's ends."""

    def probe(model: bytes, outputs: Any) -> Callable[[npt.NDArray[Any]], Any]:
        watched = session(model, device, number, threads, "none")
        return lambda batch: run_all(watched, outputs, name, batch)

    return Runtime(
        lambda level: session(graph, device, number, threads, level),
        lambda level: frozen_session(graph, device, number, threads, level),
        lambda made, batch: run(made, output, name, batch),
        probe,
    )


def freeze(graph: bytes, runtime: Runtime, level: str = LEVELS[0]) -> Frozen:
    """A session for what the optimizer makes of a graph, if its graph can be known and could be proved."""
    why_not = hopeless(graph)
    if why_not is None:
        try:
            session, running = runtime.frozen(level)
            return Frozen(session, level, running)
        except NotFrozenError as error:
            why_not = first_line(error)
    return Frozen(runtime.plain(level), level, None, why_not)


def proved_session(
    graph: bytes, runtime: Runtime, best: Frozen, shape: tuple[int, ...], batch: int
) -> tuple[Frozen, Report]:
    """The fully optimized session and what is proved of it; a less optimized one if only that can be proved."""
    report = _report(runtime, best, shape, batch)
    if not report.proved and _may_be_proved(graph):
        for level in LEVELS[1:]:
            lower = freeze(graph, runtime, level)
            found = _report(runtime, lower, shape, batch)
            if found.proved:
                return lower, found
    return best, report


def _report(runtime: Runtime, made: Frozen, shape: tuple[int, ...], batch: int) -> Report:
    if made.graph is None:
        return not_proved(made.why_not, batch)
    return prove_onnx(made.graph, runtime.probe, lambda values: runtime.vote(made.session, values), shape, batch)


def _may_be_proved(graph: bytes) -> bool:
    """Whether there is a rule for everything that the file itself holds."""
    try:
        OnnxGraph(graph)
    except Unproved:
        return False
    return True
