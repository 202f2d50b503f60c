"""An ONNX file that nobody trusts: it is loaded and run by a process that never holds the key, the seed or the store.

This process keeps the file's bytes, its digest and the proof; it makes the noise and counts the votes. The other one
(`onnx_child`, a fresh interpreter with an empty environment and no open file but two pipes) gets the graph, then one
noisy batch after the other. It may answer what it likes: answers are plain bytes behind a fixed header, their sizes
are bounded before they are read, nothing is unpickled, and the vote rule is applied here.
"""

import ctypes
import json
import math
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Timer
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from ..grid import Floats
from ..limits import seconds
from ..machine import Place, cores
from . import onnx_child as wire
from .independence import Report
from .onnx_file import check_proof, only_input, read_model
from .onnx_session import Runtime, inspected
from .protocol import Identity, Votes, check_independence_word, check_scores, unproved, votes
from .recipe import Graph, ModelRecipe

#: What the process runs.
PROGRAM = Path(wire.__file__)
#: Seconds that one answer may take.
TIMEOUT = 600
MOST_CLASSES = 1 << 17
#: The optimizer may fold constants: the graph that runs may be so much larger than the file.
MOST_GROWTH = 1 << 26
#: All that the process inherits of the environment: where shared libraries are.
KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT") + (("PATH",) if os.name == "nt" else ())
#: The runtime has threads of its own, other libraries need none there; and it keeps no log of what it is used for.
ADDED = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",
}


class IsolatedOnnxModel:
    """The same as `OnnxModel`, with the same votes, in another process; the flag `isolated=yes` says so.

    `report` is made here, of the graph that onnxruntime says it runs.
    """

    place: Place | None = None

    def __init__(
        self,
        path: str | Path | Graph,
        device: str | None = None,
        threads: int | None = None,
        independence: str = "auto",
        timeout: float | None = None,
    ) -> None:
        check_independence_word(independence)
        if independence.startswith("measured"):
            raise ValueError("an untrusted model is proved or checked; to be measured it would have to run unconfined")
        self.demand = independence
        if device not in (None, "cpu"):
            raise ValueError(f"an untrusted model runs on the cpu only, not on {device!r}")
        self._graph, self._sha256 = path if isinstance(path, Graph) else read_model(Path(path))
        self._threads, self._timeout = threads or cores(), TIMEOUT if timeout is None else seconds(timeout)
        self._input, shape, self._output = _ends(self._graph)
        self.batch: int | None = shape[0]
        self.shape: tuple[int, ...] | None = None if None in shape[1:] else tuple(d for d in shape[1:] if d)
        self._start()
        check_proof(independence, self.report)

    def _start(self) -> None:
        self._process = _Process(self._timeout)
        self._process.tell(wire.GRAPH, self._graph)
        found = inspected(self._graph, Runtime(self._plain, self._frozen))
        if found.session != self._loaded:  # a lower level was tried since, in vain
            level, frozen = found.session
            self._load(level, frozen)
        self._process.forget_folder()
        self.report: Report = found.report
        self._flags = {
            "isolated": "yes",
            "optimization": found.level,
            "provider": wire.PROVIDERS["cpu"],
            "threads": str(self._threads),
        }

    def _plain(self, level: str) -> tuple[str, bool]:
        self._load(level, frozen=False)
        return self._loaded

    def _frozen(self, level: str) -> tuple[tuple[str, bool], bytes]:
        running = self._load(level, frozen=True)
        return self._loaded, running

    def _load(self, level: str, frozen: bool) -> bytes:
        self._loaded = (level, frozen)
        most = 2 * len(self._graph) + MOST_GROWTH
        wanted = {"level": level, "frozen": frozen, "most": most, "threads": self._threads}
        wanted |= {"input": self._input, "output": self._output}
        answer = self._process.ask(
            wire.LOAD, json.dumps(wanted).encode(), (), lambda frame: frame.kind == wire.LOADED and frame.size <= most
        )
        return bytes(answer.content)

    def identity(self) -> Identity:
        independence = "proved" if self.report.proved else unproved(self.demand)
        return Identity("onnx", self._sha256, flags=self._flags, independence=independence)

    def prepare(self, shape: tuple[int, ...]) -> None:
        pass

    def changes(self) -> Callable[[], bool]:
        return lambda: False  # the process was given the bytes of the digest, once, before the first batch

    def replica(self, number: int) -> "IsolatedOnnxModel":
        """A process of its own."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._start()
        return other

    def recipe(self) -> ModelRecipe:
        raise ValueError("an untrusted model is made in a process of its own, and nowhere else")

    def largest_batch(self, shape: tuple[int, ...], wanted: int) -> int:
        return wanted

    def flags(self) -> dict[str, str]:
        return self._flags

    def vote(self, values: Floats) -> Votes:
        return votes(self.scores(values), len(values))

    def scores(self, values: Floats) -> npt.NDArray[Any]:
        """The graph's first output for a batch, as the other process has it."""
        batch = np.ascontiguousarray(values, np.float32)
        if batch.ndim > wire.MOST_AXES:
            raise ValueError(f"an untrusted model takes at most {wire.MOST_AXES} axes, not {batch.ndim}")
        answer = self._process.ask(wire.VOTE, batch.ravel(), batch.shape, lambda frame: _fits(frame, len(batch)))
        scores = np.frombuffer(answer.content, wire.TYPES[answer.frame.type])
        return scores.reshape(answer.frame.sizes)

    def close(self) -> None:
        """End the process; it also ends with this object, and with this process."""
        self._process.end("it was closed")


