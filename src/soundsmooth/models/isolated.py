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
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Timer
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.independence import ASSUMED, CHECKED, Independence, demanded, unproved
from ..grid import Floats
from ..limits import seconds
from . import onnx_child as wire
from .independence import Report
from .onnx_file import OnnxModel
from .onnx_session import Frozen, Runtime
from .protocol import check_scores
from .recipe import Graph

#: What the process runs.
PROGRAM = Path(wire.__file__)
#: Seconds that one answer may take.
TIMEOUT = 600
MOST_CLASSES = 1 << 17
#: The optimizer may fold constants: the graph that runs may be so much larger than the file.
MOST_GROWTH = 1 << 26
#: All values of a graph for a few rows, as the witness sees them, take at most so many bytes.
MOST_SEEN = 1 << 34
#: All that the process inherits of the environment: where shared libraries are.
KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT") + (("PATH",) if os.name == "nt" else ())
#: The runtime has threads of its own, other libraries need none there; and it keeps no log of what it is used for.
ADDED = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",
}


class IsolatedOnnxModel(OnnxModel):
    """The same as `OnnxModel`, with the same votes, in another process; the flag `isolated=yes` says so.

    The proof is made here, of the graph that onnxruntime says it runs, from what it says it computes.
    """

    def __init__(
        self,
        path: str | Path | Graph,
        device: str | None = None,
        threads: int | None = None,
        independence: str | Independence = "auto",
        timeout: float | None = None,
    ) -> None:
        if unproved(demanded(independence)).measured:
            raise ValueError("an untrusted model is proved or checked; to be measured it would have to run unconfined")
        if device not in (None, "cpu"):
            raise ValueError(f"an untrusted model runs on the cpu only, not on {device!r}")
        self._timeout = TIMEOUT if timeout is None else seconds(timeout)
        super().__init__(path, None, threads, independence)

    def _start(self) -> None:
        """A process of its own, with the graph."""
        self._process = _Process(self._timeout)
        self._process.tell(wire.GRAPH, self._graph.content)

    @property
    def _runtime(self) -> Runtime:
        return Runtime(self._plain, self._frozen, self._try, self._probe)

    def _plain(self, level: str) -> tuple[str, bool]:
        self._load(level, frozen=False)
        return self._loaded

    def _frozen(self, level: str) -> tuple[tuple[str, bool], bytes]:
        running = self._load(level, frozen=True)
        return self._loaded, running

    def _load(self, level: str, frozen: bool) -> bytes:
        self._loaded = (level, frozen)
        most = 2 * len(self._graph.content) + MOST_GROWTH
        wanted = {"level": level, "frozen": frozen, "most": most, "threads": self._threads}
        wanted |= {"input": self._input, "output": self._output}
        answer = self._process.ask(
            wire.LOAD, json.dumps(wanted).encode(), (), lambda frame: frame.kind == wire.LOADED and frame.size <= most
        )
        return bytes(answer.content)

    def _probe(self, model: bytes, outputs: Sequence[str]) -> Callable[[npt.NDArray[Any]], list[npt.NDArray[Any]]]:
        """Another graph, run in the same process until the next one is."""
        wanted = json.dumps({"input": self._input, "outputs": list(outputs), "threads": self._threads}).encode()
        self._process.ask(wire.WATCH, wanted + b"\n" + model, (), lambda frame: frame.kind == wire.WATCHED)
        return lambda batch: self._seen(wire.LOOK, batch, len(outputs))

    def _try(self, session: object, batch: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What the session that will vote computes for a batch of no consequence."""
        (scores,) = self._seen(wire.TRY, batch, 1)
        return scores

    def _seen(self, kind: int, batch: npt.NDArray[Any], count: int) -> list[npt.NDArray[Any]]:
        answer = self._process.ask(kind, np.ascontiguousarray(batch, np.float32).ravel(), batch.shape, _is_seen)
        pipe = BytesIO(answer.content)
        arrays = [_array(pipe) for _ in range(count)]
        if pipe.read(1):
            raise ValueError("the untrusted model failed: its answer is malformed")
        return arrays

    def prepare(self, shape: tuple[int, ...], batch: int) -> None:
        super().prepare(shape, batch)
        if self._loaded != self._made.session:  # a lower level was tried since, in vain
            self._load(*self._made.session)
        self._process.forget_folder()

    def _proof(self, shape: tuple[int, ...], batch: int) -> tuple[Frozen, Report]:
        """In a process that has not voted yet, and can still write."""
        if self._process.settled:
            self._renew()
        return super()._proof(shape, batch)

    def _renew(self) -> None:
        self._process.end("another one took its place")
        self._start()
        self._load(*self._best.session)  # which the proof begins with

    _without_proof = CHECKED  # to be measured it would have to run unconfined

    def flags(self) -> dict[str, str]:
        return {
            "isolated": "yes",
            "optimization": self._made.level,
            "provider": wire.PROVIDERS["cpu"],
            "threads": str(self._threads),
        }

    def replica(self, number: int) -> "IsolatedOnnxModel":
        """A process of its own, which runs the same graph."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._proofs = {}
        other._start()
        other._load(*self._made.session)
        return other

    def recipe(self) -> bytes:
        raise ValueError("an untrusted model is made in a process of its own, and nowhere else")

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


def try_out(graph: Graph, shape: tuple[int, ...]) -> None:
    """A ValueError if the runtime dies on a graph, or on a batch of this shape: it should not run in this process."""
    made = IsolatedOnnxModel(graph, threads=1, independence=ASSUMED)
    try:
        made.scores(np.full(shape, 0.5, np.float32))
    except RuntimeDied:
        raise
    except ValueError:
        pass  # a batch that it does not take, which is an error like any other
    finally:
        made.close()


def _fits(frame: wire.Frame, rows: int) -> bool:
    """Whether a header announces scores for so many rows; a ValueError if it announces an output that is no scores."""
    if frame.kind != wire.SCORES or not _is_array(frame):
        return False
    check_scores(frame.sizes, wire.TYPES[frame.type] != "bool", rows)
    return frame.sizes[1] <= MOST_CLASSES


def _is_array(frame: wire.Frame) -> bool:
    """Whether a header announces as many bytes as an array of its type and sizes has."""
    if frame.type >= len(wire.TYPES):
        return False
    return math.prod(frame.sizes) * np.dtype(wire.TYPES[frame.type]).itemsize == frame.size


def _is_seen(frame: wire.Frame) -> bool:
    return frame.kind == wire.SEEN and frame.size <= MOST_SEEN


def _array(pipe: BinaryIO) -> npt.NDArray[Any]:
    """The next array of an answer that holds several."""
    try:
        frame = wire.read_header(pipe)
        if frame.kind != wire.SCORES or not _is_array(frame):
            raise ValueError
        content = pipe.read(frame.size)
        return np.frombuffer(content, wire.TYPES[frame.type]).reshape(frame.sizes)
    except (EOFError, ValueError):
        raise ValueError("the untrusted model failed: its answer is malformed") from None


class RuntimeDied(ValueError):  # noqa: N818 (it is an answer about a model)
    """The process in which a model ran has ended."""


class _Answer(NamedTuple):
    frame: wire.Frame
    content: bytearray


class _Process:
    """The other process: requests go in, answers come out, one at a time; after a bad answer it is ended for good."""

    def __init__(self, timeout: float) -> None:
        self._timeout, self._lock, self._owner = timeout, Lock(), os.getpid()
        self._ended: str | None = None
        self._late = Event()
        self.settled = False
        """Whether it has no folder any more in which another graph could be written."""
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
                raise RuntimeDied(f"the model's process was ended: {self._ended}")
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
                raise RuntimeDied(f"the runtime died on the model: {self._ended}") from None
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
        self.settled = True
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


def _plain_text(content: bytearray) -> str:
    """One line of what it said, without anything that a terminal would obey."""
    text = content.decode(errors="replace")
    return "".join(letter if letter.isprintable() else " " for letter in text).strip() or "no reason given"
