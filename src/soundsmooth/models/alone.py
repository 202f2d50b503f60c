"""Rows voted alone, each in a process of its own: what the model says where it can neither see nor remember others.

A fresh process (spawned: it shares no memory with this one and knows no key) makes the model and never asks it
anything. For every row it forks: the child reads that one row from the pipe, votes, answers and ends; the process that
forks reads none. So no other row was ever in a child's own memory, and the vote of a row is a function of that row, and
of what lies outside (files, the clock, the network, memory that the model shares between processes on purpose), by
construction.
"""

import multiprocessing
import os
import pickle
import select
import signal
import struct
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from multiprocessing.connection import Connection
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ..grid import Floats
from ..machine import cores
from .protocol import NOBODY, Model, named
from .recipe import SENDABLE, ModelRecipe

#: A row that takes longer than this many seconds votes for nobody.
PATIENCE = 120.0
#: So many rows are sent together.
SENT = 64
#: What a child says when it has its row.
READ = b"r"
_LABEL = struct.Struct("<q")
#: What a class or a function that the running script defines is pickled with.
SCRIPT = "__main__"
_STARTING = threading.Lock()


def why_not_alone(recipe: Callable[[], ModelRecipe]) -> str | None:
    """Why a model cannot be made in a fresh process, without the script; tried out, since nothing else tells."""
    try:
        with Alone(recipe(), may_run_script=False):
            return None
    except ValueError as error:
        return str(error)


class Alone:
    """A fresh process that votes on rows, each alone.

    Guarantee: unless the model reads what lies outside its process, the votes of different rows are independent of
    each other and of all other votes, given the rows. A row on which the model fails votes for nobody.
    """

    def __init__(self, recipe: ModelRecipe, may_run_script: bool = True) -> None:
        """A ValueError if the model cannot be made in a fresh process, or is another one there.

        The script that is running is run again there only if it defines the model, and only if it may be.
        """
        if not hasattr(os, "fork"):
            raise ValueError("independence is measured in forked processes, which this operating system does not have")
        context = multiprocessing.get_context("spawn")
        pickled = _pickled(recipe)
        needs_script = SCRIPT.encode() in pickled
        if needs_script and not may_run_script:
            raise ValueError("only the script that is running defines the model")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, pickled, os.getcwd()), daemon=True)
        with _STARTING, nullcontext() if needs_script else _no_script():
            self._process.start()
        theirs.close()
        try:
            problem = self._receive()
        except BaseException:
            self.close()
            raise
        if problem is not None:
            self.close()
            raise ValueError(f"the model cannot be made in a fresh process: {problem}")

    def __enter__(self) -> "Alone":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.join()

    def try_out(self, row: Floats) -> None:
        """A ValueError if the model cannot vote on a row alone at all."""
        (answer,) = self._ask([row])
        if isinstance(answer, str):
            raise ValueError(f"the model cannot vote on one row alone, in a fresh process: {answer}")

    def votes(self, rows: Iterator[Floats]) -> Iterator[int]:
        """The votes of the rows, in order."""
        while some := list(islice(rows, SENT)):
            yield from (NOBODY if isinstance(answer, str) else answer for answer in self._ask(some))

    def _ask(self, rows: list[Floats]) -> list[int | str]:
        with suppress(ConnectionError):  # whoever does not listen does not answer
            for what in (len(rows), *rows):
                self._pipe.send(what)
        answers: list[int | str] = self._receive()  # type: ignore[assignment]
        return answers

    def _receive(self) -> object:
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionError):
            raise ValueError(
                "the fresh process ended unexpectedly; a script that measures independence must be importable: "
                'put what it does under if __name__ == "__main__":'
            ) from None


@contextmanager
def _no_script() -> Iterator[None]:
    """A process that is spawned here runs no script: it would certify, or train, once more."""
    script = sys.modules[SCRIPT]
    sys.modules[SCRIPT] = ModuleType(SCRIPT)
    try:
        yield
    finally:
        sys.modules[SCRIPT] = script


def _pickled(recipe: ModelRecipe) -> bytes:
    try:
        return pickle.dumps(recipe)
    except Exception as error:  # it is their object: anything can happen
        raise ValueError(
            f"independence cannot be measured, because the model cannot be made again in a fresh process "
            f"({type(error).__name__}: {error}): {SENDABLE}"
        ) from error


def _serve(pipe: Connection, pickled: bytes, folder: str) -> None:
    """In the fresh process: make the model, then have children of this process vote.

    `folder` is where the model's own modules may have been found.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks is told, and ends this process
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: none of ours is running
    try:
        sys.path.insert(0, folder)
        recipe: ModelRecipe = pickle.loads(pickled)
        model = recipe.build(device="cpu", threads=1, independence="assumed")
        _one_thread()
    except BaseException as error:
        pipe.send(named(error))
        return
    pipe.send(None)
    with suppress(EOFError):
        while True:
            pipe.send(list(_answers(model, pipe.recv(), pipe)))


def _one_thread() -> None:
    """A forked process has no threads but one: torch may not wait for others."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


class _Child(NamedTuple):
    pid: int
    answer: int
    """The file descriptor on which it answers."""


def _answers(model: Model, rows: int, pipe: Connection) -> Iterator[int | str]:
    """What children answer on so many rows, in order; on each core there is one at work."""
    children: deque[_Child] = deque()
    for _ in range(rows):
        if len(children) == cores():
            yield _finish(children.popleft())
        children.append(_begin(model, pipe, [child.answer for child in children]))
    while children:
        yield _finish(children.popleft())


def _begin(model: Model, pipe: Connection, hidden: list[int]) -> _Child:
    """A child that reads the next row itself; it has it when this returns."""
    mine, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        if os.read(mine, 1) != READ:  # nobody knows where the next row begins
            raise EOFError
        return _Child(pid, mine)
    try:
        for descriptor in (mine, *hidden):
            os.close(descriptor)
        row = pipe.recv()
        pipe.close()
        os.write(theirs, READ)
        try:
            answer = b"=" + _LABEL.pack(_vote(model, row))
        except BaseException as error:
            answer = b"!" + named(error).encode()[:500]
        os.write(theirs, answer)
    finally:
        os._exit(0)


def _vote(model: Model, row: Floats) -> int:
    """The vote of a batch's first row. Where the model's batch is fixed, it is filled with copies of that row."""
    return int(model.vote(np.repeat(row[np.newaxis], model.batch or 1, axis=0)).labels[0])


def _finish(child: _Child) -> int | str:
    ready, _, _ = select.select([child.answer], [], [], PATIENCE)
    answer = os.read(child.answer, 1000) if ready else b"!it takes too long"
    os.close(child.answer)
    with suppress(ProcessLookupError):
        os.kill(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)
    if answer.startswith(b"=") and len(answer) == 1 + _LABEL.size:
        return int(_LABEL.unpack(answer[1:])[0])
    return answer[1:].decode(errors="replace") or "the process ended without an answer"
