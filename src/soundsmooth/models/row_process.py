"""The fresh process in which rows are voted alone: it makes the model, and forks a child for each row (`row_voter`)."""

import _thread
import ctypes
import gc
import math
import multiprocessing
import multiprocessing.spawn
import os
import pickle
import re
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import describe_error
from ..core.grid import Floats
from ..core.independence import ASSUMED
from .protocol import Model, Votes
from .random_generators import SEED, find_generators, seed_generators, seed_of
from .sandbox.confine import Renunciation, linux, seal, silence

#: What it is asked for: a child for the next row, whose channel comes along, and the end of a child that has voted.
#: Each is told by its number, from 1; 0 stands for none.
ORDER = struct.Struct("<qq")
#: What a child says when nothing but its own channel is open in it.
READY = b"r"
#: A vote, or a number of classes.
LABEL = struct.Struct("<q")
#: onnxruntime shares this file between all processes that use it, and no graph can write to it.
NOT_OF_THE_MODEL = ".onnxruntime/onnxruntime.db-shm"
#: Memory of no file.
UNNAMED = "without a name"
#: Libraries that start threads for others.
_OPENMP = re.compile(r"/lib[gi]?omp[^/]*\.so[^/]*$")
#: Linux's names for them are PR_SET_CHILD_SUBREAPER, CLONE_NEWUSER and CLONE_NEWIPC.
_ADOPT_ORPHANS, _NEW_USER, _NEW_IPC = 36, 0x10000000, 0x08000000
#: Linux's advice MADV_COLLAPSE, and the first row for which it is worth its time: fewer rows are voted to compare.
_COLLAPSE, MANY = 25, 17
#: Linux's call close_range, the same number on every architecture, and the last descriptor there can be.
_CLOSE_RANGE, _LAST = 436, 0xFFFFFFFF


def serve(pipe: Connection, recipe: bytes, shape: tuple[int, ...], folder: str, script: Mapping[str, Any]) -> None:
    """Make the model, then fork a child for each row. `folder` is where the model's own modules may have been found."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks is told, and ends this process
    os.setsid()
    try:
        model = _make_model(recipe, folder, script)
        classes = _vote_on_black(model, shape)
        cell = _Cell.furnished(model, _settle(), shape)
    except NotAloneError as error:
        return pipe.send_bytes(str(error).encode())
    except BaseException as error:
        return pipe.send_bytes(f"the model cannot be made in a fresh process: {describe_error(error)}".encode())
    pipe.send_bytes(b"")
    pipe.send_bytes(LABEL.pack(classes))
    with suppress(EOFError, OSError), socket.socket(fileno=os.dup(pipe.fileno())) as orders:
        pipe.close()
        _fork_for_rows(orders, cell)


class _Cell(NamedTuple):
    """What a child needs for its row, made before it is forked; nothing of it depends on any row."""

    model: Model
    generators: list[Any]
    rights: Renunciation
    message: memoryview
    """Room for the row, and for the seed that follows it."""
    row: Floats
    """The room for the row."""

    @classmethod
    def furnished(cls, model: Model, generators: list[Any], shape: tuple[int, ...]) -> "_Cell":
        room = np.zeros(4 * math.prod(shape) + SEED, np.uint8)
        row = room[:-SEED].view(np.float32).reshape(shape)
        return cls(model, generators, Renunciation({}), room.data, row)


def _fork_for_rows(orders: socket.socket, cell: _Cell) -> None:
    """A child for each row that is announced, until nobody announces one any more."""
    children, rights = dict[int, int](), _rights()
    while True:
        order, channels, _, _ = socket.recv_fds(orders, ORDER.size, 1)
        if len(order) < ORDER.size:
            return
        number, voted = ORDER.unpack(order)
        _bury(children)
        _end(children.pop(voted, 0))
        if not number:
            continue
        if _rights() != rights:
            return  # a row has changed this process, and later ones could see it
        if number == MANY:
            _use_large_pages()
        children[number] = _fork_child(cell, *channels)


def _rights() -> tuple[object, ...]:
    """What another process could change of this one, and a child inherits."""
    import resource  # not on Windows, where nothing is forked

    where = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    how = os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else None
    return os.getpriority(os.PRIO_PROCESS, 0), [*map(resource.getrlimit, _limits())], where, how


@cache
def _limits() -> list[int]:
    """The numbers of all limits."""
    import resource

    return [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def _make_model(recipe: bytes, folder: str, script: Mapping[str, Any]) -> Model:
    """The model, from the recipe; what is imported for it does not see this process fork."""
    _ignore_forks()
    sys.path.insert(0, folder)
    multiprocessing.spawn.prepare(dict(script))
    model: Model = pickle.loads(recipe).build(device="cpu", threads=1, independence=ASSUMED)
    return model


class NotAloneError(Exception):
    """A model that could be made, and cannot vote on rows alone."""


def _vote_on_black(model: Model, shape: tuple[int, ...]) -> int:
    """How many classes the model votes for; a NotAloneError if rows cannot be voted alone.

    It votes once, on black: what it imports or allocates when it is first asked is there before the forks. Nothing of
    its own may go on by itself, and nothing may be shared with others.
    """
    _one_thread()
    try:
        votes = _votes(model, np.zeros(shape, np.float32))
    except Exception as error:
        raise NotAloneError(
            f"the model cannot vote on one row alone, in a fresh process: {describe_error(error)}"
        ) from error
    _one_thread()  # of what it has imported only now
    if _thread._count():
        raise NotAloneError("the model leaves threads running, which could remember rows")
    if _child_processes():
        raise NotAloneError("the model leaves processes running, which could remember rows")
    for shared in _shared_memory():
        raise NotAloneError(f"the model keeps memory that processes share, which could remember rows: {shared}")
    return votes.classes


def _one_thread() -> None:
    """A child has no threads but one, and would wait for others for ever."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    for path in {name for _, _, name in _memory() if _OPENMP.search(name)}:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(path).omp_set_num_threads(1)


