"""Measurements that prepare at once and take turns: which one runs when, and how each ended."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

from scripts import EXPERIMENTS, script

#: Prepares, waits for its turn, and writes down when it began and ended.
MEASURES = """
import sys, time
sys.path.insert(0, {folder!r})
from turns import wait_for_turn
def note(what):
    with open({notes!r}, "a") as file:
        file.write(what + " {name}\\n")
time.sleep({seconds})
note("ready")
wait_for_turn()
note("begins")
time.sleep(0.2)
note("ends")
"""


STEPS = ("ready", "begins", "ends")


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    found = script("performance/turns.py")
    monkeypatch.setattr(found, "QUIET", 0.1)
    return found


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def measures(notes: Path, name: str, seconds: float = 0) -> list[str]:
    folder = str(EXPERIMENTS / "performance")
    return [sys.executable, "-c", MEASURES.format(folder=folder, notes=str(notes), name=name, seconds=seconds)]


def begun_and_ended(notes: Path) -> list[str]:
    return [line for line in notes.read_text().splitlines() if line.split()[0] in ("begins", "ends")]


def test_one_at_a_time_measures(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    """All are ready at once. In whatever order they come, each ends before the next one begins."""
    names = ("one", "two", "three")
    ended = turns.run_in_turns({name: measures(notes, name) for name in names}, tmp_path, 60)
    lines = begun_and_ended(notes)
    assert sorted(lines[::2]) == sorted(f"begins {name}" for name in names)
    assert lines[1::2] == [line.replace("begins", "ends") for line in lines[::2]]
    assert all("ready after" in each and "failed" not in each for each in ended.values())


def test_the_others_stand_still(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    """The processes of another command too, which go on afterwards, and a command that starts meanwhile."""
    ticks = f"import time\nfor _ in range(20): time.sleep(0.05); open({str(notes)!r}, 'a').write('tick\\n')"
    parent = [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ticks!r}])"]
    brief = [sys.executable, "-c", "pass"]  # its place is free when another one measures
    commands = {"brief": brief, "one": measures(notes, "one"), "other": parent, "later": parent}
    ended = turns.run_in_turns(commands, tmp_path, 60, together=3)
    lines = notes.read_text().splitlines()
    assert lines.index("ends one") == lines.index("begins one") + 1
    assert lines.count("tick") == 40
    assert all("failed" not in each for each in ended.values())


def test_a_command_that_starts_within_a_turn_is_stopped(turns: ModuleType) -> None:
    found, idle = turns.Turns(), [sys.executable, "-c", "import time; time.sleep(60)"]
    with found.started(idle) as first:
        found.take(first)
        with found.started(idle) as second:
            assert state_of(second.pid, "T")
            assert not state_of(first.pid, "T", 0)
        found.take(first)  # it has its turn
    assert first.returncode == second.returncode == -9


def test_a_turn_ends_with_its_command(turns: ModuleType) -> None:
    """Another one that is ready waits until then, and one that ends while it waits gets none."""
    found, idle, taken = turns.Turns(), [sys.executable, "-c", "import time; time.sleep(60)"], list[str]()

    def take(process: object, name: str) -> threading.Thread:
        thread = threading.Thread(target=lambda: (found.take(process), taken.append(name)))
        thread.start()
        return thread

    with found.started(idle) as second:
        with found.started(idle) as first:
            found.take(first)
            waits = take(second, "second")
            with found.started(idle) as gone:
                gives_up = take(gone, "gone")
            gives_up.join(20)
            assert taken == ["gone"]
            assert found._alone is first
        waits.join(20)
        assert taken == ["gone", "second"]
        assert found._alone is second
        assert not state_of(second.pid, "T", 0)


def test_nothing_is_left_of_a_command(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    """A process that it has left behind keeps its output open, and nobody waits for it."""
    leaves = (
        "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)"
    )
    commands = {"leaves": [sys.executable, "-c", leaves], "good": measures(notes, "good")}
    start = time.monotonic()
    ended = turns.run_in_turns(commands, tmp_path, 50)
    assert time.monotonic() - start < 40
    assert all("failed" not in each for each in ended.values())
    assert state_of(int((tmp_path / "leaves.log").read_text()), None)


def state_of(number: int, wanted: str | None, seconds: float = 20) -> bool:
    """Whether a process gets into a state, or is gone (None), in so many seconds."""
    end = time.monotonic() + seconds
    while True:
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            state = None
        if state == wanted or (wanted is None and state == "Z"):  # nobody may be there to bury it
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(0.02)


def test_so_many_commands_are_at_work(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    commands = {name: measures(notes, name) for name in ("one", "two")}
    turns.run_in_turns(commands, tmp_path, 60, together=1)
    assert notes.read_text().splitlines() == [f"{what} {name}" for name in commands for what in STEPS]


def test_one_that_fails_holds_nobody_up(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    commands = {
        "broken": [sys.executable, "-c", "import os; os.write(1, b'a line \\xff\\n'); raise SystemExit(3)"],
        "missing": ["no-such-program"],
        "good": measures(notes, "good"),
    }
    said: list[str] = []
    ended = turns.run_in_turns(commands, tmp_path, 60, say=said.append)
    assert ended["broken"].startswith("failed after")
    assert ended["broken"].endswith("(code 3), see broken.log")
    assert ended["missing"].startswith("failed: ")
    assert "failed" not in ended["good"]
    assert notes.read_text().splitlines() == ["ready good", "begins good", "ends good"]
    assert (tmp_path / "broken.log").read_text() == "a line \ufffd\n"
    assert len(said) == 3


def test_what_is_not_finished_in_time_is_ended(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    """One that measures, one that stands still, and one that would come next."""
    *python, code = measures(notes, "endless")
    commands = {
        "endless": [*python, code.replace("sleep(0.2)", "sleep(60)")],
        "stopped": [sys.executable, "-c", "import time; time.sleep(60)"],
        "next": measures(notes, "next"),
    }
    ended = turns.run_in_turns(commands, tmp_path, 3, together=2)
    assert "(too slow)" in ended["endless"]
    assert "(too slow)" in ended["stopped"]
    assert ended["next"] == "failed: no time was left"
    assert "ends endless" not in notes.read_text()


def test_who_has_the_turn_may_ask_again(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    """As a script does that measures several things one after the other."""
    *python, code = measures(notes, "twice")
    again = code.replace("wait_for_turn()\nnote", "wait_for_turn()\nwait_for_turn()\nnote")
    assert again != code
    ended = turns.run_in_turns({"twice": [*python, again]}, tmp_path, 60)
    assert "failed" not in ended["twice"]


@pytest.mark.parametrize("what", [signal.SIGTERM, signal.SIGINT])
def test_all_end_when_it_is_told_to_end(what: signal.Signals, tmp_path: Path) -> None:
    idle = f"{sys.executable} -c 'import os, time; print(os.getpid(), flush=True); time.sleep(60)'"
    program = [sys.executable, str(EXPERIMENTS / "performance" / "turns.py"), str(tmp_path / "logs"), idle]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        log, end = tmp_path / "logs" / "1.log", time.monotonic() + 30
        while not (log.exists() and log.read_text().endswith("\n")) and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(what)
        assert process.wait(30) != 0
    assert state_of(int(log.read_text()), None)
