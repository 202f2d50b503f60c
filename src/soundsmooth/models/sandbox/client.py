"""A graph that the process of an untrusted model runs: what it is asked, and what of its answers is taken."""

import json
import math
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ...core.grid import Floats
from ..protocol import check_scores
from ..proved_session import Runtime, freeze
from .frames import (
    GRAPH,
    LOAD,
    LOADED,
    LOOK,
    MOST_AXES,
    SCORES,
    SEEN,
    TRY,
    TYPES,
    VOTE,
    WATCH,
    WATCHED,
    Frame,
    read_header,
)
from .process import RuntimeDied, SandboxProcess

#: Seconds that one answer may take.
TIMEOUT = 600
MOST_CLASSES = 1 << 17
#: The optimizer may fold constants: the graph that runs may be so much larger than the file.
MOST_GROWTH = 1 << 26
#: All values of a graph for a few rows, as the witness sees them, take at most so many bytes.
MOST_SEEN = 1 << 34


class SandboxedGraph:
    """A graph in a process of its own. `name` and `output` are the graph's ends."""

    def __init__(self, graph: bytes, name: str, output: str, threads: int, timeout: float = TIMEOUT) -> None:
        self._graph, self._input, self._output, self._threads = graph, name, output, threads
        self.process = SandboxProcess(timeout)
        self.process.tell(GRAPH, graph)
        self.loaded: tuple[str, bool] | None = None
        """The level of optimization of the session that votes, and whether its graph is known."""

    @property
    def runtime(self) -> Runtime:
        """Makes sessions there; a session is named by what `load` was told."""
        return Runtime(self._plain, self._frozen, self._try, self._probe)

    def _plain(self, level: str) -> tuple[str, bool]:
        self.load(level, frozen=False)
        return level, False

    def _frozen(self, level: str) -> tuple[tuple[str, bool], bytes]:
        running = self.load(level, frozen=True)
        return (level, True), running

    def load(self, level: str, frozen: bool) -> bytes:
        """Make the session that votes; the graph that it runs, if it is frozen."""
        self.loaded = (level, frozen)
        most = 2 * len(self._graph) + MOST_GROWTH
        wanted = {"level": level, "frozen": frozen, "most": most, "threads": self._threads}
        wanted |= {"input": self._input, "output": self._output}
        answer = self.process.ask(
            LOAD, json.dumps(wanted).encode(), (), lambda frame: frame.kind == LOADED and frame.size <= most
        )
        return bytes(answer.content)

    def _probe(self, model: bytes, outputs: Sequence[str]) -> Callable[[npt.NDArray[Any]], list[npt.NDArray[Any]]]:
        """Another graph, run in the same process until the next one is."""
        wanted = json.dumps({"input": self._input, "outputs": list(outputs), "threads": self._threads}).encode()
        self.process.ask(WATCH, wanted + b"\n" + model, (), lambda frame: frame.kind == WATCHED)
        return lambda batch: self._seen(LOOK, batch, len(outputs))

    def _try(self, session: object, batch: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What the session that will vote computes for a batch of no consequence."""
        (scores,) = self._seen(TRY, batch, 1)
        return scores

    def _seen(self, kind: int, batch: npt.NDArray[Any], count: int) -> list[npt.NDArray[Any]]:
        answer = self.process.ask(kind, np.ascontiguousarray(batch, np.float32).ravel(), batch.shape, _is_seen)
        pipe = BytesIO(answer.content)
        arrays = [_array(pipe) for _ in range(count)]
        if pipe.read(1):
            raise ValueError("the untrusted model failed: its answer is malformed")
        return arrays

    def scores(self, values: Floats) -> npt.NDArray[Any]:
        """The graph's first output for a batch, as the other process has it."""
        batch = np.ascontiguousarray(values, np.float32)
        if batch.ndim > MOST_AXES:
            raise ValueError(f"an untrusted model takes at most {MOST_AXES} axes, not {batch.ndim}")
        answer = self.process.ask(VOTE, batch.ravel(), batch.shape, lambda frame: _fits(frame, len(batch)))
        scores = np.frombuffer(answer.content, TYPES[answer.frame.type])
        return scores.reshape(answer.frame.sizes)


def try_out(graph: bytes, name: str, output: str, shape: tuple[int, ...]) -> None:
    """A ValueError if the runtime dies on a graph, or on a batch of this shape: it should not run in this process."""
    sandboxed = SandboxedGraph(graph, name, output, threads=1)
    try:
        freeze(graph, sandboxed.runtime)
        _ask_for_scores(sandboxed, shape)
    finally:
        sandboxed.process.end("it was closed")


def _ask_for_scores(sandboxed: SandboxedGraph, shape: tuple[int, ...]) -> None:
    try:
        sandboxed.scores(np.full(shape, 0.5, np.float32))
    except RuntimeDied:
        raise
    except ValueError:
        pass  # a batch that it does not take, which is an error like any other


def _fits(frame: Frame, rows: int) -> bool:
    """Whether a header announces scores for so many rows; a ValueError if it announces an output that is no scores."""
    if frame.kind != SCORES or not _is_array(frame):
        return False
    check_scores(frame.sizes, TYPES[frame.type] != "bool", rows)
    return frame.sizes[1] <= MOST_CLASSES


def _is_array(frame: Frame) -> bool:
    """Whether a header announces as many bytes as an array of its type and sizes has."""
    if frame.type >= len(TYPES):
        return False
    return math.prod(frame.sizes) * np.dtype(TYPES[frame.type]).itemsize == frame.size


def _is_seen(frame: Frame) -> bool:
    return frame.kind == SEEN and frame.size <= MOST_SEEN


def _array(pipe: BinaryIO) -> npt.NDArray[Any]:
    """The next array of an answer that holds several."""
    try:
        frame = read_header(pipe)
        if frame.kind != SCORES or not _is_array(frame):
            raise ValueError
        content = pipe.read(frame.size)
        return np.frombuffer(content, TYPES[frame.type]).reshape(frame.sizes)
    except (EOFError, ValueError):
        raise ValueError("the untrusted model failed: its answer is malformed") from None