def _ignore_forks() -> None:
    """Code that is imported from now on does not run when this process forks: it could count rows, or take the next
    one's channel. What it leaves running becomes a child of this process, where the system can do that.
    """

    def ignore(**hooks: object) -> None:
        pass

    def refuse(hook: object) -> None:
        raise RuntimeError("an audit hook would see rows being voted alone")

    for module in (os, sys.modules.get(os.name)):
        if module is not None:
            vars(module)["register_at_fork"] = ignore
    vars(sys)["addaudithook"] = refuse
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)


def _settle() -> list[Any]:
    """Stop what of the model's own could still run in this process; the generators that are found in it."""
    gc.callbacks.clear()
    sys.settrace(None)
    sys.setprofile(None)
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in signal.valid_signals() - {signal.SIGINT}:
        if callable(signal.getsignal(number)) or number == signal.SIGCHLD:
            signal.signal(number, signal.SIG_DFL)
    silence()
    with TemporaryDirectory(prefix="soundsmooth-") as folder:
        os.chdir(folder)
    generators = find_generators()
    seed_generators(generators, seed_of(b""))  # a rehearsal: what is first needed now is there for all
    if sys.platform == "linux":
        linux()
    gc.collect()
    gc.freeze()  # children share what is there
    return generators


def _use_large_pages() -> None:
    """Have the system lay memory together in large pages, where it can: a fork, and the end of a child, cost as much as
    there are pages. Nothing else depends on it.
    """
    with suppress(OSError, ValueError, AttributeError):
        size = int(Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").read_text())
        for place, rights, name in _memory():
            first, end = -(-place.start // size) * size, place.stop // size * size
            for each in range(first, end, size) if rights == "rw-p" and name in (UNNAMED, "[heap]") else ():
                linux().madvise(ctypes.c_void_p(each), ctypes.c_size_t(size), _COLLAPSE)  # one that cannot ends nothing


def _shared_memory() -> list[str]:
    """Memory of this process that others could write to, where the system tells."""
    return [name for _, rights, name in _memory() if rights == "rw-s" and not name.endswith(NOT_OF_THE_MODEL)]


def _memory() -> list[tuple[range, str, str]]:
    """Place, rights and name of what lies in this process's memory, where the system tells."""
    with suppress(OSError):
        lines = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
        return [(_place(line[0]), line[1], line[5] if len(line) > 5 else UNNAMED) for line in lines]
    return []


def _place(text: str) -> range:
    return range(*(int(each, 16) for each in text.split("-")))


def _child_processes() -> str:
    """Numbers of this process's children, where the system tells."""
    with suppress(OSError):
        return "".join(each.read_text() for each in Path("/proc/self/task").glob("*/children")).strip()
    return ""


@cache
def _system_fork() -> Callable[[], int]:
    fork: Callable[[], int] = ctypes.PyDLL(None).fork
    return fork


def _fork_child(cell: _Cell, channel: int) -> int:
    """A child that votes on the row that comes on its channel; its number.

    It is the system that forks and not Python, which would run what others asked it to: here there is one thread, and
    it needs nothing of that.
    """
    kept = (channel,) if cell.rights.ruleset is None else (channel, cell.rights.ruleset)
    gaps = _gaps(kept)
    child = _system_fork()()
    if child:
        os.close(channel)
        if child < 0:
            raise OSError("no process can be forked")
        return child
    try:
        _close_all_but(kept, gaps)
        _leave()
        cell.rights.enforce()
        seal()
        os.write(channel, READY)
        _fill(cell.message, channel)
        seed_generators(cell.generators, bytes(cell.message[-SEED:]))
        os.write(channel, LABEL.pack(int(_votes(cell.model, cell.row).labels[0])))
    finally:
        os._exit(0)


def _fill(room: memoryview, channel: int) -> None:
    """Read from the channel until the room is full."""
    while room:
        came = os.readv(channel, [room])
        if not came:
            raise EOFError
        room = room[came:]


def _leave() -> None:
    """Where the system allows it: no memory is shared by number any more, and no path leads to anything."""
    if sys.platform == "linux":
        linux().unshare(_NEW_USER | _NEW_IPC)
    with suppress(OSError):
        os.chroot(".")  # a folder that is gone


def _close_all_but(kept: tuple[int, ...], gaps: list[tuple[Any, ...]]) -> None:
    """Whatever was opened or duplicated before, by anybody, except for the standard three, which lead nowhere."""
    if sys.platform == "linux" and not any(linux().syscall(*each) for each in gaps):
        return
    for each in _descriptors():
        if each > 2 and each not in kept:
            with suppress(OSError):  # the list itself was open while it was read
                os.close(each)


@cache
def _gaps(kept: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """How Linux closes the descriptors between those that are kept, each gap in one go."""
    ends = sorted({2, *kept, _LAST + 1})
    gaps = [(low + 1, high - 1) for low, high in pairwise(ends) if high - low > 1]
    return [(ctypes.c_long(_CLOSE_RANGE), *map(ctypes.c_uint, (*each, 0))) for each in gaps]


def _descriptors() -> Iterable[int]:
    for folder in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            return [int(name) for name in os.listdir(folder)]
    return range(os.sysconf("SC_OPEN_MAX"))


def _votes(model: Model, row: Floats) -> Votes:
    """The votes of a batch that holds one row; where the model's batch is fixed, copies of that row fill it."""
    return model.vote(np.repeat(row[np.newaxis], model.batch or 1, axis=0))


def _end(child: int) -> None:
    """A child that has voted may linger; one that is buried has no number any more."""
    if child:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _bury(children: dict[int, int]) -> None:
    """Forget children that have ended, before the system gives their numbers to others."""
    with suppress(ChildProcessError):
        while ended := os.waitpid(-1, os.WNOHANG)[0]:
            for number in [number for number, child in children.items() if child == ended]:
                del children[number]
