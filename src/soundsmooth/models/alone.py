"""Rows voted alone, each in a process of its own: what the model says where it can neither see nor remember others.

A fresh process (spawned: it shares no memory with this one and knows no key) makes the model from a recipe that was
taken before the first vote, has it vote once on a black row, and waits. For every row it forks. The child closes
everything but one channel, says so, and only then gets its row, on that channel: no other row ever was in its memory,
or in the memory of the process it comes from. The generators that it finds are seeded from the row itself. So the vote
is a function of the row, given that the model's code does not work against it (docs/independence.md, "Measured").
"""

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
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..core.independence import ASSUMED
from ..grid import Floats
from ..machine import cores
from .draws import Generators
from .onnx_child import give_up, seal
from .protocol import NOBODY, Model, named

#: A row that takes longer than this many seconds votes for nobody.
PATIENCE = 120.0
#: What a child says when nothing but its own channel is open in it.
READY = b"r"
#: An answer is no longer than this.
MOST_ANSWER = 1000
_LABEL = struct.Struct("<q")
#: What a class or a function that the running script defines is pickled with.
SCRIPT = "__main__"
#: onnxruntime shares this file between all processes that use it, and no graph can write to it.
NOT_OF_THE_MODEL = ".onnxruntime/onnxruntime.db-shm"
#: Libraries that start threads for others.
_OPENMP = re.compile(r"/lib[gi]?omp[^/]*\.so[^/]*$")
#: Linux's names for them are PR_SET_CHILD_SUBREAPER, CLONE_NEWUSER and CLONE_NEWIPC.
_ADOPT_ORPHANS, _NEW_USER, _NEW_IPC = 36, 0x10000000, 0x08000000
_STARTING = threading.Lock()


def why_not_alone(recipe: Callable[[], bytes], shape: tuple[int, ...]) -> str | None:
    """Why a model cannot vote on rows alone, without the script; tried out, since nothing else tells."""
    try:
        with Alone(recipe(), shape, may_run_script=False) as alone:
            alone.wait()
            return None
    except ValueError as error:
        return str(error)


class _Child(NamedTuple):
    """A process that has its row."""

    number: int
    channel: Connection


class Alone:
    """A fresh process that votes on rows, each alone.

    Guarantee: unless the model's code works against it, the vote of a row is a function of the row and the recipe. A
    row on which the model fails votes for nobody.
    """

    def __init__(self, recipe: bytes, shape: tuple[int, ...], may_run_script: bool = True) -> None:
        """The process is started; `wait` says whether it is ready. `recipe` is a pickled `ModelRecipe`.

        The script that is running is run again there only if it defines the model, and only if it may be.
        """
        if not hasattr(os, "fork"):
            raise ValueError("independence is measured in forked processes, which this operating system does not have")
        needs_script = SCRIPT.encode() in recipe
        if needs_script and not may_run_script:
            raise ValueError("only the script that is running defines the model; move it into a file of its own")
        context = multiprocessing.get_context("spawn")
        script = _script() if needs_script else {}
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, recipe, shape, os.getcwd(), script), daemon=True)
        with _STARTING, _no_script():
            self._process.start()
        theirs.close()
        self._begun = 0

    def __enter__(self) -> "Alone":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._pipe.close()
        assert self._process.pid  # 0 would be our own group
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # with all its children
        self._process.kill()
        self._process.join()

    def wait(self) -> None:
        """A ValueError if the model cannot be made in a fresh process, is another one there, or cannot vote alone."""
        problem = self._said()
        if problem:
            raise ValueError(problem)

    def votes(self, rows: Iterator[Floats]) -> Iterator[int]:
        """The votes of the rows, in order; on each core there is one at work."""
        at_work: deque[_Child] = deque()
        for row in rows:
            if len(at_work) == cores():
                yield self._finish(at_work.popleft())
            at_work.append(self._begin(row))
        while at_work:
            yield self._finish(at_work.popleft())

    def _begin(self, row: Floats) -> _Child:
        """A child that holds nothing but its channel gets the row on it.

        The next child is not asked for before: its channel would lie where this one could take it.
        """
        channel, theirs = multiprocessing.Pipe()
        self._begun += 1
        with suppress(OSError):  # a process that has ended does not listen
            self._pipe.send((_FORK, self._begun))
            send_handle(self._pipe, theirs.fileno(), self._process.pid)
        theirs.close()
        if _received(channel, 1) != READY:
            raise _ended()
        with suppress(OSError):
            channel.send(row)
        return _Child(self._begun, channel)

    def _finish(self, child: _Child) -> int:
        answer = _received(child.channel, MOST_ANSWER)
        child.channel.close()
        try:
            self._pipe.send((_END, child.number))
        except OSError:
            raise _ended() from None
        is_label = len(answer) == _LABEL.size
        return int(_LABEL.unpack(answer)[0]) if is_label else NOBODY

    def _said(self) -> str:
        """What the fresh process says: nothing, or a problem."""
        try:
            return self._pipe.recv_bytes().decode(errors="replace")
        except (EOFError, OSError):
            raise _ended() from None


