"""What a run's screen says when the run is not finished, has no labels, or comes from an earlier version."""

import sqlite3
from contextlib import closing
from fractions import Fraction
from io import StringIO
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import soundsmooth as ss
from classifiers import brightness_of_three
from command import run_command
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import settings
from soundsmooth.cli.screens import show_accuracy
from soundsmooth.runs.information import names_of
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import plan_run
from soundsmooth.runs.pools import LocalPool

#: At the first two p is above 0.95: selection misses it with probability below 1e-7, estimation never in practice.
LEVELS = (10, 20, 120, 220, 230)


def begun(path: Path, finished: int, labels: list[int | None]) -> Path:
    """A run of five images, of which some are finished."""
    levels = tuple(np.full((2, 2), level, np.int16) for level in LEVELS)
    smooth = ss.Smoother(brightness_of_three, "0.5", independence="assumed", batch_size=20)
    plan = plan_run(LocalPool(smooth.smoothing), Inputs(range(5), levels, labels), settings(20, 200), secret("s"))
    with open_store(path, plan, names=names_of("m[/x].onnx", "d\x1b[2J.npz")) as store:
        issued = certify_into(store, plan)
        assert len(list(islice(issued, finished))) == finished
        issued.close()
    return path


def shown(path: Path, *more: object) -> str:
    return run_command("runs", "show", path, *more).stdout


def test_accuracy_so_far_stands_beside_the_bound_for_all(tmp_path: Path) -> None:
    """Two of two are right, which is no less than 0.400 of five."""
    text = shown(begun(tmp_path / "run.db", 2, [0, 0, 0, 1, 1]))
    assert "5 images: 2 certified, 0 abstained, 3 to do\n" in text
    assert "accuracy   1.000 of 2 so far; at least 0.400 of all 5, where images to do count as wrong\n" in text
    assert "clean      counted at the end, when every image is finished\n" in text
    assert "of 2 done so far" in text
    assert "of all 5, at least" in text
    (first,) = (line for line in text.splitlines() if line.startswith("│ 0.00"))
    assert first.split()[1::2] == ["0.00", "1.000", "0.400"]
    assert "last write 20" in text
    assert "finished   20" not in text


def test_a_run_of_which_nothing_is_finished(tmp_path: Path) -> None:
    text = shown(begun(tmp_path / "run.db", 0, [0, 0, 0, 1, 1]))
    assert "accuracy   at least 0.000 of all 5, where images to do count as wrong\n" in text
    assert "certified accuracy" not in text


def test_names_are_no_markup_and_no_commands(tmp_path: Path) -> None:
    text = shown(begun(tmp_path / "run.db", 1, [0, 0, 0, 1, 1]))
    assert "model      m[/x].onnx\n" in text
    assert "data       d\\x1b[2J.npz\n" in text


def test_without_labels_there_is_no_accuracy(tmp_path: Path) -> None:
    text = shown(begun(tmp_path / "run.db", 5, [None] * 5))
    assert "accuracy" not in text
    assert "clean" not in text


def test_a_run_of_an_earlier_version_says_what_it_knows(tmp_path: Path) -> None:
    path = begun(tmp_path / "run.db", 5, [0, 0, 0, 1, 1])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM run WHERE name IN ('model file', 'data file', 'written', 'clean')")
        db.execute("UPDATE run SET value = 'long ago' WHERE name = 'begun'")
    text = shown(path)
    assert "model      not recorded\n" in text
    assert "begun      long ago\n" in text
    assert "clean      not counted\n" in text


@pytest.mark.parametrize("width", [80, 120])
def test_every_line_fits_on_the_screen(width: int, tmp_path: Path) -> None:
    run = begun(tmp_path / "run.db", 2, [0, 0, 0, 1, 1])
    text = run_command("runs", "show", run, env={"COLUMNS": str(width)}).stdout
    assert max(map(len, (line for line in text.splitlines() if "│" in line))) <= width


def test_a_share_is_never_rounded_up() -> None:
    console = Console(file=StringIO(), width=80)
    show_accuracy(console, {"share": {Fraction(1, 2): Fraction(2, 3)}})
    assert "0.666" in console.file.getvalue()  # type: ignore[attr-defined]
