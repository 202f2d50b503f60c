"""Let several measurements prepare at once, and take their turns when all are ready.

    python experiments/performance/turns.py LOGS --seconds 500 "python one.py --turns" "python other.py --turns"

What is measured must be alone on the machine; tuning and compiling need not be. A command with the option `--turns`
calls `wait_for_turn` when it is ready. It goes on when no other command prepares or measures. One that is not ready
after `--ready` seconds is ended, and so is one that has not finished after `--seconds`. What commands print goes to
files in LOGS.
"""

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Condition, Lock, Thread, Timer

READY = "ready for its turn"


def wait_for_turn() -> None:
    """In a command: until no other one is at work."""
    print(READY, flush=True)
    sys.stdin.readline()


class Turns:
    """Who prepares, and who measures."""

    def __init__(self, count: int) -> None:
        self._preparing, self._changed, self.measuring = count, Condition(), Lock()

    def prepared(self) -> None:
        """One less prepares: it is ready, or has ended."""
        with self._changed:
            self._preparing -= 1
            self._changed.notify_all()

    def wait_for_all(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._preparing <= 0)


def run_in_turns(
    commands: Mapping[str, Sequence[str]],
    logs: Path,
    ready: float,
    seconds: float,
    say: Callable[[str], object] = print,
) -> dict[str, str]:
    """Run all commands; how each ended, by its name."""
    turns, ended = Turns(len(commands)), dict[str, str]()
    logs.mkdir(parents=True, exist_ok=True)

    def run(name: str, command: Sequence[str]) -> None:
        ended[name] = _in_turn(command, logs / f"{name}.log", turns, ready, seconds)
        say(f"{name}: {ended[name]}")

    threads = [Thread(target=run, args=each) for each in commands.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


def _in_turn(command: Sequence[str], log: Path, turns: Turns, ready: float, seconds: float) -> str:
    start, why, turn = time.monotonic(), list[str](), False
    with log.open("w") as file:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True)
        timers = [_end_after(process, late, said, why) for late, said in ((ready, "not ready"), (seconds, "too slow"))]
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            file.flush()
            if line.strip() == READY and not turn:
                turn, prepared = True, time.monotonic() - start
                timers[0].cancel()
                turns.prepared()
                turns.wait_for_all()
                turns.measuring.acquire()
                with suppress(BrokenPipeError):
                    process.stdin.write("go\n")
                    process.stdin.flush()
        code = process.wait()
    for timer in timers:
        timer.cancel()
    if turn:
        turns.measuring.release()
    else:
        turns.prepared()
    took = f"{time.monotonic() - start:.0f} s" + (f", ready after {prepared:.0f} s" if turn else "")
    return took if code == 0 else f"failed after {took} ({why[0] if why else f'code {code}'}), see {log.name}"


def _end_after(process: "subprocess.Popen[str]", seconds: float, said: str, why: list[str]) -> Timer:
    def end() -> None:
        why.append(said)
        process.kill()

    timer = Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path)
    parser.add_argument("commands", nargs="+", type=shlex.split)
    parser.add_argument("--ready", type=float, default=300)
    parser.add_argument("--seconds", type=float, default=560)
    asked = parser.parse_args()
    names = {f"{place}": command for place, command in enumerate(asked.commands, 1)}
    ended = run_in_turns(names, asked.logs, asked.ready, asked.seconds)
    sys.exit(any(each.startswith("failed") for each in ended.values()))


if __name__ == "__main__":
    main()
