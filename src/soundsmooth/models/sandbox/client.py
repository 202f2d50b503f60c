"""A graph that the process of an untrusted model runs: what it is asked, and what of its answers is taken."""

import json
import math
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ...core.grid import Floats
from ..onnx_facts import OnnxFacts
from ..onnx_session import PROVIDERS
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


class SandboxedGraph(Runtime):
    """Makes and runs sessions for one graph in a process of its own, which holds one session at a time.

    A session is named by the level of its optimization, and by whether the graph that it runs is known.
    """

    def __init__(self, graph: bytes, facts: OnnxFacts, threads: int, timeout: float) -> None:
        super().__init__(graph, facts, threads)
        self.process = SandboxProcess(timeout)
        self.process.ask(GRAPH, graph, (), _is_done)
        self._loaded: tuple[str, bool] | None = None

    def plain(self, level: str) -> tuple[str, bool]:
        self._load(level, frozen=False)
        return level, False

    def frozen(self, level: str) -> tuple[tuple[str, bool], bytes]:
        running = self._load(level, frozen=True)
        return (level, True), running

    def provider(self, made: tuple[str, bool]) -> str:
        return PROVIDERS["cpu"]

    def use(self, made: tuple[str, bool]) -> None:
        """Make this session anew, if it is not the one that the process holds."""
        if made != self._loaded:
            self._load(*made)

    def _load(self, level: str, frozen: bool) -> bytes:
        """Make the session that votes; the graph that it runs, if it is frozen."""
        self._loaded = (level, frozen)
        most = 2 * len(self.graph) + MOST_GROWTH
        wanted = {"level": level, "frozen": frozen, "most": most, "threads": self.threads}
        wanted |= {"input": self.facts.input, "output": self.facts.output}
        _, running = self.process.ask(
            LOAD, json.dumps(wanted).encode(), (), lambda frame: frame.kind == LOADED and frame.size <= most
        )
        return bytes(running)

    def probe(self, model: bytes, outputs: Sequence[str]) -> Callable[[npt.NDArray[Any]], list[npt.NDArray[Any]]]:
        """Another graph, run in the same process until the next one is."""
        wanted = json.dumps({"input": self.facts.input, "outputs": list(outputs), "threads": self.threads}).encode()
        self.process.ask(WATCH, wanted + b"\n" + model, (), _is_done)
        return lambda batch: self._seen(LOOK, batch, len(outputs))

    def trial(self, made: tuple[str, bool], batch: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The process can still load another session after it."""
        self.use(made)
        (scores,) = self._seen(TRY, batch, 1)
        return scores

    def _seen(self, kind: int, batch: npt.NDArray[Any], count: int) -> list[npt.NDArray[Any]]:
        _, content = self.process.ask(kind, np.ascontiguousarray(batch, np.float32).ravel(), batch.shape, _is_seen)
        pipe = BytesIO(content)
        arrays = [_array(pipe) for _ in range(count)]
        if pipe.read(1):
            raise ValueError("the untrusted model failed: its answer is malformed")
        return arrays

    def scores(self, made: tuple[str, bool], values: Floats) -> npt.NDArray[Any]:
        """The graph's first output for a batch, as the other process has it; from now on it can open nothing."""
        self.use(made)
        batch = np.ascontiguousarray(values, np.float32)
        if batch.ndim > MOST_AXES:
            raise ValueError(f"an untrusted model takes at most {MOST_AXES} axes, not {batch.ndim}")
        frame, content = self.process.ask(VOTE, batch.ravel(), batch.shape, lambda frame: _fits(frame, len(batch)))
        return np.frombuffer(content, TYPES[frame.type]).reshape(frame.sizes)


def try_out(graph: bytes, facts: OnnxFacts, shape: tuple[int, ...], timeout: float) -> None:
    """A ValueError if the runtime dies on a graph, or on a batch of this shape: it should not run in this process."""
    sandboxed = SandboxedGraph(graph, facts, threads=1, timeout=timeout)
    try:
        made = freeze(sandboxed)
        try:
            sandboxed.scores(made.session, np.full(shape, 0.5, np.float32))
        except RuntimeDied:
            raise
        except ValueError:
            pass  # a batch that it does not take, which is an error like any other
    finally:
        sandboxed.process.end("it was closed")


def _fits(frame: Frame, rows: int) -> bool:
    """Whether a header announces scores for so many rows; a ValueError if it announces an output that is no scores."""
    if frame.kind != SCORES or not _is_array(frame):
        return False
    return check_scores(frame.sizes, np.dtype(TYPES[frame.type]).kind, rows) <= MOST_CLASSES


def _is_array(frame: Frame) -> bool:
    """Whether a header announces as many bytes as an array of its type and sizes has."""
    if frame.type >= len(TYPES):
        return False
    return math.prod(frame.sizes) * np.dtype(TYPES[frame.type]).itemsize == frame.size


def _is_done(frame: Frame) -> bool:
    return frame.kind == LOADED and not frame.size


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
