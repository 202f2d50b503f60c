"""Scripts that take paths: all of them, or an explanation."""

import sys
from pathlib import Path

import pytest

from soundsmooth.lab.scripts.arguments import paths


def test_paths_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["script", "b", "a"])
    assert paths("", "first", "second") == [Path("b"), Path("a")]
    monkeypatch.setattr(sys, "argv", ["script", "b", "a", "c"])
    assert paths("", "first", "second...") == [Path("b"), Path("a"), Path("c")]


@pytest.mark.parametrize("arguments", [["a"], ["a", "b", "c"]])
def test_too_few_and_too_many_are_refused(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["script", *arguments])
    with pytest.raises(SystemExit, match="2"):
        paths("What it does.", "first", "second")
    assert "usage: script [-h] first second" in capsys.readouterr().err


def test_help_says_what_the_script_does(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["script", "--help"])
    with pytest.raises(SystemExit, match="0"):
        paths("What it does.\n\n    script FIRST", "first")
    assert "What it does.\n\n    script FIRST\n" in capsys.readouterr().out