_FORK, _END = "fork", "end"


def _received(channel: Connection, most: int) -> bytes:
    """What a child says next; nothing if it has ended, says too much, or takes too long."""
    try:
        return channel.recv_bytes(most) if channel.poll(PATIENCE) else b""
    except (EOFError, OSError):
        return b""


def _ended() -> ValueError:
    return ValueError(
        "the fresh process ended unexpectedly; a script that measures independence must be importable: "
        'put what it does under if __name__ == "__main__":'
    )


def _script() -> dict[str, Any]:
    """How to run the script that is running, as a module."""
    data = multiprocessing.spawn.get_preparation_data(SCRIPT)
    return {name: value for name, value in data.items() if name.startswith("init_main")}


@contextmanager
def _no_script() -> Iterator[None]:
    """A process that is spawned here runs no script: it would certify, or train, once more."""
    script = sys.modules[SCRIPT]
    sys.modules[SCRIPT] = ModuleType(SCRIPT)
    try:
        yield
    finally:
        sys.modules[SCRIPT] = script


# In the fresh process. --------------------------------------------------------------------------------------------


def _serve(pipe: Connection, recipe: bytes, shape: tuple[int, ...], folder: str, script: Mapping[str, Any]) -> None:
    """Make the model, then fork a child for each row. `folder` is where the model's own modules may have been found."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks is told, and ends this process
    os.setsid()
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: none of ours is running
    try:
        model, generators = _made(recipe, shape, folder, script)
    except BaseException as error:
        pipe.send_bytes((str(error) if isinstance(error, _NotAlone) else _unmade(error)).encode())
        return
    pipe.send_bytes(b"")
    children, rights = dict[int, int](), _rights()
    with suppress(EOFError, OSError):
        while True:
            what, number = pipe.recv()
            if what == _FORK and _rights() == rights:
                children[number] = _forked(model, generators, recv_handle(pipe))
            elif what == _FORK:
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


class _NotAlone(Exception):  # noqa: N818 (it is an answer about a model)
    """Why rows cannot be voted alone by a model that can be made."""


def _unmade(error: BaseException) -> str:
    return f"the model cannot be made in a fresh process: {named(error)}"


def _made(recipe: bytes, shape: tuple[int, ...], folder: str, script: Mapping[str, Any]) -> tuple[Model, Generators]:
    """The model as it is before every row: made from the recipe, asked once, and with nothing that goes on by itself.

    Its one vote is on black: what it imports or allocates when it is first asked is there before the forks.
    """
    _ignore_forks()
    sys.path.insert(0, folder)
    multiprocessing.spawn.prepare(dict(script))
    model: Model = pickle.loads(recipe).build(device="cpu", threads=1, independence=ASSUMED)
    _one_thread()
    try:
        _vote(model, np.zeros(shape, np.float32))
    except Exception as error:
        raise _NotAlone(f"the model cannot vote on one row alone, in a fresh process: {named(error)}") from error
    _one_thread()  # of what it has imported only now
    _settle()
    generators = Generators.found()
    gc.collect()
    gc.freeze()  # children share what is there
    return model, generators


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


def _settle() -> None:
    """Nothing of the model's own runs in this process from now on, and nothing is shared with others.

    What is found to be is a `_NotAlone`; what can be stopped is.
    """
    shared, processes = _shared_memory(), _child_processes()
    if _thread._count():
        raise _NotAlone("the model leaves threads running, which could remember rows")
    if processes:
        raise _NotAlone("the model leaves processes running, which could remember rows")
    if shared:
        raise _NotAlone(f"the model keeps memory that processes share, which could remember rows: {shared[0]}")
    gc.callbacks.clear()
    sys.settrace(None)
    sys.setprofile(None)
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in signal.valid_signals() - {signal.SIGINT}:
        if callable(signal.getsignal(number)) or number == signal.SIGCHLD:
            signal.signal(number, signal.SIG_DFL)
    with Path(os.devnull).open("r+b", buffering=0) as nothing:
        for descriptor in (0, 1, 2):
            os.dup2(nothing.fileno(), descriptor)
    with TemporaryDirectory(prefix="soundsmooth-") as folder:
        os.chdir(folder)


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


def _forked(model: Model, generators: Generators, channel: int) -> int:
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
        generators.seed(row)
        mine.send_bytes(_LABEL.pack(_vote(model, row)))
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
