"""Let several measurements prepare at once, and measure one at a time, alone on the machine.

    python experiments/performance/turns.py LOGS --seconds 500 "python one.py --turns" "python other.py --turns"

What is measured must be alone; tuning and compiling need not be. A command with the option `--turns` calls
`wait_for_turn` when it is ready. Then it has its turn until it ends, and all others are stopped meanwhile. At most
`--together` commands are at work; the next one starts when one has ended. What is not finished after `--seconds` is
ended, and so is everything when this program is told to end. What commands print goes to files in LOGS.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Condition, Semaphore, Thread, Timer
from typing import IO, Any

READY = "ready for its turn"
#: Seconds until what the others have queued on a GPU is done.
QUIET = 1.0

Process = subprocess.Popen[str]


def add_turns(parser: argparse.ArgumentParser) -> None:
    """The option of a command that can wait for its turn."""
    parser.add_argument("--turns", action="store_true", help="wait for one's turn when all is ready: turns.py")


def wait_for_turn() -> None:
    """In a command: until the others are stopped. Who has the turn keeps it, and may wait again."""
    print(READY, flush=True)
    sys.stdin.readline()


class Turns:
    """The commands at work, and the one that has its turn. Each has a process group, for its own processes.

    Guarantee: while one has its turn, the processes of all others are stopped. A command that has ended leaves none.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._at_work: set[Process] = set()
        self._alone: Process | None = None

    @contextmanager
    def started(self, command: Sequence[str], **pipes: Any) -> Iterator[Process]:
        """The command at work. Its number is not given away before all of its processes have got their signals."""
        with self._changed:
            process: Process = subprocess.Popen(command, start_new_session=True, **pipes)
            self._at_work.add(process)
            if self._alone is not None:
                send(process, signal.SIGSTOP)
        try:
            yield process
        finally:
            with self._changed:
                send(process, signal.SIGKILL)
                self._at_work.discard(process)
                if self._alone is process:
                    self._let_go_on()
                self._changed.notify_all()
            process.wait()

    def take(self, process: Process) -> None:
        """Wait for the turn of this command, unless it has it, and stop the others; or until it has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._alone in (None, process) or process not in self._at_work)
            if process not in self._at_work or self._alone is process:
                return
            self._alone = process
            for other in self._at_work - {process}:
                send(other, signal.SIGSTOP)
        time.sleep(QUIET)

    def end(self, process: Process) -> bool:
        """End it now; False if it has ended."""
        with self._changed:
            if process in self._at_work:
                send(process, signal.SIGKILL)
            return process in self._at_work

    def end_all(self) -> None:
        with self._changed:
            for process in self._at_work:
                send(process, signal.SIGKILL)

    def _let_go_on(self) -> None:
        self._alone = None
        for each in self._at_work:
            send(each, signal.SIGCONT)


def send(process: Process, what: signal.Signals) -> None:
    """To all processes of the command."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, what)


def say_now(line: str) -> None:
    print(line, flush=True)


def run_in_turns(
    commands: Mapping[str, Sequence[str]],
    logs: Path,
    seconds: float,
    together: int | None = None,
    say: Callable[[str], object] = say_now,
) -> dict[str, str]:
    """Run all commands in so many seconds; how each ended, by its name."""
    turns, ended, places = Turns(), dict[str, str](), Semaphore(together or len(commands))
    end = time.monotonic() + seconds
    logs.mkdir(parents=True, exist_ok=True)

    def run(name: str, command: Sequence[str]) -> None:
        try:
            ended[name] = _in_turn(command, logs / f"{name}.log", turns, end)
        except Exception as error:  # there is no such program, or no room for its log
            ended[name] = f"failed: {error}"
        finally:
            places.release()
        say(f"{name}: {ended[name]}")

    threads = []
    try:
        for each in commands.items():
            places.acquire()
            threads.append(Thread(target=run, args=each))
            threads[-1].start()
        for thread in threads:
            thread.join()
    finally:
        turns.end_all()
    return ended


def _in_turn(command: Sequence[str], log: Path, turns: Turns, end: float) -> str:
    start, late, ready = time.monotonic(), list[bool](), list[float]()
    if start >= end:
        return "failed: no time was left"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "errors": "replace"}
    with log.open("w") as file:
        with turns.started(command, stderr=file, **pipes) as process:
            timer = Timer(end - start, lambda: late.append(turns.end(process)))
            reader = Thread(target=_copy, args=(process, file, turns, ready))
            for each in (timer, reader):
                each.daemon = True
                each.start()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        timer.cancel()
        reader.join()
    took = f"{time.monotonic() - start:.0f} s" + (f", ready after {ready[0] - start:.0f} s" if ready else "")
    code = process.returncode
    return took if code == 0 else f"failed after {took} ({'too slow' if any(late) else f'code {code}'}), see {log.name}"


def _copy(process: Process, file: IO[str], turns: Turns, ready: list[float]) -> None:
    """What the command prints, to its log; a line that says that it is ready is answered when its turn has come."""
    assert process.stdin is not None
    assert process.stdout is not None
    for line in process.stdout:
        file.write(line)
        file.flush()
        if line.strip() == READY:
            ready.append(time.monotonic())
            turns.take(process)
            with suppress(BrokenPipeError):
                process.stdin.write("go\n")
                process.stdin.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path)
    parser.add_argument("commands", nargs="+", type=shlex.split)
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--together", type=int, help="so many commands at work; all, if it is left out")
    asked = parser.parse_args()
    end_when_told()
    names = {f"{place}": command for place, command in enumerate(asked.commands, 1)}
    ended = run_in_turns(names, asked.logs, asked.seconds, asked.together)
    sys.exit(any(each.startswith("failed") for each in ended.values()))


def end_when_told() -> None:
    """End with all commands: nobody else would end or continue those that are stopped."""
    for what in (signal.SIGTERM, signal.SIGINT):
        signal.signal(what, lambda *_: sys.exit(1))


if __name__ == "__main__":
    main()
