"""onnxruntime sessions whose graph is known: what was inspected is what runs.

onnxruntime rewrites a graph before it runs it, so a proof about the file would be a proof about another graph. Here the
optimizer works once and writes down what it made of the graph; a second session runs exactly those bytes with
rewriting turned off, and writes down the graph that it runs. This last graph is the one that is inspected.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .independence import Report, inspect_onnx
from .independence.onnx_graph import draws_or_hides
from .independence.report import not_proved
from .onnx_child import NotFrozenError, frozen_session, session
from .protocol import first_line

#: How far the optimizer may go, best first.
LEVELS = ("all", "extended", "basic")


@dataclass(frozen=True)
class Inspected:
    """A session, what is proved of the very graph that it runs, and how far that graph was optimized."""

    session: Any
    report: Report
    level: str


@dataclass(frozen=True)
class Runtime:
    """Makes sessions for one graph, here or in another process."""

    plain: Callable[[str], Any]
    """A session with this level of optimization."""
    frozen: Callable[[str], tuple[Any, bytes]]
    """A session for what the optimizer made of the graph, and the graph that it runs; or a NotFrozenError."""


def inspected_session(graph: bytes, device: str, number: str, threads: int) -> Inspected:
    """A session in this process, and what is proved of its graph."""
    here = Runtime(
        lambda level: session(graph, device, number, threads, level),
        lambda level: frozen_session(graph, device, number, threads, level),
    )
    return inspected(graph, here)


def inspected(graph: bytes, runtime: Runtime) -> Inspected:
    """A session for the fully optimized graph; for a less optimized one if only that can be proved.

    If the runtime cannot read again what its optimizer wrote, the session is the optimizer's own and nothing is proved.
    """
    best = _inspected(graph, runtime, LEVELS[0])
    fused = best.report.reason.startswith("com.microsoft")  # an operator that the optimizer has put in
    if best.report.proved or not (fused or inspect_onnx(graph).proved):
        return best
    lower = (_inspected(graph, runtime, level) for level in LEVELS[1:])
    return next((found for found in lower if found.report.proved), best)


def _inspected(graph: bytes, runtime: Runtime, level: str) -> Inspected:
    hidden = draws_or_hides(graph)
    if hidden is not None:
        return Inspected(runtime.plain(level), not_proved(hidden), level)
    try:
        frozen, ran = runtime.frozen(level)
    except NotFrozenError as error:
        return Inspected(runtime.plain(level), not_proved(first_line(error)), level)
    return Inspected(frozen, inspect_onnx(ran, internal=True), level)
