"""The stored runs with looks: their certificates follow from their votes, and the docs' tables from the runs."""

import json
from pathlib import Path

import pytest

from scripts import script
from soundsmooth import open_run, verify

measured = script("looks/measured.py")
DOCS = Path(__file__).parents[2] / "docs"
STORED = json.loads((DOCS / "data" / "looks_measured.json").read_text(encoding="utf-8"))
SECONDS = json.loads((DOCS / "data" / "looks_seconds.json").read_text(encoding="utf-8"))
TUNED = json.loads((DOCS / "data" / "looks_tuned.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["looks", "earlier_looks", "tuned"])
def test_a_stored_run_verifies_without_its_network(kind: str) -> None:
    with measured.unpacked(kind, "0.12") as path:
        result = verify(path)
    assert not result.refuted
    assert (result.tally.accepted, result.tally.refused) == (500, 0)


@pytest.mark.parametrize("row", STORED, ids=lambda row: row["sigma"])
def test_the_votes_of_the_table_are_those_of_the_run(row: dict[str, object]) -> None:
    with measured.unpacked("looks", row["sigma"]) as path, open_run(path) as run:
        assert (len(run), sum(each.votes for each in run)) == (row["images"], row["votes"])


def test_the_run_with_tuned_kernels_is_the_one_that_was_timed() -> None:
    (timed,) = [each for each in TUNED if "run" in each]
    with measured.unpacked("tuned", "0.12") as path, open_run(path) as run:
        assert run.promise.flags["compile"] == timed["compile"] == "tuned"
        assert (len(run), sum(each.votes for each in run)) == (timed["looks"]["images"], timed["looks"]["copies"])


def test_the_tables_of_the_docs_are_the_stored_ones() -> None:
    page = (DOCS / "looks.md").read_text(encoding="utf-8")
    assert measured.rendered(STORED, SECONDS) in page
    assert measured.rendered_tuned(TUNED) in page


def test_no_gain_is_rounded_up() -> None:
    """7.97 times is not 8 times."""
    rows = [line.split(" | ")[1:] for line in measured.rendered(STORED, SECONDS).splitlines() if "×" in line]
    timed = {f"{float(each['sigma']):.2f}": each["gain"] for each in SECONDS}
    for row, each in zip(rows, STORED, strict=True):
        gain = timed[each["sigma"]]
        exact = each["times fewer"], gain["seconds"], gain["seconds"] / gain["copies"]
        assert all(float(shown.rstrip("×")) <= value for shown, value in zip(row, exact, strict=False))
