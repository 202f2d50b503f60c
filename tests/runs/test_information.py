"""What a run says for people: its form is checked, and nothing rests on it."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth.runs.information import MOST_CHARACTERS, names_of, read_information
from soundsmooth.runs.store import Store
from soundsmooth.verification import audit_file

IMAGES = np.stack([np.full((2, 2), level, np.uint8) for level in (40, 90, 220)])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "run.db"
    smooth = ss.Smoother(brightness_of_three, "0.5", independence="assumed", batch_size=20)
    smooth.certify_all(IMAGES, [0, 1, 1], out=path, n0=20, n=100, seed="s").close()
    return path


def changed(run: Path, to: Path, *statement: object) -> Path:
    to.write_bytes(run.read_bytes())
    with closing(sqlite3.connect(to)) as db, db:
        db.execute(*statement)  # type: ignore[arg-type]
    return to


def test_names_dates_and_clean_accuracy_are_kept(run: Path) -> None:
    with Store.read(run) as store:
        about = store.information
        assert (about.model, about.data) == ("classifiers.brightness_of_three", "numpy.ndarray")
        assert about.clean == Fraction(2, 3)
        assert about.written is not None
        assert datetime.fromisoformat(about.begun) <= about.written <= datetime.now(UTC)


def test_none_of_it_is_promised_and_an_audit_says_nothing_of_it(run: Path, tmp_path: Path) -> None:
    """Changed or taken away, it changes no verdict; older runs have none of it."""
    before = audit_file(run).to_dict()
    assert not before["refuted"]
    for number, statement in enumerate(
        ("UPDATE run SET value = 'another.onnx' WHERE name = 'model file'",
         "UPDATE run SET value = '3 of 3' WHERE name = 'clean'",
         "DELETE FROM run WHERE name IN ('model file', 'data file', 'written', 'clean')")
    ):  # fmt: skip
        after = audit_file(changed(run, tmp_path / f"{number}.db", statement)).to_dict()
        assert {**after, "content": "", "target": ""} == {**before, "content": "", "target": ""}
        assert after["content"] != before["content"]  # what was handed over is fixed all the same


@pytest.mark.parametrize(
    ("name", "value"),
    [("clean", "4 of 3"), ("clean", "2 of 4"), ("clean", "2.0 of 3"), ("clean", "-1 of 3"), ("clean", "02 of 3"),
     ("clean", "2 of 3\n"), ("clean", ""), ("written", "yesterday"), ("written", "2026-01-01"), ("written", ""),
     ("model file", "x" * (MOST_CHARACTERS + 1))],
)  # fmt: skip
def test_what_is_malformed_is_a_finding_and_damage(run: Path, tmp_path: Path, name: str, value: str) -> None:
    path = changed(run, tmp_path / "run.db", "UPDATE run SET value = ? WHERE name = ?", (value, name))
    assert audit_file(path).refuted
    with pytest.raises(ValueError, match="is damaged"):
        Store.read(path)


def test_a_name_is_what_the_user_gave() -> None:
    assert names_of("m.onnx", Path("d.npz")) == {"model file": "m.onnx", "data file": "d.npz"}
    assert names_of(brightness_of_three, [1])["model file"] == "classifiers.brightness_of_three"
    assert names_of("m", [1])["data file"] == "builtins.list"
    assert names_of("m", (each for each in [1]))["data file"] == "builtins.generator"


def test_a_name_can_always_be_kept() -> None:
    """A path may have bytes that are no text, and an object no short name."""
    odd = names_of("caf\udce9.onnx", "d" * 5000)
    assert odd["model file"] == "caf\\udce9.onnx"
    assert len(odd["data file"]) == MOST_CHARACTERS
    assert read_information(odd, "3").clean is None