def _fits(frame: wire.Frame, rows: int) -> bool:
    """Whether a header announces scores for so many rows; a ValueError if it announces an output that is no scores."""
    if frame.kind != wire.SCORES or frame.type >= len(wire.TYPES):
        return False
    size = np.dtype(wire.TYPES[frame.type]).itemsize
    if math.prod(frame.sizes) * size != frame.size:
        return False
    check_scores(frame.sizes, True, rows)
    return frame.sizes[1] <= MOST_CLASSES


class _Answer(NamedTuple):
    frame: wire.Frame
    content: bytearray


class _Process:
    """The other process: requests go in, answers come out, one at a time; after a bad answer it is ended for good."""

    def __init__(self, timeout: float) -> None:
        self._timeout, self._lock, self._owner = timeout, Lock(), os.getpid()
        self._ended: str | None = None
        self._late = Event()
        self._folder = TemporaryDirectory(prefix="soundsmooth-", ignore_cleanup_errors=True)
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-B", str(PROGRAM), *_libraries()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._folder.name,
            env=environment(),
            close_fds=True,
            start_new_session=True,  # no terminal, and Ctrl-C is for us
            bufsize=0,
            pipesize=1 << 20,
        )
        self._finalizer = weakref.finalize(self, _end, self._popen, self._folder)
        hello = self._exchange(None, lambda frame: frame.kind == wire.HELLO and frame.size <= wire.MOST_TEXT)
        self.confined = bytes(hello.content) == b"confined"
        """Whether the kernel keeps it from files and other processes; said before it saw the model."""
        if not self.confined:
            hide_memory()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def tell(self, kind: int, content: bytes) -> None:
        """A request without an answer."""
        self._exchange((kind, content, ()), None)

    def ask(self, kind: int, content: Any, sizes: tuple[int, ...], expected: Callable[[wire.Frame], bool]) -> _Answer:
        """The answer, whose header must be as expected before the rest is read; a ValueError for anything else."""
        return self._exchange((kind, content, sizes), expected)

    def _exchange(
        self, request: tuple[int, Any, tuple[int, ...]] | None, expected: Callable[[wire.Frame], bool] | None
    ) -> _Answer:
        if os.getpid() != self._owner:
            raise ValueError("an untrusted model belongs to the process that loaded it: load it again in this one")
        with self._lock:
            if self._ended is not None:
                raise ValueError(f"the untrusted model's process was ended: {self._ended}")
            late = Timer(self._timeout, _kill, (self._popen, self._late))  # which keeps no model alive
            late.daemon = True
            late.start()
            try:
                answer = self._speak(request, expected)
            except wire.NotFrozenError:
                raise
            except _ModelError as error:  # an answer like any other
                raise ValueError(str(error)) from None
            except (EOFError, OSError):
                self.end(self._why())
                raise ValueError(f"the untrusted model failed: {self._ended}") from None
            except ValueError as error:
                self.end(str(error))
                raise ValueError(f"the untrusted model failed: {self._ended}") from None
            except BaseException:  # Ctrl-C: what it still sends would be taken for the next answer
                self.end("it was interrupted")
                raise
            finally:
                late.cancel()
            return answer

    def _speak(
        self, request: tuple[int, Any, tuple[int, ...]] | None, expected: Callable[[wire.Frame], bool] | None
    ) -> _Answer:
        if request is not None:
            kind, content, sizes = request
            wire.write_frame(self._requests, kind, content, sizes)
        if expected is None:
            return _Answer(wire.Frame(0, 0, 0, 0, ()), bytearray())
        try:
            frame = wire.read_header(self._answers)
        except ValueError:
            raise ValueError("its answer is malformed") from None
        if frame.kind in (wire.ERROR, wire.NOT_FROZEN) and frame.size <= wire.MOST_TEXT:
            text = _plain_text(wire.read_exactly(self._answers, bytearray(frame.size)))
            raise wire.NotFrozenError(text) if frame.kind == wire.NOT_FROZEN else _ModelError(text)
        if not expected(frame):
            raise ValueError(
                f"its answer is malformed or too large (kind {frame.kind}, shape {list(frame.sizes)}, "
                f"{frame.size} bytes)"
            )
        return _Answer(frame, wire.read_exactly(self._answers, bytearray(frame.size)))

    @property
    def _requests(self) -> BinaryIO:
        assert self._popen.stdin is not None
        return self._popen.stdin  # type: ignore[return-value]

    @property
    def _answers(self) -> BinaryIO:
        assert self._popen.stdout is not None
        return self._popen.stdout  # type: ignore[return-value]

    def _why(self) -> str:
        if self._late.is_set():
            return f"no answer within {self._timeout:g} s (see timeout)"
        try:
            status = self._popen.wait(10)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        return (
            f"its process was killed by signal {-status}" if status < 0 else f"its process ended with status {status}"
        )

    def end(self, why: str) -> None:
        self._ended = self._ended or why
        self._finalizer()

    def forget_folder(self) -> None:
        """The folder was needed for the graphs that the runtime writes, and for nothing else."""
        self._folder.cleanup()


