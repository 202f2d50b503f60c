"""The tables on section 4: what was measured, and rows of equal length."""

from pathlib import Path

import section4

FOLDER = Path(__file__).parents[2]


def rows(text: str) -> list[str]:
    found = [line for line in text.splitlines() if line.startswith("|")]
    assert found
    return found


def test_the_table_on_the_proposition() -> None:
    certifier = {
        "images": 20,
        "right": 19,
        "large": 18,
        "flipped": 17,
        "contradicted": 16,
        "wrong votes": 5,
        "votes": 100,
        "distances": [0.5, 0.75],
    }
    found = section4.of_proposition(
        {"parts": [{"name": "all", "n": 6000, "every": 1, "images": [1], "ours": certifier}]}
    )
    assert rows(found)[-1] == "| 6000 | 20 | ours | 19 | 18 | 17 | 16 | 5 of 100 |"
    assert len({row.count("|") for row in rows(found)}) == 1
    assert "between 0.500 and 0.750" in found


def test_the_tables_on_the_alternatives() -> None:
    kinds = {"plain": 30.25, "residual": 130.0}
    network = {
        "sigma": 0.25,
        "copies": 8,
        "log10 of the product": {"linf": kinds, "l2 below": kinds, "l2 above": kinds},
        "margin": [0.1, 0.2, 0.3],
        "slope": [1.0, 2.0, 3.0],
        "intervals": [{"box": "single", "width / margin": [1.0, 1e60, 1e61], "decided": 0}],
    }
    first, second = section4.of_alternatives({"networks": [network]}).split("One pass")
    assert rows(first)[-1] == "| 0.25 | 30.2 | 130.0 | 30.2 | 130.0 | 30.2 | 130.0 | 0.2 | 2 |"
    assert rows(second)[-1] == "| 0.25 | 1.0e+60 (0) |"
    for text in (first, second):
        assert len({row.count("|") for row in rows(text)}) == 1


def test_a_layer_that_has_vanished() -> None:
    products = {"linf": {"plain": None, "residual": 1.0}}
    assert section4.power({"log10 of the product": products}, "linf", "plain") == "−∞"
    assert section4.power({"log10 of the product": products}, "linf", "residual") == "1.0"


def test_what_is_not_measured_yet_is_left(tmp_path: Path) -> None:
    page = tmp_path / "paper.md"
    page.write_text("a <!-- proposition begin -->old<!-- proposition end -->")
    section4.main(tmp_path / "no.json", tmp_path / "neither.json", page)
    assert page.read_text() == "a <!-- proposition begin -->old<!-- proposition end -->"
