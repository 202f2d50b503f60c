"""docs/floats.md is executed: its python blocks run in order, in one namespace, with their asserts."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "floats.md"


def blocks() -> list[tuple[int, str]]:
    """Each python block with the number of its first line."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text[: block.start()].count("\n") + 2, block[1]) for block in found]


@pytest.mark.slow("runs every program of the page")
def test_every_block_runs() -> None:
    """What is random on the page samples identities that are theorems: a correct page cannot fail by chance."""
    names: dict[str, Any] = {}
    for line, source in blocks():
        exec(compile("\n" * (line - 1) + source, str(PAGE), "exec"), names)


def test_there_are_blocks_and_they_assert() -> None:
    assert len(blocks()) >= 15
    assert all("assert" in source for _, source in blocks())


def test_the_pictures_are_there_and_small() -> None:
    shown = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", PAGE.read_text(encoding="utf-8"))
    assert len(shown) == 3
    assert all((PAGE.parent / name).stat().st_size < 100_000 for name in shown)
