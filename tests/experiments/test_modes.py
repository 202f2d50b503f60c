"""The comparison of ways to run: what it measures becomes a row of the table, and the networks can be made."""

import argparse
import sys
from types import ModuleType

import pytest
import torch

from scripts import EXPERIMENTS, script


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setitem(sys.modules, "zoo", script("performance/zoo.py"))
    return script("performance/modes.py")


def asked(**changes: object) -> argparse.Namespace:
    usual = {"network": "embedded", "n": 200, "images": 1, "rounds": 2, "batch": None, "dtype": "float32"}
    usual |= {"device": "cpu", "channels_last": False, "threads": 1, "modes": ["none"]}
    return argparse.Namespace(**{**usual, **changes})


def test_a_measurement_becomes_a_row(modes: ModuleType) -> None:
    assert (EXPERIMENTS / "performance" / "zoo.py").exists()
    found = modes.measure(asked())
    assert found["modes"]["none"]["batch"] == 100
    assert found["modes"]["none"]["independence"] == "proved"
    assert set(found["seconds"]) == {"none forward", "none certify"}
    (row,) = [line for line in script("performance/modes_table.py").rows([found]).splitlines() if "embedded" in line]
    median = found["ratios"]["none certify / none forward"][0]
    assert row.startswith("| embedded | 200 | float32 | none | 100 | ")
    assert f"{median:.4f}" in row


@pytest.mark.parametrize("name", ["timm-style vit", "u-net", "resnet18"])
def test_the_networks_of_our_own_score(name: str, modes: ModuleType) -> None:
    """Others need libraries that are not installed here."""
    zoo = sys.modules["zoo"]
    network, shape = zoo.network(name), zoo.NETWORKS[name].shape
    with torch.inference_mode():
        scores = network(torch.rand(2, *shape))
    assert scores.shape[0] == 2
    assert scores.isfinite().all()
    assert not network.training
