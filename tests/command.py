"""The command line as the tests call it: in their own process, or as words for a process that is to be signalled."""

import contextlib
import importlib
import io
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest

from soundsmooth.cli.main import main

#: Python, told to run `soundsmooth`. The command's words come next.
PROCESS = (sys.executable, "-c", "from soundsmooth.cli.main import main; main()")


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str


def run_command(
    *words: object, code: int | None = 0, folder: Path | None = None, env: Mapping[str, str] | None = None
) -> Done:
    """Run `soundsmooth WORDS` in this process, as if started in the folder. None: any exit code will do."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with (
        left_as_it_was(),
        _started_in(folder or Path.cwd()),
        patch.object(sys, "argv", ["soundsmooth", *map(str, words)]),
        patch.dict("os.environ", {"COLUMNS": "80", **(env or {})}),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        found = _exit_code()
    done = Done(found, *map(_text, (out, err)))
    assert code in (None, done.code), done.stderr + done.stdout
    return done


def error_of(*words: object, folder: Path | None = None, quiet: bool = True) -> str:
    """The one line that explains what is wrong; exit code 2 and nothing on standard output."""
    done = run_command(*words, code=2, folder=folder)
    assert done.stdout == "" or not quiet
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert "Traceback" not in done.stderr
    return lines[0]


def heed_interrupts() -> None:
    """For a process's start: where the tests themselves run in the background of a shell, SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def left_as_it_was() -> Iterator[None]:
    """The command line owns its process. Here it is a guest."""
    before, path, threads = signal.getsignal(signal.SIGTERM), list(sys.path), _torch_threads()
    try:
        with warnings.catch_warnings():
            _filter_warnings_as_python_does()
            yield
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.path[:] = path
        if threads is not None:
            sys.modules["torch"].set_num_threads(threads)


def _exit_code() -> int:
    """What the command line ends with, which it always says."""
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@contextmanager
def _started_in(folder: Path) -> Iterator[None]:
    """Modules of the folder are imported anew each time: the next test's are others, under the same names."""
    importlib.invalidate_caches()
    before = set(sys.modules)
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        for name in set(sys.modules) - before:
            if _lies_in(folder, sys.modules[name]):
                del sys.modules[name]


def _lies_in(folder: Path, module: object) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and Path(os.path.abspath(file)).parent == Path(os.path.abspath(folder))


def _filter_warnings_as_python_does() -> None:
    """pytest shows more warnings than a person sees."""
    warnings.resetwarnings()
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)


def _torch_threads() -> int | None:
    return sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]
