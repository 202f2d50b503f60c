"""The price of a vote, chosen on other images; and what a run costs beside the model: the docs say what is stored."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts import script

price, overhead = script("looks/price.py"), script("looks/overhead.py")
DOCS = Path(__file__).parents[2] / "docs"


def stored(name: str) -> Any:
    return json.loads((DOCS / "data" / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "module"), [("looks_price", price), ("looks_overhead", overhead)])
def test_the_tables_of_the_docs_are_the_stored_ones(name: str, module: Any) -> None:
    assert module.rendered(stored(name)) in (DOCS / "looks.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def judge() -> Any:
    return price.Judge(stored("looks_price_votes"))


def test_what_is_stored_follows_from_the_votes(judge: Any) -> None:
    """At the σ that is quickest to compute."""
    default = [row for row in stored("looks_price") if row["chosen on"] == "(the default)"]
    assert [row["tried on"] for row in default] == ["CIFAR-10", "CIFAR-10, other images", "Fashion-MNIST"]
    for row in default:
        worth = judge.worth(price.Price(row["patience"], row["exponent"]), "0.12")
        assert judge._judged("0.12", worth)[row["tried on"]] == row["sigmas"]["0.12"]


def test_the_default_price_has_the_default_rule(judge: Any) -> None:
    assert [judge.worth(price.Price(*price.DEFAULT), sigma) for sigma in price.SIGMAS] == [0, 0, 0, 0]
    doubled = price.Price(2 * price.DEFAULT[0], price.DEFAULT[1])
    assert [judge.worth(doubled, sigma) for sigma in price.SIGMAS] == [16, 16, 16, 16]


@pytest.mark.parametrize(("least", "margin", "place"), [(0.1, 0, 1), (0.1, 1, 0), (0.3, 0, 0)])
def test_the_rule_takes_what_saves_most_of_what_loses_little(
    least: float, margin: int, place: int, judge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three prices, one loses `least`, one a little more and saves more, and one loses most. If all lose too much,
    the one that loses least is taken. With a margin, 0.15 ± 0.08 is too much.
    """
    said = {price.PATIENCES[0]: (least, 1.5), price.PATIENCES[1]: (least + 0.05, 2.0)}

    def tried(asked: Any, name: str) -> list[dict[str, float]]:
        drop, votes = said.get(asked.patience, (0.9, 9.0))
        return [{"drop": each, "deviation": 0.08, "votes": votes} for each in (drop / 2, drop)]

    monkeypatch.setattr(judge, "tried", tried)
    assert judge.chosen("any", margin).patience == price.PATIENCES[place]
