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
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import ModuleType
from typing import Any

import numpy as np

from ..core.grid import Floats
from ..core.machine import cores
from .protocol import NOBODY
from .random_generators import seed_of
from .row_process import LABEL, ORDER, READY, serve

#: A row that takes longer than this many seconds votes for nobody.
PATIENCE = 120.0
#: What a class or a function that the running script defines is pickled with.
SCRIPT = "__main__"
_STARTING = threading.Lock()


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
        context = multiprocessing.get_context("spawn")
        self._script = _script() if may_run_script and SCRIPT.encode() in recipe else {}
        self.seconds: float | None = None
        """What a row took when it was tried out, if it was."""
        self.classes = 0
        """How many classes the model votes for; 0 until it is ready."""
        self.idle = True
        """Whether no row is at work, or was when something went wrong."""
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, recipe, shape, os.getcwd(), self._script)
        self._process = context.Process(target=serve, args=arguments, daemon=True)
        with _STARTING, _no_script():
            self._process.start()
        theirs.close()
        self._orders = socket.socket(fileno=os.dup(self._pipe.fileno()))
        self._begun = 0
        self._voted: deque[int] = deque()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._pipe.close()
        self._orders.close()
        assert self._process.pid  # 0 would be our own group
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # with all its children
        self._process.kill()
        self._process.join()

    def wait(self) -> None:
        """A ValueError if the model cannot be made in a fresh process, is another one there, or cannot vote alone."""
        if self.classes:
            return
        try:
            problem = self._pipe.recv_bytes().decode(errors="replace")
            if problem:
                raise ValueError(problem)
            (self.classes,) = LABEL.unpack(self._pipe.recv_bytes(LABEL.size))
        except (EOFError, OSError):
            raise self._ended_early() from None

    def votes(self, rows: Iterator[Floats]) -> Iterator[int]:
        """The votes of the rows, in order; on each core there is one at work, while another gets ready."""
        at_work: deque[tuple[int, socket.socket]] = deque()
        self.idle = False
        for row in rows:
            if len(at_work) > cores():
                yield self._finish(*at_work.popleft())
            at_work.append(self._begin(row))
        while at_work:
            yield self._finish(*at_work.popleft())
        self._end_those_that_voted()
        self.idle = True

    def _begin(self, row: Floats) -> tuple[int, socket.socket]:
        """A child that holds nothing but its channel gets the row on it; its number and our end of the channel.

        The next child is not asked for before: its channel would lie where this one could take it.
        """
        channel, theirs = socket.socketpair()
        channel.settimeout(PATIENCE)
        self._begun += 1
        with theirs, suppress(OSError):  # a process that has ended does not listen
            self._order(self._begun, theirs.fileno())
        if _receive(channel, len(READY)) != READY:
            raise self._ended_early()
        sent = row.astype(np.float32, copy=False).tobytes()
        with suppress(OSError):
            channel.sendall(sent + seed_of(sent))
        return self._begun, channel

    def _finish(self, child: int, channel: socket.socket) -> int:
        answer = _receive(channel, LABEL.size)
        channel.close()
        self._voted.append(child)
        return int(LABEL.unpack(answer)[0]) if len(answer) == LABEL.size else NOBODY

    def _end_those_that_voted(self) -> None:
        """They may linger; one of them is ended with every order for a new child."""
        try:
            while self._voted:
                self._order(0)
        except OSError:
            raise self._ended_early() from None

    def _ended_early(self) -> ValueError:
        way_out = f': put what the script does under if __name__ == "{SCRIPT}":' if self._script else ""
        return ValueError(f"the fresh process in which rows are voted alone ended unexpectedly{way_out}")

    def _order(self, number: int, *channel: int) -> None:
        voted = self._voted.popleft() if self._voted else 0
        socket.send_fds(self._orders, [ORDER.pack(number, voted)], channel)


def _receive(channel: socket.socket, count: int) -> bytes:
    """The next bytes that a child says: fewer if it has ended, or takes too long."""
    answer = b""
    with suppress(OSError):
        while len(answer) < count and (more := channel.recv(count - len(answer))):
            answer += more
    return answer


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
