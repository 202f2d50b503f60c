"""Work on numbered graphs in processes that may die.

A worker is a fork of a process that has everything imported and no session made. Before the runtime gets a graph the
worker writes it down in memory that both share; when the worker dies, the graph that killed it is there, and a new
worker goes on behind it.
"""

import mmap
import os
import pickle
import resource
import select
import signal
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

HEADER = struct.Struct("<qq16sq")
ROOM = 1 << 20
#: Seconds after which a worker that says nothing is ended.
PATIENCE = 20.0
#: Bytes that a worker may take beyond what it has at the start.
MEMORY = 3 << 30


class Slate:
    """What a worker is about to do, readable after its death."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, ROOM)
        self.write(-1, "", b"")

    def write(self, number: int, phase: str, model: bytes) -> None:
        kept = model[: ROOM - HEADER.size]
        self.memory[: HEADER.size] = HEADER.pack(number, 0, phase.encode(), len(kept))
        self.memory[HEADER.size : HEADER.size + len(kept)] = kept

    def read(self) -> tuple[int, str, bytes]:
        number, _, phase, length = HEADER.unpack(self.memory[: HEADER.size])
        return number, phase.rstrip(b"\0").decode(), bytes(self.memory[HEADER.size : HEADER.size + length])


@dataclass(frozen=True)
class Death:
    """A worker died of a graph."""

    number: int
    phase: str
    signal: str
    model: bytes


#: What is done with one number: it writes down what it does on the slate.
Work = Callable[[int, Slate], Any]


class Lane:
    """One worker after the other, through some numbers."""

    def __init__(self, work: Work, numbers: Iterable[int], patience: float = PATIENCE) -> None:
        self.patience = patience
        self.work, self.left = work, list(numbers)[::-1]
        self.slate = Slate()
        self.buffer = b""
        self.process = 0
        self.heard = time.monotonic()
        if self.left:
            self._start()

    def _start(self) -> None:
        read, write = os.pipe()
        self.slate.write(self.left[-1], "start", b"")
        self.process = os.fork()
        if self.process == 0:
            os.close(read)
            _serve(self.work, self.left[::-1], self.slate, write)
        os.close(write)
        self.pipe, self.buffer, self.heard = read, b"", time.monotonic()

    def fileno(self) -> int:
        return self.pipe

    def receive(self) -> Iterator[Any]:
        """What the worker has done; a Death if it ended before its work did."""
        got = os.read(self.pipe, 1 << 16)
        self.heard = time.monotonic()
        self.buffer += got
        while len(self.buffer) >= 8 and len(self.buffer) >= 8 + _length(self.buffer):
            length = _length(self.buffer)
            number, result = pickle.loads(self.buffer[8 : 8 + length])
            self.buffer = self.buffer[8 + length :]
            while self.left and self.left[-1] != number:
                self.left.pop()
            self.left.pop()
            yield result
        if not got:
            yield from self._ended()

    def _ended(self) -> Iterator[Death]:
        os.close(self.pipe)
        _, status = os.waitpid(self.process, 0)
        self.process = 0
        if not self.left:
            return
        number, phase, model = self.slate.read()
        name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status}"
        self.left.pop()
        if self.left:
            self._start()
        yield Death(number, phase, name, model)

    def check(self) -> None:
        """End a worker that has been silent for too long."""
        if self.process and time.monotonic() - self.heard > self.patience:
            os.kill(self.process, signal.SIGKILL)
            self.heard = time.monotonic()

    def stop(self) -> None:
        if self.process:
            os.kill(self.process, signal.SIGKILL)
            os.close(self.pipe)
            os.waitpid(self.process, 0)
            self.process = 0


def _length(buffer: bytes) -> int:
    return int.from_bytes(buffer[:8], "little")


def _serve(work: Work, numbers: list[int], slate: Slate, pipe: int) -> None:
    """A worker's life. It ends without the cleaning up of the process that it is a copy of."""
    try:
        _limit()
        for number in numbers:
            slate.write(number, "generate", b"")
            content = pickle.dumps((number, work(number, slate)))
            _write(pipe, len(content).to_bytes(8, "little") + content)
    except BrokenPipeError:
        pass
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(3)
    os._exit(0)


def _write(pipe: int, content: bytes) -> None:
    while content:
        content = content[os.write(pipe, content) :]


def _limit() -> None:
    """No core files; no more memory than small graphs need; silence, since the runtime says much before it dies."""
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not os.environ.get("FUZZ_LOUD"):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def results(work: Work, numbers: list[int], processes: int, patience: float = PATIENCE) -> Iterator[Any]:
    """The results of all numbers, in any order, with a Death for each number that killed its worker."""
    lanes = [Lane(work, numbers[start::processes], patience) for start in range(processes)]
    try:
        while any(lane.process for lane in lanes):
            ready, _, _ = select.select([lane for lane in lanes if lane.process], [], [], 1.0)
            for lane in ready:
                yield from lane.receive()
            for lane in lanes:
                lane.check()
    finally:
        for lane in lanes:
            lane.stop()
