"""The fresh process in which rows are voted alone: it makes the model, and forks a child for each row (`row_voter`)."""

import _thread
import ctypes
import gc
import multiprocessing
import multiprocessing.spawn
import os
import pickle
import re
import signal
import struct
import sys
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..core.errors import describe_error
from ..core.grid import Floats
from ..core.independence import ASSUMED
from .protocol import Model
from .random_generators import find_generators, seed_generators
from .sandbox.confine import give_up, seal, silence

#: What it is asked for: a child for the next row, the end of a child.
FORK, END = "fork", "end"
#: What a child says when nothing but its own channel is open in it.
READY = b"r"
LABEL = struct.Struct("<q")
#: onnxruntime shares this file between all processes that use it, and no graph can write to it.
NOT_OF_THE_MODEL = ".onnxruntime/onnxruntime.db-shm"
#: Libraries that start threads for others.
_OPENMP = re.compile(r"/lib[gi]?omp[^/]*\.so[^/]*$")
#: Linux's names for them are PR_SET_CHILD_SUBREAPER, CLONE_NEWUSER and CLONE_NEWIPC.
_ADOPT_ORPHANS, _NEW_USER, _NEW_IPC = 36, 0x10000000, 0x08000000


def serve(pipe: Connection, recipe: bytes, shape: tuple[int, ...], folder: str, script: Mapping[str, Any]) -> None:
    """Make the model, then fork a child for each row. `folder` is where the model's own modules may have been found."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks is told, and ends this process
    os.setsid()
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: none of ours is running
    try:
        model = _make_model(recipe, folder, script)
        problem = _why_not_alone(model, shape)
        generators = [] if problem else _settle()
    except BaseException as error:
        problem = f"the model cannot be made in a fresh process: {describe_error(error)}"
    pipe.send_bytes(problem.encode())
    if problem:
        return
    children, rights = dict[int, int](), _rights()
    with suppress(EOFError, OSError):
        while True:
            what, number = pipe.recv()
            if what == FORK and _rights() == rights:
                children[number] = _fork_child(model, generators, recv_handle(pipe))
            elif what == FORK:
                return  # a row has changed this process, and later ones could see it
            else:
                _end(children.pop(number))


def _rights() -> tuple[object, ...]:
    """What another process could change of this one, and a child inherits."""
    import resource  # not on Windows, where nothing is forked

    limits = [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]
    where = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    how = os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else None
    return os.getpriority(os.PRIO_PROCESS, 0), limits, where, how


def _make_model(recipe: bytes, folder: str, script: Mapping[str, Any]) -> Model:
    """The model, from the recipe; what is imported for it does not see this process fork."""
    _ignore_forks()
    sys.path.insert(0, folder)
    multiprocessing.spawn.prepare(dict(script))
    model: Model = pickle.loads(recipe).build(device="cpu", threads=1, independence=ASSUMED)
    return model


def _why_not_alone(model: Model, shape: tuple[int, ...]) -> str:
    """Why rows cannot be voted alone by a model that could be made; empty if they can.

    It votes once, on black: what it imports or allocates when it is first asked is there before the forks. Nothing of
    its own may go on by itself, and nothing may be shared with others.
    """
    _one_thread()
    try:
        _vote(model, np.zeros(shape, np.float32))
    except Exception as error:
        return f"the model cannot vote on one row alone, in a fresh process: {describe_error(error)}"
    _one_thread()  # of what it has imported only now
    shared = _shared_memory()
    if _thread._count():
        return "the model leaves threads running, which could remember rows"
    if _child_processes():
        return "the model leaves processes running, which could remember rows"
    return f"the model keeps memory that processes share, which could remember rows: {shared[0]}" if shared else ""


def _one_thread() -> None:
    """A child has no threads but one, and would wait for others for ever."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    for path in {path for _, path in _mapped() if _OPENMP.search(path)}:
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
    gc.collect()
    gc.freeze()  # children share what is there
    return generators


def _shared_memory() -> list[str]:
    """Memory of this process that others could write to, where the system tells."""
    return [path for rights, path in _mapped() if rights == "rw-s" and not path.endswith(NOT_OF_THE_MODEL)]


def _mapped() -> list[tuple[str, str]]:
    """Rights and name of what lies in this process's memory, where the system tells."""
    with suppress(OSError):
        lines = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
        return [(line[1], line[5] if len(line) > 5 else "without a name") for line in lines]
    return []


def _child_processes() -> str:
    """Numbers of this process's children, where the system tells."""
    with suppress(OSError):
        return "".join(each.read_text() for each in Path("/proc/self/task").glob("*/children")).strip()
    return ""


def _fork_child(model: Model, generators: list[Any], channel: int) -> int:
    """A child that votes on the row that comes on its channel; its number."""
    child = os.fork()
    if child:
        os.close(channel)
        return child
    try:
        _close_all_but(channel)
        _leave()
        give_up({})
        seal()
        mine = Connection(channel)
        mine.send_bytes(READY)
        row = mine.recv()
        seed_generators(generators, row)
        mine.send_bytes(LABEL.pack(_vote(model, row)))
    finally:
        os._exit(0)


def _leave() -> None:
    """Where the system allows it: no memory is shared by number any more, and no path leads to anything."""
    if sys.platform == "linux":
        ctypes.CDLL(None).unshare(_NEW_USER | _NEW_IPC)
    with suppress(OSError):
        os.chroot(".")  # a folder that is gone


def _close_all_but(descriptor: int) -> None:
    """Whatever was opened or duplicated before, by anybody, except for the standard three, which lead nowhere."""
    for each in _descriptors():
        if each > 2 and each != descriptor:
            with suppress(OSError):  # the list itself was open while it was read
                os.close(each)


def _descriptors() -> Iterable[int]:
    for folder in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            return [int(name) for name in os.listdir(folder)]
    return range(os.sysconf("SC_OPEN_MAX"))


def _vote(model: Model, row: Floats) -> int:
    """The vote of a batch's first row. Where the model's batch is fixed, it is filled with copies of that row."""
    return int(model.vote(np.repeat(row[np.newaxis], model.batch or 1, axis=0)).labels[0])


def _end(child: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
