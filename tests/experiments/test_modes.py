"""The comparison of ways to run: what it measures becomes a row of the table, and the networks can be made."""

import argparse
import io
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from scripts import EXPERIMENTS, script


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setitem(sys.modules, "zoo", script("performance/zoo.py"))
    monkeypatch.setitem(sys.modules, "turns", script("performance/turns.py"))
    return script("performance/modes.py")


def asked(**changes: object) -> argparse.Namespace:
    usual = {"network": "embedded", "n": 200, "images": 1, "rounds": 2, "batch": None, "dtype": "float32"}
    usual |= {
        "device": "cpu",
        "channels_last": False,
        "threads": 1,
        "modes": ["none"],
        "turns": False,
        "ours_only": False,
        "in_turn": False,
    }
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
    left = modes.measure(asked(network="u-net", n=20, batch=10, ours_only=True))
    assert set(found["seconds"]) - set(left["seconds"]) == {"compiled forward"}


def test_a_run_can_have_its_noise_before_each_pass(modes: ModuleType) -> None:
    usual, seen = modes.cuda_streams.TwoStreams, list[object]()
    modes.with_noise_in_turn(lambda: seen.append(modes.cuda_streams.TwoStreams))()
    assert [*seen, modes.cuda_streams.TwoStreams] == [modes.InTurn, usual]
    found = modes.measure(asked(in_turn=True))
    assert set(found["seconds"]) == {"none forward", "none certify", "none certify in turn"}
    assert "none certify in turn / none forward" in found["ratios"]


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


def test_the_least_that_a_row_takes(modes: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two operations for each product, and 16 bits for each number that a layer with weights reads and writes."""
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(256, 10))
    monkeypatch.setitem(sys.modules["zoo"].NETWORKS, "small", sys.modules["zoo"].Entry(lambda: layers, (3, 8, 8)))
    found = modes.least_work("small")
    assert found["operations"] == 2 * (8 * 8 * 4 * 3 * 3 * 3 + 256 * 10)
    assert found["bytes"] == 2 * ((3 * 64 + 4 * 64) + (256 + 10))


@pytest.mark.parametrize(("batch", "passes"), [(30, [(30, 4), (30, 7)]), (200, [(200, 1), (200, 1)])])
def test_a_forward_is_as_many_passes_as_a_certification(
    batch: int, passes: list[tuple[int, int]], modes: ModuleType
) -> None:
    """For selection, which has 100 copies and at least one batch, and for estimation."""
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


@pytest.fixture
def parts(modes: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setitem(sys.modules, "modes", modes)
    return script("performance/parts.py")


def test_the_time_of_a_certification_is_taken_apart(parts: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part votes, or passes, on as many batches as a run has, for all images and for selection."""
    monkeypatch.setattr(parts.shutil, "which", lambda _: None)
    wanted = asked(batch=50, images=3)
    mode = parts.Mode(wanted, "none")
    model = mode.replica.model
    passes, rows, scores = list[object](), list[int](), model.scores
    monkeypatch.setattr(
        model, "scores", lambda values: passes.append(values) or rows.append(len(values)) or scores(values)
    )
    batches = {}
    for name, action in parts.parts(mode).items():
        passes.clear()
        action()
        batches[name] = len(passes), len({id(each) for each in passes})
    every = ["forward", "votes", "in turn", "beside", "certify"]
    assert mode.passes == 3 * (2 + 4)
    assert {name: count for name, (count, _) in batches.items()} == dict.fromkeys(every, mode.passes)
    assert batches["forward"][1] == batches["votes"][1] == 1
    assert batches["in turn"][1] == batches["beside"][1] == mode.passes
    assert set(rows) == {50}
    found = parts.measure(wanted, mode, parts.parts(mode))
    assert list(found["ms a batch"]) == every
    assert list(found["over forward"]) == every[1:]
    assert found["clock in MHz, power in W"] == {}


def test_looks_at_the_gpu_belong_to_what_was_at_work(parts: ModuleType) -> None:
    """Those of the first tenth of a second of an action still see the one before."""
    gpu = parts.Gpu()
    gpu._work = [("forward", 0.0, 1.0), ("beside", 1.0, 2.0), ("votes", 2.0, 2.05), ("forward", 3.0, 4.0)]
    gpu._seen = [(0.5, 1900.0, 600.0), (1.05, 1.0, 1.0), (1.5, 1700.0, 700.0), (2.02, 1.0, 1.0), (3.5, 1800.0, 650.0)]
    assert gpu.means() == {"forward": [1850.0, 625.0], "beside": [1700.0, 700.0]}
    lines = io.StringIO("1980, 650.5\n[N/A], [N/A]\n1755, 70")
    gpu._read(SimpleNamespace(stdout=lines))
    assert [each[1:] for each in gpu._seen[5:]] == [(1980.0, 650.5), (1755.0, 70.0)]


def test_one_call_measures_all_figures(modes: ModuleType, tmp_path: Path) -> None:
    """Each command is understood by its script."""
    found = script("performance/gpu_figures.py")
    every = found.figures(tmp_path, Path("cifar10.npz"), ["--rounds", "1"])
    names = [each.name for each in every]
    assert len({*names}) == len(names) == 4 + 2 + 2 + 12 + 4
    assert all(Path(each.command[1]).is_file() and str(tmp_path) in " ".join(each.command) for each in every)
    assert all("--turns" in each.command for each in every)
    for each in every:
        if Path(each.command[1]).name in ("modes.py", "parts.py"):
            understood = modes.arguments(None).parse_args(each.command[2:])
            assert understood.turns
            assert understood.out == each.made
            assert understood.rounds == (1 if each.name.startswith("modes") else 5)
    without = found.figures(tmp_path, None)
    assert [each.name for each in without] == [name for name in names if name.split()[0] not in ("price", "looks")]


def test_what_is_there_is_not_measured_again(modes: ModuleType, tmp_path: Path) -> None:
    found = script("performance/gpu_figures.py")
    every = found.figures(tmp_path, Path("cifar10.npz"))
    names = [each.name for each in every]
    every[0].made.parent.mkdir()
    every[0].made.touch()
    assert [each.name for each in found.wanted(every, ["price", "modes u"])] == [*names[1:4], "modes u-net"]
    assert len(found.wanted(every, None)) == len(every) - 1
