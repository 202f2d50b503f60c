"""Runs that an earlier program kept: whole ones are read, exported and audited alike, half-finished ones continued."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from golden.surface import (
    DATA,
    audit,
    command,
    exported,
    filled,
    golden,
    needs_golden_torch,
    numbers_shown,
    parquet_rows,
    rows,
)

WHOLE = pytest.mark.parametrize("case", golden("whole.json"), ids=lambda case: case["run"])
HALF = pytest.mark.parametrize("case", golden("half.json"), ids=lambda case: case["run"])


def a_copy(case: dict[str, Any], folder: Path) -> Path:
    return Path(shutil.copyfile(DATA / case["run"], folder / case["run"]))


@WHOLE
def test_a_whole_run_is_shown_and_exported_alike(case: dict[str, Any], tmp_path: Path) -> None:
    run, name = a_copy(case, tmp_path), Path(case["run"]).stem
    done = command("runs", "show", run, "--verbose")
    assert done.code == 0, done.stderr
    assert numbers_shown(done.stdout) == case["shown"]
    for suffix in ("tsv", "csv", "jsonl"):
        to = tmp_path / f"out.{suffix}"
        assert command("runs", "export", run, "--to", to).code == 0
        assert to.read_bytes() == (DATA / f"{name}.{suffix}").read_bytes()
    assert command("runs", "export", run, "--to", tmp_path / "out.parquet").code == 0
    assert parquet_rows(tmp_path / "out.parquet") == case["parquet"]
    assert run.read_bytes() == (DATA / case["run"]).read_bytes()  # who only reads does not write


@WHOLE
def test_a_whole_run_is_audited_alike(case: dict[str, Any], tmp_path: Path) -> None:
    run = a_copy(case, tmp_path)
    for each in case["audits"]:
        code, found = audit(run, *filled(each["arguments"]))
        assert found == each["result"]
        assert code == each["code"]


@WHOLE
def test_the_same_command_makes_the_same_run(case: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "again.db"
    assert command(*filled(case["command"]), "--out", run).code == case["code"]
    assert exported(run, tmp_path / "again.jsonl") == case["certificates"]
    assert _votes(run) == _votes(DATA / case["run"])
    assert _timeless(run, "images", 6) == _timeless(DATA / case["run"], "images", 6)  # attempts and errors too
    assert _timeless(run, "alone", 3) == _timeless(DATA / case["run"], "alone", 3)


def _votes(run: Path) -> list[tuple[Any, ...]]:
    return _timeless(run, "blocks", 6)


def _timeless(run: Path, table: str, columns: int) -> list[tuple[Any, ...]]:
    """The first columns; after them come software and times."""
    return sorted((row[:columns] for row in rows(run, table)), key=repr)


@HALF
def test_a_half_finished_run_is_continued(case: dict[str, Any], tmp_path: Path) -> None:
    """To the certificates of one that was never stopped; and what was stored stays as it was, byte for byte."""
    needs_golden_torch(case["command"][1])
    run = a_copy(case, tmp_path)
    tables = ("run", "blocks", "alone", "certificates", "environments")
    before = {table: rows(run, table) for table in tables}
    assert 0 < len(before["blocks"]) < 22 * len(case["certificates"])
    done = command(*filled(case["command"]), "--out", run)
    assert done.code == 0, done.stderr
    assert exported(run, tmp_path / "run.jsonl") == case["certificates"]
    for table in tables:
        after = rows(run, table)
        assert [row for row in before[table] if row not in after] == [], table
    assert len(rows(run, "blocks")) == 22 * len(case["certificates"])
    code, found = audit(run, *filled(case["audit"]["arguments"]))
    found.pop("content")
    assert found == case["audit"]["result"]
    assert code == 0
    assert not rows(run, "claims")
