"""The process that runs an ONNX file which nobody trusts: it gets a graph, then noisy batches, and answers with scores.

Before it sees the graph it gives up what rights it can (`confine`), and before it sees a batch it can no longer open
anything (`seal`). `client` is the other end of the pipe, `program` what the interpreter is started with.
"""

import importlib
import io
import json
import math
import os
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

from ...core.errors import first_line
from ..onnx_session import NotFrozenError, frozen_session, run, run_all, session
from .confine import confine, seal, silence
from .frames import (
    ERROR,
    GRAPH,
    HELLO,
    LOAD,
    LOADED,
    LOOK,
    MOST_AXES,
    MOST_TEXT,
    NOT_FROZEN,
    SCORES,
    SEEN,
    TRY,
    TYPES,
    VOTE,
    WATCH,
    read_exactly,
    read_header,
    write_frame,
)


class Server:
    """Answers one request at a time."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests, self._answers = requests, answers
        self._graph = b""
        self._session: Any = None
        self._watched: Any = None
        self._input, self._output, self._outputs = "", "", [""]
        self._batch, self._sealed = bytearray(), False

    def serve(self) -> None:
        """Until the other end is closed."""
        while True:
            request = read_header(self._requests)
            if request.kind == VOTE and len(self._batch) == request.size:
                read_exactly(self._requests, self._batch)  # over the last one: no batch outlives its votes
            else:
                self._batch = read_exactly(self._requests, bytearray(request.size))
            try:
                if request.kind == GRAPH:
                    self._graph, self._batch = bytes(self._batch), bytearray()
                    write_frame(self._answers, LOADED)
                elif request.kind == LOAD:
                    self._load(json.loads(self._batch))
                elif request.kind == WATCH:
                    self._watch(*bytes(self._batch).split(b"\n", 1))
                elif request.kind == LOOK:
                    self._look(self._watched, self._outputs, request.sizes)
                elif request.kind == TRY:
                    self._look(self._session, [self._output], request.sizes)
                else:
                    self._vote(request.sizes)
            except NotFrozenError as error:
                self._say(NOT_FROZEN, error)
            except Exception as error:
                self._say(ERROR, error)

    def _say(self, kind: int, error: Exception) -> None:
        write_frame(self._answers, kind, first_line(error).encode()[:MOST_TEXT])

    def _load(self, wanted: Any) -> None:
        self._session = None
        self._input, self._output = wanted["input"], wanted["output"]
        given = (self._graph, "cpu", "", wanted["threads"], wanted["level"])
        if wanted["frozen"]:
            self._session, running = frozen_session(*given, folder=".")
            if len(running) > wanted["most"]:
                raise NotFrozenError("the optimized graph is much larger than the file")
            write_frame(self._answers, LOADED, running)
        else:
            self._session = session(*given)
            write_frame(self._answers, LOADED)

    def _watch(self, wanted: bytes, model: bytes) -> None:
        """Another graph, exactly as it is, of which several outputs are looked at."""
        asked = json.loads(wanted)
        self._input, self._outputs = asked["input"], asked["outputs"]
        self._watched = session(model, "cpu", "", asked["threads"], "none")
        write_frame(self._answers, LOADED)

    def _look(self, model: Any, outputs: Sequence[str], sizes: tuple[int, ...]) -> None:
        """Outputs for a batch of no consequence, behind one header; the process is not sealed for it."""
        found = io.BytesIO()
        for values in run_all(model, outputs, self._input, self._values(sizes)):
            _write_array(found, values)
        write_frame(self._answers, SEEN, found.getbuffer())

    def _values(self, sizes: tuple[int, ...]) -> Any:
        import numpy as np

        return np.frombuffer(self._batch, np.float32, math.prod(sizes)).reshape(sizes)

    def _vote(self, sizes: tuple[int, ...]) -> None:
        if not self._sealed:
            seal()
            self._sealed, self._watched = True, None
        _write_array(self._answers, run(self._session, self._output, self._input, self._values(sizes)))


def _write_array(pipe: BinaryIO, values: Any) -> None:
    import numpy as np

    values = np.asarray(values)
    shape, kind = values.shape, values.dtype.name
    if kind not in TYPES or values.ndim > MOST_AXES:
        raise ValueError("the model's output must be real numbers (scores), one per class")
    write_frame(pipe, SCORES, np.ascontiguousarray(values).ravel(), shape, TYPES.index(kind))


def _own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes under numbers of their own, so that nothing that a library prints can be taken for an answer."""
    pipes = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    silence()
    return pipes


def _end_with_parent(answers: BinaryIO) -> None:
    """End this process, even in the middle of a batch, when nobody is left to read its answers."""
    import select
    from threading import Thread

    if not hasattr(select, "poll"):  # Windows: it ends when it wants to read the next request
        return
    poll = select.poll()
    poll.register(answers.fileno(), 0)

    def watch() -> None:
        poll.poll()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def main(libraries: list[str]) -> None:
    requests, answers = _own_pipes()
    confined = confine(".", libraries)
    _end_with_parent(answers)
    sys.path[:0] = libraries
    try:
        for library in ("numpy", "onnxruntime"):  # while they can still be read
            importlib.import_module(library)
    except Exception as error:
        write_frame(answers, ERROR, f"its process cannot import {library}: {first_line(error)}".encode()[:MOST_TEXT])
        return
    try:
        read_header(requests)  # the question to which this is the answer
        write_frame(answers, HELLO, b"confined" if confined else b"")
        Server(requests, answers).serve()
    except (EOFError, BrokenPipeError):
        os._exit(0)
