"""Let several measurements prepare at once, and take their turns when all are ready.

    python experiments/performance/turns.py LOGS --seconds 500 "python one.py --turns" "python other.py --turns"

What is measured must be alone on the machine; tuning and compiling need not be. A command with the option `--turns`
calls `wait_for_turn` when it is ready. It goes on when no other command prepares, and those before it have ended. One
that is not ready after `--ready` seconds is ended, and so is one that has not finished after `--seconds`. What commands
print goes to files in LOGS.
"""

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Condition, Thread, Timer

READY = "ready for its turn"


def wait_for_turn() -> None:
    """In a command: until no other one is at work."""
    print(READY, flush=True)
    sys.stdin.readline()


class Turns:
    """Who prepares, and who has ended."""

    def __init__(self, names: Iterable[str]) -> None:
        self._order = list(names)
        self._preparing, self._left, self._changed = set(self._order), set(self._order), Condition()

    def prepared(self, name: str) -> None:
        with self._changed:
            self._preparing.discard(name)
            self._changed.notify_all()

    def ended(self, name: str) -> None:
        with self._changed:
            self._preparing.discard(name)
            self._left.discard(name)
            self._changed.notify_all()

    def wait(self, name: str) -> None:
        """Until all are prepared, and those before this one have ended."""
        before = set(self._order[: self._order.index(name)])
        with self._changed:
            self._changed.wait_for(lambda: not self._preparing and not self._left & before)


def run_in_turns(
    commands: Mapping[str, Sequence[str]],
    logs: Path,
    ready: float,
    seconds: float,
    say: Callable[[str], object] = print,
) -> dict[str, str]:
    """Run all commands; how each ended, by its name."""
    turns, ended = Turns(commands), dict[str, str]()
    logs.mkdir(parents=True, exist_ok=True)

    def run(name: str, command: Sequence[str]) -> None:
        try:
            ended[name] = _in_turn(name, command, logs / f"{name}.log", turns, ready, seconds)
        except OSError as error:
            ended[name] = f"failed to start: {error}"
        finally:
            turns.ended(name)
        say(f"{name}: {ended[name]}")

    threads = [Thread(target=run, args=each) for each in commands.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


def _in_turn(name: str, command: Sequence[str], log: Path, turns: Turns, ready: float, seconds: float) -> str:
    start, why, prepared = time.monotonic(), list[str](), None
    with log.open("w") as file:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True)
        timers = [_end_after(process, late, said, why) for late, said in ((ready, "not ready"), (seconds, "too slow"))]
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            file.flush()
            if line.strip() == READY and prepared is None:
                prepared = time.monotonic() - start
                timers[0].cancel()
                turns.prepared(name)
                turns.wait(name)
                with suppress(BrokenPipeError):
                    process.stdin.write("go\n")
                    process.stdin.flush()
        code = process.wait()
    for timer in timers:
        timer.cancel()
    took = f"{time.monotonic() - start:.0f} s" + ("" if prepared is None else f", ready after {prepared:.0f} s")
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
