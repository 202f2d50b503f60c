"""Each golden command line ends with its golden exit code: what is refused, refuted, stopped or fine stays so."""

from pathlib import Path
from typing import Any

import pytest

from golden import scene
from golden.surface import command, filled, golden


def test_exit_codes_are_the_golden_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order: some read what earlier ones wrote."""
    monkeypatch.chdir(scene.set_up(tmp_path))
    cases: list[dict[str, Any]] = golden("commands.json")
    codes = {number: command(*filled(case["arguments"]), env=case["env"]).code for number, case in enumerate(cases)}
    wrong = [(" ".join(case["arguments"]), case["code"], codes[number]) for number, case in enumerate(cases)
             if codes[number] != case["code"]]  # fmt: skip
    assert wrong == []
    assert {case["code"] for case in cases} == {0, 1, 2, 3}
