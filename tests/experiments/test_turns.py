"""Measurements that prepare at once and take turns: which one runs when, and how each ended."""

import sys
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


def test_one_at_a_time_measures_and_the_others_stand_still(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    """The processes of another command are stopped too. Its ticks go on when the measurement has ended."""
    tick = f"open({str(notes)!r}, 'a').write('tick\\n')"
    child = f"import time\nfor _ in range(30): time.sleep(0.06); {tick}"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    commands = {"other": [sys.executable, "-c", parent]}
    commands |= {name: measures(notes, name, seconds) for name, seconds in (("late", 0.8), ("soon", 0.4))}
    ended = turns.run_in_turns(commands, tmp_path, 60)
    lines = notes.read_text().splitlines()
    for name in ("soon", "late"):
        first, last = lines.index(f"begins {name}"), lines.index(f"ends {name}")
        assert last == first + 1
    assert lines.index("ends soon") < lines.index("begins late")
    assert lines.count("tick") == 30
    assert all("failed" not in each for each in ended.values())
    assert "ready after" in ended["soon"]
    assert "ready after" not in ended["other"]


def test_so_many_commands_are_at_work(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    commands = {name: measures(notes, name, 0.2) for name in ("one", "two", "three")}
    turns.run_in_turns(commands, tmp_path, 60, together=1)
    assert notes.read_text().split() == [
        f"{each}" for name in commands for what in ("ready", "begins", "ends") for each in (what, name)
    ]


def test_one_that_fails_holds_nobody_up(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    commands = {
        "broken": [sys.executable, "-c", "print('a line'); raise SystemExit(3)"],
        "missing": ["no-such-program"],
        "good": measures(notes, "good"),
    }
    said: list[str] = []
    ended = turns.run_in_turns(commands, tmp_path, 60, say=said.append)
    assert ended["broken"].startswith("failed after")
    assert ended["broken"].endswith("(code 3), see broken.log")
    assert ended["missing"].startswith("failed to start: ")
    assert "failed" not in ended["good"]
    assert notes.read_text().splitlines() == ["ready good", "begins good", "ends good"]
    assert (tmp_path / "broken.log").read_text() == "a line\n"
    assert len(said) == 3


def test_what_is_not_finished_in_time_is_ended(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    """One that measures, one that stands still, and one that would come next."""
    *python, code = measures(notes, "endless")
    commands = {
        "endless": [*python, code.replace("sleep(0.2)", "sleep(60)")],
        "stopped": measures(notes, "stopped", 60),
        "next": measures(notes, "next"),
    }
    ended = turns.run_in_turns(commands, tmp_path, 3, together=2)
    assert "(too slow)" in ended["endless"]
    assert "(too slow)" in ended["stopped"]
    assert ended["next"] == "failed: no time was left"
    assert notes.read_text().splitlines() == ["ready endless", "begins endless"]
