"""onnxruntime sessions, and the process that runs one for a model which nobody trusts.

This file alone is that process's program: it imports Python's library, NumPy and onnxruntime, and nothing of
soundsmooth. It is started by its path in a fresh interpreter, gets a graph and then noisy batches through a pipe, and
answers with scores. Before it sees the graph it gives up what rights it can (`confine`), and before it sees a batch it
can no longer open anything (`seal`). `isolated` is the other end of the pipe.
"""

import ctypes
import importlib
import io
import json
import math
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, NamedTuple

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class NotFrozenError(Exception):
    """The runtime cannot read again what its optimizer wrote."""


def session(graph: bytes, device: str, number: str, threads: int, level: str, written: Path | None = None) -> Any:
    """A session, which may write the graph that it runs to a file."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    known = onnxruntime.GraphOptimizationLevel
    levels = {
        "all": known.ORT_ENABLE_ALL,
        "extended": known.ORT_ENABLE_EXTENDED,
        "basic": known.ORT_ENABLE_BASIC,
        "none": known.ORT_DISABLE_ALL,
    }
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.graph_optimization_level = levels[level]
    if written is not None:
        options.optimized_model_filepath = str(written)
    wanted = PROVIDERS.get(device)
    if wanted not in onnxruntime.get_available_providers():
        there = ", ".join(onnxruntime.get_available_providers())
        raise ValueError(
            f"this onnxruntime cannot run on {device!r}, it has {there}; for cuda: pip install onnxruntime-gpu"
        )
    try:
        return onnxruntime.InferenceSession(
            graph, options, providers=[(wanted, {"device_id": number} if number else {})]
        )
    except Exception as error:  # onnxruntime's exceptions share no public base class
        raise ValueError(f"onnxruntime cannot load the model: {_line(error)}") from error


def frozen_session(
    graph: bytes, device: str, number: str, threads: int, level: str, folder: str | None = None
) -> tuple[Any, bytes]:
    """A session for what the optimizer makes of a graph, with rewriting turned off, and the graph that it runs."""
    with TemporaryDirectory(prefix="soundsmooth-", dir=folder) as inside:
        _check_room(Path(inside), len(graph))
        optimized, running = Path(inside, "optimized.onnx"), Path(inside, "running.onnx")
        try:
            session(graph, device, number, threads, level, optimized)
            frozen = session(optimized.read_bytes(), device, number, threads, "none", running)
            return frozen, running.read_bytes()
        except (OSError, ValueError) as error:
            raise NotFrozenError(f"the optimized graph could not be written or read again: {_line(error)}") from None


def run(model: Any, output: str, name: str, values: Any) -> Any:
    """One output of a session, for one input."""
    (scores,) = run_all(model, [output], name, values)
    return scores


def run_all(model: Any, outputs: Sequence[str], name: str, values: Any) -> Sequence[Any]:
    """Several outputs of a session, for one input."""
    try:
        return model.run(list(outputs), {name: values})  # type: ignore[no-any-return]
    except Exception as error:  # onnxruntime's exceptions share no public base class
        raise ValueError(f"onnxruntime could not run the model: {_line(error)}") from error


def _check_room(folder: Path, size: int) -> None:
    """What is proved must not depend on how full a disk is: a ValueError instead."""
    try:
        Path(folder, "room").write_bytes(bytes(size))
    except OSError as error:
        raise ValueError(
            f"there is no room for a copy of the model in {str(folder.parent)!r} ({error.strerror}), which is needed "
            "to see the graph that runs: make room, or set TMPDIR to another folder"
        ) from None


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# The frames of the pipe. ------------------------------------------------------------------------------------------

MOST_AXES = 8
#: Magic, kind, element type, number of axes, bytes that follow, sizes of the axes.
HEADER = struct.Struct(f"<4sBBBxQ{MOST_AXES}Q")
MAGIC = b"sms1"
HELLO, GRAPH, LOAD, LOADED, NOT_FROZEN, VOTE, SCORES, ERROR, WATCH, WATCHED, LOOK, TRY, SEEN = range(13)
#: Values may have these types, scores all but the last; the number in the header is the place in this list.
TYPES = (
    *("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
    "bool",
)
MOST_TEXT = 2000


class Frame(NamedTuple):
    """What the header of a frame says."""

    kind: int
    type: int
    axes: int
    size: int
    sizes: tuple[int, ...]


def write_frame(pipe: BinaryIO, kind: int, content: Any = b"", sizes: tuple[int, ...] = (), type_: int = 0) -> None:
    """A header and the bytes that it announces. `pipe` is unbuffered."""
    view = memoryview(content).cast("B") if len(content) else memoryview(b"")
    padded = (*sizes, *(0,) * (MOST_AXES - len(sizes)))
    pipe.write(HEADER.pack(MAGIC, kind, type_, len(sizes), len(view), *padded))
    while len(view):
        view = view[pipe.write(view) :]


def read_header(pipe: BinaryIO) -> Frame:
    """EOFError at the end, ValueError for anything that is no header."""
    magic, kind, type_, axes, size, *sizes = HEADER.unpack(read_exactly(pipe, bytearray(HEADER.size)))
    if magic != MAGIC or axes > MOST_AXES:
        raise ValueError("not a frame")
    return Frame(kind, type_, axes, size, tuple(sizes[:axes]))


def read_exactly(pipe: BinaryIO, into: bytearray) -> bytearray:
    view = memoryview(into)
    while len(view):
        got = pipe.readinto(view)  # type: ignore[attr-defined]
        if not got:
            raise EOFError
        view = view[got:]
    return into


# Giving up rights. ------------------------------------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_NO_NEW_PRIVILEGES = 38
#: Rights to the process's own folder: write, read, list, remove a file or folder, make a folder or file, truncate.
_OWN_FOLDER = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 14
_READ_FILE, _READ = 1 << 2, 1 << 2 | 1 << 3
#: Installed software and what describes the processor: what libraries read when they are imported.
_SYSTEM = ("/usr", "/lib", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/proc/cpuinfo", "/sys/devices")


def confine(folder: str, libraries: list[str]) -> bool:
    """Give up what `give_up` does but for one folder to write in, and installed software to read."""
    readable = [*_SYSTEM, sys.prefix, sys.base_prefix, *libraries]
    readable += [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    there = {path: _READ for path in readable if os.path.exists(path)}
    return give_up(there | {folder: _OWN_FOLDER})


def give_up(rights: dict[str, int]) -> bool:
    """Give up core dumps, capabilities and, where Linux has Landlock, other processes and all files but those below the
    paths to which there are rights.

    True if Landlock is in force. It binds the calling thread and those that it starts, so this comes before any library
    can start one.
    """
    try:
        import resource
    except ImportError:  # Windows
        return False
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    version, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capset(version, nothing)  # of use to root only: without them even root may not read others' memory
    return _landlock(libc, rights)


def _landlock(libc: Any, rights: dict[str, int]) -> bool:
    """Nothing but these rights below these paths; no TCP; no signals, sockets or tracing that leave this process."""

    def call(number: int, *arguments: Any) -> int:
        return int(libc.syscall(ctypes.c_long(number), *arguments))

    version = call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return False
    files = (1 << (13 + (version >= 2) + (version >= 3) + (version >= 5))) - 1
    attributes = (ctypes.c_uint64 * 3)(files, 3, 3)  # every access to files; TCP; abstract sockets and signals
    size = ctypes.c_size_t(8 if version < 4 else 16 if version < 6 else 24)
    rules = call(_CREATE_RULESET, attributes, size, ctypes.c_uint32(0))
    if rules < 0:
        return False
    for path, right in rights.items():
        below = os.open(path, os.O_PATH)
        rule = struct.pack("<Qi", right & files & (-1 if os.path.isdir(path) else _READ_FILE), below)
        call(_ADD_RULE, ctypes.c_int(rules), ctypes.c_int(1), rule, ctypes.c_uint32(0))
        os.close(below)
    done = call(_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0)) == 0
    os.close(rules)
    return done


def seal() -> None:
    """From now on nothing can be opened: no file, no socket, no other process's memory through a file."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))


# The process. -----------------------------------------------------------------------------------------------------


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
        write_frame(self._answers, kind, _line(error).encode()[:MOST_TEXT])

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
        write_frame(self._answers, WATCHED)

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
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)
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
        write_frame(answers, ERROR, f"its process cannot import {library}: {_line(error)}".encode()[:MOST_TEXT])
        return
    write_frame(answers, HELLO, b"confined" if confined else b"")
    try:
        Server(requests, answers).serve()
    except (EOFError, BrokenPipeError):
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
