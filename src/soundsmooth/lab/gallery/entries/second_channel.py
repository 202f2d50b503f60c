"""A second channel: the process of a row learns of other rows, though it never holds them.

Two models are class 1 in batches, and class 0 on a row of which they know nothing. One duplicates the channels that
are open when the fresh process makes it: alone it is class 1 if further rows wait on one. The other counts how often
that process forks: alone it is class 1 from the second row on. So one row is lost, and class 1 is certified. Ours
closes everything in a row's process before the row comes, on a channel of its own, and calls no hook where it forks.
"""

import multiprocessing
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction

import numpy as np

from ..certifiers import Array, Certifier, CertifierTask, Scores, one_hot
from ..measured import NAIVE, measuring, never_alone
from ..options import Options
from ..trial import Trial

CLAIM = "f hears other rows that wait on a duplicated channel, or counts forks: it knows that it is being measured"
SIGMA = Fraction(1, 2)
EXTRA: tuple[Certifier, ...] = (NAIVE,)
#: Copies of channels have this number, or a higher one: in an attribute the digest would see them.
FIRST_COPY = 600


class Listening:
    """In batches class 1; alone class 1 if other rows wait on a channel."""

    def __init__(self) -> None:
        if in_fresh_process():
            for each in range(3, FIRST_COPY):
                duplicate(each)

    def __reduce__(self) -> tuple[type[Scores], tuple[()]]:
        return Listening, ()

    def __call__(self, batch: Array) -> Array:
        return one_hot(np.full(len(batch), len(batch) > 1 or any(map(waits_on, range(FIRST_COPY, FIRST_COPY + 64)))))


class Counting:
    """In batches class 1; alone class 1 if its process is not the first that was forked."""

    def __init__(self) -> None:
        self.forks = 0
        if in_fresh_process():
            os.register_at_fork(before=self.count)

    def __reduce__(self) -> tuple[type[Scores], tuple[()]]:
        return Counting, ()

    def count(self) -> None:
        self.forks += 1

    def __call__(self, batch: Array) -> Array:
        return one_hot(np.full(len(batch), len(batch) > 1 or self.forks > 1))


def in_fresh_process() -> bool:
    """This process, in which the gallery runs, is left alone."""
    return multiprocessing.parent_process() is not None


def duplicate(descriptor: int) -> None:
    """Under another number, if it is a socket."""
    import fcntl  # not on Windows, where nothing is forked

    with suppress(OSError):
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            fcntl.fcntl(descriptor, fcntl.F_DUPFD, FIRST_COPY)


def waits_on(descriptor: int) -> bool:
    """Whether something can be read there; it is left where it is."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as channel:
        return len(channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)) > 0
    return False


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    task = CertifierTask(SIGMA, options.n or 2000, n0=min(options.n or 100, 100))
    for model, note in ((Listening, "listens for other rows"), (Counting, "counts forks")):
        for certifier in measuring(certifiers):
            yield never_alone("second-channel", certifier, model, task, note)
