"""The process of an untrusted model, seen from ours: it is started, asked, and not believed.

It is a fresh interpreter with an empty environment and no open file but two pipes. It may answer what it likes: answers
are plain bytes behind a fixed header, their sizes are bounded before they are read, and nothing is unpickled.
"""

import ctypes
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Timer
from typing import Any

from ..onnx_session import NotFrozenError
from . import program
from .frames import ERROR, HELLO, MOST_TEXT, NOT_FROZEN, Frame, read_exactly, read_header, write_frame

#: What the process runs.
PROGRAM = Path(program.__file__)
#: All that the process inherits of the environment: where shared libraries are.
KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT") + (("PATH",) if os.name == "nt" else ())
#: The runtime has threads of its own, other libraries need none there; and it keeps no log of what it is used for.
ADDED = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",
}


class RuntimeDied(ValueError):  # noqa: N818 (it is an answer about a model)
    """The process in which a model ran has ended."""


class SandboxProcess:
    """The other process: requests go in, answers come out, one at a time; after a bad answer it is ended for good."""

    def __init__(self, timeout: float) -> None:
        self._timeout, self._lock, self._owner = timeout, Lock(), os.getpid()
        self._ended: str | None = None
        self._late = Event()
        self.settled = False
        """Whether it has no folder any more in which another graph could be written."""
        self._folder = TemporaryDirectory(prefix="soundsmooth-", ignore_cleanup_errors=True)
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-B", str(PROGRAM), *_libraries()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._folder.name,
            env=sandbox_environment(),
            close_fds=True,
            start_new_session=True,  # no terminal, and Ctrl-C is for us
            bufsize=0,
            pipesize=1 << 20,
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._requests, self._answers = self._popen.stdin, self._popen.stdout
        self._finalizer = weakref.finalize(self, _end, self._popen, self._folder)
        _, said = self.ask(HELLO, b"", (), lambda frame: frame.kind == HELLO and frame.size <= MOST_TEXT)
        self.confined = said == b"confined"
        """Whether the kernel keeps it from files and other processes; said before it saw the model."""
        if not self.confined:
            hide_memory()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def ask(
        self, kind: int, content: Any, sizes: tuple[int, ...], expected: Callable[[Frame], bool]
    ) -> tuple[Frame, bytearray]:
        """The header and the bytes of the answer; the header must be as expected before the rest is read.

        What onnxruntime says there is a ValueError, or a NotFrozenError. After any other answer the process is ended.
        """
        frame, answer = self._exchange(kind, content, sizes, expected)
        if frame.kind == NOT_FROZEN:
            raise NotFrozenError(_plain_text(answer))
        if frame.kind == ERROR:
            raise ValueError(_plain_text(answer))
        return frame, answer

    def _exchange(
        self, kind: int, content: Any, sizes: tuple[int, ...], expected: Callable[[Frame], bool]
    ) -> tuple[Frame, bytearray]:
        if os.getpid() != self._owner:
            raise ValueError("an untrusted model belongs to the process that loaded it: load it again in this one")
        with self._lock:
            if self._ended is not None:
                raise RuntimeDied(f"the model's process was ended: {self._ended}")
            late = Timer(self._timeout, _kill, (self._popen, self._late))  # which keeps no model alive
            late.daemon = True
            late.start()
            try:
                write_frame(self._requests, kind, content, sizes)
                return self._answer(expected)
            except (EOFError, OSError):
                self.end(self._why())
                raise RuntimeDied(f"the runtime died on the model: {self._ended}") from None
            except ValueError as error:
                self.end(str(error))
                raise ValueError(f"the untrusted model failed: {self._ended}") from None
            except BaseException:  # Ctrl-C: what it still sends would be taken for the next answer
                self.end("it was interrupted")
                raise
            finally:
                late.cancel()

    def _answer(self, expected: Callable[[Frame], bool]) -> tuple[Frame, bytearray]:
        """The next frame, if it is an error or as expected."""
        frame = read_header(self._answers)
        is_error = frame.kind in (ERROR, NOT_FROZEN) and frame.size <= MOST_TEXT
        if not is_error and not expected(frame):
            raise ValueError(
                f"its answer is malformed or too large (kind {frame.kind}, shape {list(frame.sizes)}, "
                f"{frame.size} bytes)"
            )
        return frame, read_exactly(self._answers, bytearray(frame.size))

    def _why(self) -> str:
        if self._late.is_set():
            return f"no answer within {self._timeout:g} s (see timeout)"
        try:
            status = self._popen.wait(10)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        return (
            f"its process was killed by signal {-status}" if status < 0 else f"its process ended with status {status}"
        )

    def end(self, why: str) -> None:
        self._ended = self._ended or why
        self._finalizer()

    def forget_folder(self) -> None:
        """The folder was needed for the graphs that the runtime writes, and for nothing else."""
        self.settled = True
        self._folder.cleanup()


def _kill(popen: "subprocess.Popen[bytes]", late: Event) -> None:
    late.set()  # before it is seen to be dead
    popen.kill()


def _end(popen: "subprocess.Popen[bytes]", folder: "TemporaryDirectory[str]") -> None:
    popen.kill()
    popen.wait()
    for pipe in (popen.stdin, popen.stdout):
        if pipe is not None:
            pipe.close()
    folder.cleanup()


def sandbox_environment() -> dict[str, str]:
    """The other process's environment."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | ADDED


def hide_memory() -> bool:
    """Where Linux has no Landlock: keep other processes of the same user from reading this one's memory.

    They may neither trace it nor read it under /proc. It also cannot dump its core, and no debugger can attach.
    """
    if sys.platform != "linux":
        return False
    set_dumpable = 4
    return int(ctypes.CDLL(None).prctl(set_dumpable, 0, 0, 0, 0)) == 0


def _libraries() -> list[str]:
    """Where NumPy and onnxruntime lie for us, so that the other process takes the same ones."""
    homes = [spec.origin for name in ("numpy", "onnxruntime") if (spec := find_spec(name)) and spec.origin]
    return list(dict.fromkeys(str(Path(home).parents[1]) for home in homes))


def _plain_text(content: bytearray) -> str:
    """One line of what it said, without anything that a terminal would obey."""
    text = content.decode(errors="replace")
    return "".join(letter if letter.isprintable() else " " for letter in text).strip() or "no reason given"
