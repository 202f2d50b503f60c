"""The Python examples of the documentation run as they stand."""

import re
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from soundsmooth import embedded

ROOT = Path(__file__).parents[1]


def examples(page: str) -> list[str]:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    return blocks


def test_python_examples_run() -> None:
    for block in examples("README.md"):
        names: dict[str, object] = {}
        exec(block, names)
        assert names["certificate"].label == 1  # type: ignore[attr-defined]


def test_the_page_on_audits_names_the_line_that_prints_the_commitment() -> None:
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    step = re.search(r"\*\*1\. .*\n\n((?:    .*\n)+)\nThe (\w+) line, `(\w+)`, prints C", page)
    assert step is not None
    line = step[1].splitlines()[["first", "second", "third"].index(step[2])]
    assert line.split()[:2] == ["soundsmooth", step[3]] == ["soundsmooth", "commit"]


@pytest.mark.slow("runs programs of the documentation")
def test_a_run_from_python_is_begun_and_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(embedded.MODELS[Fraction(1, 4)], "model.onnx")
    with np.load(embedded.IMAGES) as held:
        np.savez("data.npz", x=held["x"][:2], y=held["y"][:2])
    (block,) = examples("docs/runs.md")
    for _ in range(2):
        names: dict[str, object] = {}
        exec(block, names)
        assert names["certificate"].index == 1  # type: ignore[attr-defined]
