"""onnxruntime sessions whose graph is known: what was inspected is what runs.

onnxruntime rewrites a graph before it runs it, so a proof about the file would be a proof about another graph. Here the
optimizer works once and writes down what it made of the graph; a second session runs exactly those bytes with
rewriting turned off, and writes down the graph that it runs. This last graph is the one that is inspected.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.errors import first_line
from ..independence.proof import ProofReport, prove_onnx
from ..independence.proof.onnx_graph import OnnxGraph
from ..independence.proof.report import not_proved
from ..independence.proof.values import Unproved
from .onnx_facts import OnnxFacts
from .onnx_session import LEVELS, NotFrozenError, frozen_session, run, run_all, session


class Frozen(NamedTuple):
    """A session, how far its graph was optimized, and the graph that it runs; or why that is not known."""

    session: Any
    level: str
    graph: bytes | None
    why_not: str = ""


class Runtime:
    """Makes and runs sessions for one graph, in this process. `SandboxedGraph` does so in another one."""

    def __init__(self, graph: bytes, facts: OnnxFacts, threads: int, device: str = "cpu", number: str = "") -> None:
        self.graph, self.facts, self.threads = graph, facts, threads
        self._place = device, number, threads

    def plain(self, level: str) -> Any:
        """A session with this level of optimization."""
        return session(self.graph, *self._place, level)

    def frozen(self, level: str) -> tuple[Any, bytes]:
        """A session for what the optimizer makes of the graph, and the graph that it runs; or a NotFrozenError."""
        return frozen_session(self.graph, *self._place, level)

    def provider(self, made: Any) -> str:
        """What runs a session's operators, as onnxruntime calls it."""
        return str(made.get_providers()[0])

    def scores(self, made: Any, batch: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A session's first output for a batch."""
        return np.asarray(run(made, self.facts.output, self.facts.input, batch))

    def trial(self, made: Any, batch: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The same for a batch of no consequence, before the first vote."""
        return self.scores(made, batch)

    def probe(self, model: bytes, outputs: Sequence[str]) -> Callable[[npt.NDArray[Any]], Sequence[npt.NDArray[Any]]]:
        """Another graph, run as it is, where and how sessions run."""
        watched = session(model, *self._place, "none")
        return lambda batch: run_all(watched, outputs, self.facts.input, batch)


def freeze(runtime: Runtime, level: str = LEVELS[0]) -> Frozen:
    """A session for what the optimizer makes of a graph, if its graph can be known and could be proved."""
    why_not = runtime.facts.hopeless
    if why_not is None:
        try:
            session, running = runtime.frozen(level)
            return Frozen(session, level, running)
        except NotFrozenError as error:
            why_not = first_line(error)
    return Frozen(runtime.plain(level), level, None, why_not)


def proved_session(runtime: Runtime, best: Frozen, shape: tuple[int, ...], batch: int) -> tuple[Frozen, ProofReport]:
    """The fully optimized session and what is proved of it; a less optimized one if only that can be proved."""
    report = _report(runtime, best, shape, batch)
    if not report.proved and _may_be_proved(runtime.graph):
        for level in LEVELS[1:]:
            lower = freeze(runtime, level)
            found = _report(runtime, lower, shape, batch)
            if found.proved:
                return lower, found
    return best, report


def _report(runtime: Runtime, made: Frozen, shape: tuple[int, ...], batch: int) -> ProofReport:
    if made.graph is None:
        return not_proved(made.why_not, batch)
    return prove_onnx(made.graph, runtime.probe, partial(runtime.trial, made.session), shape, batch)


def _may_be_proved(graph: bytes) -> bool:
    """Whether there is a rule for everything that the file itself holds."""
    try:
        OnnxGraph(graph)
    except Unproved:
        return False
    return True