class _ModelError(Exception):
    """What onnxruntime said in the other process."""


def _kill(popen: "subprocess.Popen[bytes]", late: Event) -> None:
    late.set()  # before it is seen to be dead
    popen.kill()


def _end(popen: "subprocess.Popen[bytes]", folder: "TemporaryDirectory[str]") -> None:
    popen.kill()
    popen.wait()
    for pipe in (popen.stdin, popen.stdout):
        if pipe is not None:
            pipe.close()
    folder.cleanup()


def environment() -> dict[str, str]:
    """The other process's environment."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | ADDED


def hide_memory() -> bool:
    """Where Linux has no Landlock: keep other processes of the same user from reading this one's memory.

    They may neither trace it nor read it under /proc. It also cannot dump its core, and no debugger can attach.
    """
    if sys.platform != "linux":
        return False
    set_dumpable = 4
    return int(ctypes.CDLL(None).prctl(set_dumpable, 0, 0, 0, 0)) == 0


def _libraries() -> list[str]:
    """Where NumPy and onnxruntime lie for us, so that the other process takes the same ones."""
    homes = [spec.origin for name in ("numpy", "onnxruntime") if (spec := find_spec(name)) and spec.origin]
    return list(dict.fromkeys(str(Path(home).parents[1]) for home in homes))


def _ends(graph: bytes) -> tuple[str, tuple[int | None, ...], str]:
    """The input's name and shape, and the first output's name, read from the file and not asked of the runtime."""
    import onnx

    found = onnx.load_model_from_string(graph).graph
    held = {tensor.name for tensor in found.initializer} | {tensor.values.name for tensor in found.sparse_initializer}
    name, shape = only_input([_input(each) for each in found.input if each.name not in held])
    if not found.output:
        raise ValueError("the model has no output")
    return name, shape, found.output[0].name


def _input(value: Any) -> tuple[str, str, list[object]]:
    import onnx

    kind = value.type.tensor_type
    if kind.elem_type == onnx.TensorProto.FLOAT:
        written = "tensor(float)"
    else:
        written = onnx.TensorProto.DataType.Name(kind.elem_type).lower() if kind.elem_type else "no tensor"
    sizes = [axis.dim_value if axis.HasField("dim_value") else axis.dim_param or None for axis in kind.shape.dim]
    return value.name, written, sizes


def _plain_text(content: bytearray) -> str:
    """One line of what it said, without anything that a terminal would obey."""
    text = content.decode(errors="replace")
    return "".join(letter if letter.isprintable() else " " for letter in text).strip() or "no reason given"
