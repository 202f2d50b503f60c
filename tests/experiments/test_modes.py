"""The comparison of ways to run: what it measures becomes a row of the table, and the networks can be made."""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
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
    assert row.startswith("| embedded | 200 | float32 | none (default) | 100 | ")
    assert f"{median:.4f}" in row
    _, _, row = script("performance/modes_table.py").processor_rows([found]).splitlines()
    work = found["processor ratios"]["none certify / none forward"][0]
    assert row.startswith(f"| embedded | 1 | 200 | none | 100 | {median:.3f} [")
    assert f"| {work:.3f} [" in row


def test_a_module_is_compared_with_what_people_write(modes: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certifications over the module's own passes, and over those of torch.compile, which stands for itself here."""
    monkeypatch.setattr(torch, "compile", lambda module, dynamic: module)
    zoo = sys.modules["zoo"]
    monkeypatch.setitem(zoo.NETWORKS, "u-net", zoo.Entry(lambda: zoo.UNet(8), (3, 8, 8)))
    found = modes.measure(asked(network="u-net", n=20, batch=10))
    assert found["modes"]["none"]["independence"] == "proved"
    assert set(found["seconds"]) == {"none forward", "none certify", "module forward", "compiled forward"}
    assert {"none certify / module forward", "none certify / compiled forward"} < set(found["ratios"])
    (row,) = [line for line in script("performance/modes_table.py").rows([found]).splitlines() if "u-net" in line]
    fastest = min(seconds for name, seconds in found["seconds"].items() if name.endswith("forward"))
    assert row.endswith(f"| {found['seconds']['none certify'] / fastest:.3f} |")


def test_a_long_run_is_compiled_where_that_gains_enough() -> None:
    default = script("performance/modes_table.py").default
    assert default({"none forward": 1.0}) == "none"
    assert default({"none forward": 1.0, "torch-compile forward": 0.99}) == "none"
    assert default({"none forward": 1.0, "torch-compile forward": 0.9}) == "torch-compile"


def test_processors_and_gpus_have_a_table_each(tmp_path: Path) -> None:
    page, seconds = tmp_path / "page.md", {"none forward": 2.0, "none certify": 2.0, "torch-compile forward": 1.0}
    marks = [f"<!-- {mark} {end} -->" for mark in ("modes", "modes on a processor") for end in ("begin", "end")]
    page.write_text("\n".join(marks))
    ratios = {"none certify / none forward": [1.0, 1.0, 1.0]}
    usual = {"n": 5, "precision": "float32", "images": 1, "threads": 2, "modes": {"none": {"batch": 100}}}
    usual |= {"processor ratios": ratios, "processor seconds": seconds}
    for device, network in (("cpu", "small"), ("some GPU", "large")):
        found = {**usual, "device": device, "network": network, "seconds": seconds, "ratios": ratios}
        (tmp_path / f"{network}.json").write_text(json.dumps(found))
    script("performance/modes_table.py").main(page, sorted(tmp_path.glob("*.json")))
    on_gpu, on_processor = page.read_text().split("<!-- modes end -->")
    assert "| large | 5 | float32 | none | 100 |" in on_gpu
    assert "| small | 2 | 5 | none | 100 | 1.000 [" in on_processor
    assert "small" not in on_gpu
    assert "large" not in on_processor


def test_networks_are_measured_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is not measured again; failures and the end of the time are said, and leave no result."""
    all_modes = script("performance/all_modes.py")
    one = all_modes.Comparison("some net", ("--n", "5"))

    def ended(code: int) -> None:
        monkeypatch.setattr(all_modes.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], code))

    ended(1)
    assert all_modes.measured(tmp_path, one, [], time.monotonic() + 9) == "failed after 0 s, see some-net.log"
    ended(0)
    assert all_modes.measured(tmp_path, one, [], time.monotonic() + 9) == "0 s"
    assert all_modes.measured(tmp_path, one, [], time.monotonic()) == "no time left"
    (tmp_path / "some-net.json").touch()
    assert all_modes.measured(tmp_path, one, [], time.monotonic() + 9) == "measured before"


@pytest.mark.parametrize(("batch", "passes"), [(30, [(30, 4), (30, 7)]), (200, [(100, 1), (200, 1)])])
def test_a_forward_is_as_many_passes_as_a_certification(
    batch: int, passes: list[tuple[int, int]], modes: ModuleType
) -> None:
    """For selection, which has 100 copies, and for estimation."""
    assert modes.Mode(asked(batch=batch), "none")._passes == passes


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
