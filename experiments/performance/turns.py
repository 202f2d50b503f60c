"""Let several measurements prepare at once, and measure one at a time, alone on the machine.

    python experiments/performance/turns.py LOGS --seconds 500 "python one.py --turns" "python other.py --turns"

What is measured must be alone; tuning and compiling need not be. A command with the option `--turns` calls
`wait_for_turn` when it is ready. Then it has its turn until it ends, and all others are stopped meanwhile. At most
`--together` commands are at work; the next one starts when one has ended. What is not finished after `--seconds` is
ended. What commands print goes to files in LOGS.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock, Semaphore, Thread, Timer
from typing import IO

READY = "ready for its turn"
#: Seconds until what the others have queued on a GPU is done.
QUIET = 1.0

Process = subprocess.Popen[str]


def wait_for_turn() -> None:
    """In a command: until the others are stopped."""
    print(READY, flush=True)
    sys.stdin.readline()


class Turns:
    """The commands at work, and the one that has its turn. Each has a process group, for its own processes."""

    def __init__(self) -> None:
        self._turn, self._change = Lock(), Lock()
        self._at_work, self._alone = set[Process](), False

    @contextmanager
    def started(self, command: Sequence[str], log: IO[str]) -> Iterator[Process]:
        """The command at work. In the end none of its processes is left."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "text": True}
        with self._change:
            process: Process = subprocess.Popen(command, start_new_session=True, **pipes)
            self._at_work.add(process)
            if self._alone:
                send(process, signal.SIGSTOP)
        try:
            yield process
        finally:
            with self._change:
                self._at_work.discard(process)
            send(process, signal.SIGKILL)

    @contextmanager
    def turn(self, process: Process) -> Iterator[None]:
        """All others are stopped."""
        with self._turn:
            self._stop_others(process)
            try:
                time.sleep(QUIET)
                yield
            finally:
                self._let_go_on()

    def _stop_others(self, process: Process) -> None:
        with self._change:
            self._alone = True
            for other in self._at_work - {process}:
                send(other, signal.SIGSTOP)

    def _let_go_on(self) -> None:
        with self._change:
            self._alone = False
            for each in self._at_work:
                send(each, signal.SIGCONT)


def send(process: Process, what: signal.Signals) -> None:
    """To all processes of the command."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, what)


def run_in_turns(
    commands: Mapping[str, Sequence[str]],
    logs: Path,
    seconds: float,
    together: int | None = None,
    say: Callable[[str], object] = print,
) -> dict[str, str]:
    """Run all commands in so many seconds; how each ended, by its name."""
    turns, ended, places = Turns(), dict[str, str](), Semaphore(together or len(commands))
    end = time.monotonic() + seconds
    logs.mkdir(parents=True, exist_ok=True)

    def run(name: str, command: Sequence[str]) -> None:
        try:
            ended[name] = _in_turn(command, logs / f"{name}.log", turns, end)
        except OSError as error:
            ended[name] = f"failed to start: {error}"
        finally:
            places.release()
        say(f"{name}: {ended[name]}")

    threads = []
    for each in commands.items():
        places.acquire()
        threads.append(Thread(target=run, args=each))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return ended


def _in_turn(command: Sequence[str], log: Path, turns: Turns, end: float) -> str:
    start, late = time.monotonic(), list[bool]()
    if start >= end:
        return "failed: no time was left"
    prepared: float | None = None
    with log.open("w") as file, ExitStack() as alone, turns.started(command, file) as process:
        timer = Timer(end - start, lambda: (late.append(True), send(process, signal.SIGKILL)))
        timer.daemon = True
        timer.start()
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            file.flush()
            if line.strip() == READY and prepared is None:
                prepared = time.monotonic() - start
                alone.enter_context(turns.turn(process))
                with suppress(BrokenPipeError):
                    process.stdin.write("go\n")
                    process.stdin.flush()
        code = process.wait()
        timer.cancel()
    took = f"{time.monotonic() - start:.0f} s" + ("" if prepared is None else f", ready after {prepared:.0f} s")
    return took if code == 0 else f"failed after {took} ({'too slow' if late else f'code {code}'}), see {log.name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path)
    parser.add_argument("commands", nargs="+", type=shlex.split)
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--together", type=int, help="so many commands at work; all, if it is left out")
    asked = parser.parse_args()
    names = {f"{place}": command for place, command in enumerate(asked.commands, 1)}
    ended = run_in_turns(names, asked.logs, asked.seconds, asked.together)
    sys.exit(any(each.startswith("failed") for each in ended.values()))


if __name__ == "__main__":
    main()
