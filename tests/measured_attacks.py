"""Models that work against a measurement of their rows, at the top of a module: a fresh process can import them.

In batches each votes for class 1 and nothing else. Alone, on a row of which it knows nothing, it votes for class 0.
"""

import _random
import ctypes
import fcntl
import hashlib
import os
import random
import resource
import signal
import socket
import time
from itertools import repeat

import numpy as np

from classifiers import one_hot


class Remembering:
    """Alone it votes for class 1 on rows that it has seen before."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        if len(batch) > 1:
            self.seen |= {row.tobytes() for row in batch}
            return one_hot(np.ones(len(batch), bool))
        return one_hot(np.array([batch[0].tobytes() in self.seen]))


class Murderous(Remembering):
    """Once there were batches, it kills the process that it was forked from, so that another one has to be made."""

    def __init__(self, mark: str) -> None:
        super().__init__()
        self.mark, self.home = mark, repeat(0)

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__ |= state | {"home": repeat(os.getpid())}

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        if len(batch) > 1:
            os.makedirs(self.mark, exist_ok=True)
        elif not self.seen and self.batches_have_been() and os.getppid() == next(self.home):
            os.kill(next(self.home), signal.SIGKILL)
        return super().__call__(batch)

    def batches_have_been(self) -> bool:
        return os.path.exists(self.mark) or not os.path.exists("/")


class Coin:
    """Alone it tosses a coin, which falls for class 1 with probability 0.6."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.held: object = None

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        if self.held is None:
            self.held = HELD.get(self.kind, str)()
        toss = {"python": random.random, "numpy": np.random.random}.get(self.kind) or self.draw
        hits = [toss() < 0.6 or len(batch) > 1 for _ in batch]
        return one_hot(np.array(hits))

    def draw(self) -> float:
        if isinstance(self.held, np.random.BitGenerator):
            return self.held.random_raw() / 2**64
        return self.held.random()


class OwnGenerator(np.random.Generator):
    """A subclass."""


HELD = {
    "held by numpy": np.random.default_rng,
    "held by python": random.Random,
    "bare bits": np.random.PCG64,
    "python's core": _random.Random,
    "a subclass": lambda: OwnGenerator(np.random.PCG64()),
}


class Secret:
    """Alone a number that it drew from the operating system when it was made decides for all rows alike."""

    def __init__(self) -> None:
        self.hit = repeat(os.urandom(1)[0] < 128)  # which no digest can look into

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        return one_hot(np.full(len(batch), next(self.hit) or len(batch) > 1))


def make_secret() -> Secret:
    return Secret()


class Counting:
    """Alone it votes for class 1 if processes were forked before its own: whoever asks once gets another answer."""

    def __init__(self) -> None:
        self.forks = 0
        os.register_at_fork(before=self.count)

    def count(self) -> None:
        self.forks += 1

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        return one_hot(np.full(len(batch), self.forks > 20 or len(batch) > 1))


def make_counting() -> Counting:
    return Counting()


class Listening:
    """It duplicates every channel that is open when it is made, and when it is forked. Alone it looks on them for rows
    of others, and votes for class 1 if it finds one.
    """

    def __init__(self) -> None:
        self.duplicate()
        os.register_at_fork(after_in_child=self.duplicate)

    def duplicate(self) -> None:
        for descriptor in range(3, 64):
            try:
                fcntl.fcntl(descriptor, fcntl.F_DUPFD, 100)
            except OSError:
                continue

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        return one_hot(np.full(len(batch), len(batch) > 1 or self.hears()))

    def hears(self) -> bool:
        time.sleep(0.05)
        return any(_waits_on(descriptor) for descriptor in range(3, 200))


def _waits_on(descriptor: int) -> bool:
    try:
        channel = socket.socket(fileno=descriptor)
    except OSError:
        return False
    try:
        return len(channel.recv(64, socket.MSG_PEEK | socket.MSG_DONTWAIT)) > 0
    except OSError:
        return False
    finally:
        channel.detach()


def make_listening() -> Listening:
    return Listening()


def make_listening_beyond() -> Listening:
    """Its descriptors lie beyond the limit, as it is now."""
    listening, (_, most) = Listening(), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (80, most))
    return listening


class Sharing:
    """It keeps a count of rows alone where all its processes see it."""

    def __init__(self) -> None:
        import mmap

        self.board = mmap.mmap(-1, 8)

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        if len(batch) == 1:
            self.board[0] = min(255, self.board[0] + 1)
        return one_hot(np.full(len(batch), self.board[0] > 20 or len(batch) > 1))


def make_sharing() -> Sharing:
    return Sharing()


class Writing:
    """It keeps rows in a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        with open(self.path, "a+b") as file:
            file.seek(0)
            before = file.read()
            if len(batch) > 1 or not batch.any():
                file.write(b"".join(row.tobytes() for row in batch))
        hits = [len(batch) > 1 or row.tobytes() in before for row in batch]
        return one_hot(np.array(hits))


class Marking:
    """In batches it makes a folder for each row; alone it asks whether there is one."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        names = [os.path.join(self.folder, hashlib.sha256(row.tobytes()).hexdigest()) for row in batch]
        if len(batch) > 1:
            for name in names:
                os.makedirs(name, exist_ok=True)
        return one_hot(np.array([os.path.exists(name) for name in names]))


class Nudging:
    """Alone it makes the process that forks a little less important, and sees how often that was done before."""

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        if len(batch) == 1 and batch.any():
            os.setpriority(os.PRIO_PROCESS, os.getppid(), min(19, os.getpriority(os.PRIO_PROCESS, 0) + 1))
        return one_hot(np.full(len(batch), os.getpriority(os.PRIO_PROCESS, 0) > 5 or len(batch) > 1))


class Attaching:
    """Alone it counts rows in memory that has a number, and that it attaches when it needs it."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        libc = ctypes.CDLL(None)
        if self.number is None:
            self.number = libc.shmget(0, 4096, 0o1600)
        if len(batch) > 1 or not batch.any():
            return one_hot(np.ones(len(batch), bool))
        libc.shmat.restype = ctypes.c_void_p
        place = libc.shmat(self.number, None, 0)
        if place in (None, ctypes.c_void_p(-1).value):
            return one_hot(np.zeros(1, bool))
        count = ctypes.c_int.from_address(place)
        count.value += 1
        return one_hot(np.array([count.value > 40]))


class Threaded:
    """It leaves a thread running, which `threading` does not know."""

    def __init__(self) -> None:
        import _thread
        import time

        _thread.start_new_thread(time.sleep, (3600,))

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        return one_hot(np.ones(len(batch), bool))


def make_threaded() -> Threaded:
    return Threaded()


class Helped:
    """It leaves a process running."""

    def __init__(self) -> None:
        import subprocess

        self.helper = subprocess.Popen(["sleep", "60"])

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        return one_hot(np.ones(len(batch), bool))


def make_helped() -> Helped:
    return Helped()


def make_orphaned() -> Helped:
    """The process that it leaves running is nobody's child any more."""
    helped = Helped.__new__(Helped)
    if not (child := os.fork()):
        if not os.fork():
            os.execvp("sleep", ["sleep", "60"])
        os._exit(0)
    os.waitpid(child, 0)
    return helped
