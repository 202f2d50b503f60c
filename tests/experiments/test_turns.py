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
def turns() -> ModuleType:
    return script("performance/turns.py")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def measures(notes: Path, name: str, seconds: float = 0) -> list[str]:
    folder = str(EXPERIMENTS / "performance")
    return [sys.executable, "-c", MEASURES.format(folder=folder, notes=str(notes), name=name, seconds=seconds)]


def test_all_prepare_and_then_one_at_a_time_measures_in_order(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    """One that takes no turns counts as preparing until it has ended."""
    commands = {"slow": measures(notes, "slow", 0.5), "quick": measures(notes, "quick")}
    commands |= {
        "no turn": [sys.executable, "-c", f"import time; time.sleep(1); open({str(notes)!r}, 'a').write('gone\\n')"]
    }
    ended = turns.run_in_turns(commands, tmp_path, 60, 60)
    lines = notes.read_text().splitlines()
    assert sorted(lines[:2]) == ["ready quick", "ready slow"]
    assert lines[2:] == ["gone", "begins slow", "ends slow", "begins quick", "ends quick"]
    assert all("failed" not in each for each in ended.values())
    assert "ready after" in ended["slow"]
    assert "ready after" not in ended["no turn"]


def test_one_that_fails_or_takes_too_long_holds_nobody_up(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    commands = {
        "broken": [sys.executable, "-c", "print('a line'); raise SystemExit(3)"],
        "missing": ["no-such-program"],
        "late": measures(notes, "late", 60),
        "good": measures(notes, "good"),
    }
    said: list[str] = []
    ended = turns.run_in_turns(commands, tmp_path, 3, 60, said.append)
    assert ended["broken"].startswith("failed after")
    assert ended["broken"].endswith("(code 3), see broken.log")
    assert ended["missing"].startswith("failed to start: ")
    assert "(not ready)" in ended["late"]
    assert "failed" not in ended["good"]
    assert notes.read_text().splitlines() == ["ready good", "begins good", "ends good"]
    assert (tmp_path / "broken.log").read_text() == "a line\n"
    assert len(said) == 4


def test_what_measures_too_long_is_ended(turns: ModuleType, tmp_path: Path, notes: Path) -> None:
    *python, code = measures(notes, "endless")
    ended = turns.run_in_turns({"endless": [*python, code.replace("sleep(0.2)", "sleep(60)")]}, tmp_path, 60, 3)
    assert "(too slow)" in ended["endless"]
    assert notes.read_text().splitlines() == ["ready endless", "begins endless"]
