"""Rows voted alone, each in a process of its own: what the model says where it can neither see nor remember others.

A fresh process (spawned: it shares no memory with this one and knows no key) makes the model from a recipe that was
taken before the first vote, has it vote once on a black row, and waits. For every row it forks. The child closes
everything but one channel, says so, and only then gets its row, on that channel: no other row ever was in its memory,
or in the memory of the process it comes from. The generators that it finds are seeded from the row itself. So the vote
is a function of the row, given that the model's code does not work against it (docs/independence.md, "Measured").
"""

import multiprocessing
import multiprocessing.spawn
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from types import ModuleType
from typing import Any

from ..core.grid import Floats
from ..core.machine import cores
from .protocol import NOBODY
from .row_process import END, FORK, LABEL, READY, serve

#: A row that takes longer than this many seconds votes for nobody.
PATIENCE = 120.0
#: An answer is no longer than this.
MOST_ANSWER = 1000
#: What a class or a function that the running script defines is pickled with.
SCRIPT = "__main__"
_STARTING = threading.Lock()


def why_not_alone(recipe: Callable[[], bytes], shape: tuple[int, ...]) -> str | None:
    """Why a model cannot vote on rows alone, without the script; tried out, since nothing else tells."""
    try:
        with RowVoter(recipe(), shape, may_run_script=False) as alone:
            alone.wait()
            return None
    except ValueError as error:
        return str(error)


class RowVoter(AbstractContextManager["RowVoter"]):
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
        self._process = context.Process(target=serve, args=(theirs, recipe, shape, os.getcwd(), script), daemon=True)
        with _STARTING, _no_script():
            self._process.start()
        theirs.close()
        self._begun = 0

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
        try:
            problem = self._pipe.recv_bytes().decode(errors="replace")
        except (EOFError, OSError):
            raise _ended_early() from None
        if problem:
            raise ValueError(problem)

    def votes(self, rows: Iterator[Floats]) -> Iterator[int]:
        """The votes of the rows, in order; on each core there is one at work."""
        at_work: deque[tuple[int, Connection]] = deque()
        for row in rows:
            if len(at_work) == cores():
                yield self._finish(*at_work.popleft())
            at_work.append(self._begin(row))
        while at_work:
            yield self._finish(*at_work.popleft())

    def _begin(self, row: Floats) -> tuple[int, Connection]:
        """A child that holds nothing but its channel gets the row on it; its number and our end of the channel.

        The next child is not asked for before: its channel would lie where this one could take it.
        """
        channel, theirs = multiprocessing.Pipe()
        self._begun += 1
        with suppress(OSError):  # a process that has ended does not listen
            self._pipe.send((FORK, self._begun))
            send_handle(self._pipe, theirs.fileno(), self._process.pid)
        theirs.close()
        if _receive(channel, 1) != READY:
            raise _ended_early()
        with suppress(OSError):
            channel.send(row)
        return self._begun, channel

    def _finish(self, child: int, channel: Connection) -> int:
        answer = _receive(channel, MOST_ANSWER)
        channel.close()
        try:
            self._pipe.send((END, child))
        except OSError:
            raise _ended_early() from None
        return int(LABEL.unpack(answer)[0]) if len(answer) == LABEL.size else NOBODY


def _receive(channel: Connection, most: int) -> bytes:
    """What a child says next; nothing if it has ended, says too much, or takes too long."""
    try:
        return channel.recv_bytes(most) if channel.poll(PATIENCE) else b""
    except (EOFError, OSError):
        return b""


def _ended_early() -> ValueError:
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
