"""How much of α the bounds with looks use: the stored figures, and a few of them again."""

import json
from pathlib import Path

import pytest

from scripts import script
from soundsmooth.exact import boundaries

DOCS = Path(__file__).parents[2] / "docs"
STORED = json.loads((DOCS / "data" / "looks_levels.json").read_text(encoding="utf-8"))
ROWS = [row for rows in STORED["sigmas"].values() for row in rows]


def test_no_bound_uses_more_than_alpha_and_set_radii_use_nearly_all() -> None:
    assert all(0 < row[name] <= 1 for row in ROWS for name in ("a", "b", "a_near"))
    assert all(row["b"] >= row["a"] for row in ROWS)
    assert min(row["b"] for row in ROWS if row["in_sigmas"] <= 2.5) > 0.96
    assert max(used for _, used in STORED["a_grid"]) <= STORED["a_most"] < 0.651


def test_the_table_of_the_docs_is_the_stored_one() -> None:
    """Truncated to three digits, by r/σ."""
    text = (DOCS / "looks.md").read_text(encoding="utf-8")
    for name in ("a", "b"):
        used = {row["in_sigmas"]: row[name] for row in ROWS}
        cells = " | ".join(f".{int(1000 * used[at]):03}" for at in sorted(used))
        assert f'| ({name}), "R > r" | {cells} |' in text


@pytest.mark.parametrize("row", [ROWS[0], ROWS[-1]], ids=lambda row: row["radius"])
def test_the_figures_are_what_the_script_computes(row: dict[str, object]) -> None:
    levels, p = script("looks/levels.py"), float.fromhex(str(row["threshold"]))
    assert STORED["looks"] == list(levels.LOOKS)
    assert round(levels.share(p, boundaries(p, levels.LOOKS, levels.LEVELS)), levels.DIGITS) == row["b"]
    assert round(levels.share_alone(p), levels.DIGITS) == row["a"]
