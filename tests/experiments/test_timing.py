"""The timing experiment: noise from files is the noise that was drawn, and the tables hold what was measured."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from scripts import script
from soundsmooth.core.machine import InputPlacement
from soundsmooth.lab.bench.gpu import Plain, Work
from soundsmooth.lab.scripts.pages import fill, table
from soundsmooth.models.torch_module import TorchModel
from soundsmooth.noise import Gaussian, GpuSampler, Purpose
from soundsmooth.noise.sources import SharedNoise
from soundsmooth.smoothing.classifier import Replica, Smoothing

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"
KEY = bytes(range(32))


def test_noise_from_files_is_the_noise_that_was_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_interpreter: None
) -> None:
    measure = script("timing/measure.py")
    monkeypatch.setattr(measure, "N0", 6)
    monkeypatch.setattr(measure.secrets, "token_bytes", lambda _: KEY)
    a_law = Gaussian("0.5")
    model: Any = None
    sampler = GpuSampler(a_law, InputPlacement(DEVICE), threads=1)
    work = Work("none", (1, 4, 4), 2, 20, 10, 10)
    files = measure.NoiseFiles.write(tmp_path, Smoothing(a_law, (Replica(model, sampler),), 10, ""), work)
    assert len(list(tmp_path.iterdir())) == 3
    kept = SharedNoise(sampler, KEY)
    for purpose, first, copies in (
        (Purpose.SELECTION, 0, 6),
        (Purpose.ESTIMATION, 0, 10),
        (Purpose.ESTIMATION, 10, 10),
    ):
        found = files.noisy(purpose, work.level, first, copies).values
        assert torch.equal(found, kept.noisy(purpose, work.level, first, copies).values)
        assert len(torch.unique(found)) > 10


def test_votes_that_are_kept_are_the_same_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a processor as well, but for the place of the image."""
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor.to(DEVICE))
    torch.manual_seed(0)
    model = TorchModel(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)), DEVICE)
    plain = Plain(torch, model, Work("none", (1, 4, 4), 3, 250, 100, 100), 0.5)
    counts = []
    for votes in (plain.votes, plain.votes_kept):
        torch.manual_seed(1)
        counts.append(votes(250, plain.noisy).tolist())
    assert counts[0] == counts[1]
    assert sum(counts[0]) == 250
    assert sum(count > 0 for count in counts[0]) > 1


def test_the_timing_table() -> None:
    row = {
        "machine": "card",
        "environment": {"torch": "9"},
        "network": "resnet50",
        "n": 10_000,
        "batch": 100,
        "k": "12",
        "precision": "fp32",
        "seconds": {"standard": 2.0, "kept": 1.9, "shared": 2.02, "reloaded": 3.0, "fresh": 2.01},
        "ratios": {f"{name} / standard": [1.5, 1.25, 1.75] for name in ("shared", "reloaded", "fresh")}
        | {"fresh / kept": [1.1, 1.0, 1.2]},
        "breakpoints, seconds": 0.0321,
        "paper": {"shared": 1.002, "reloaded": 1.429, "fresh": 14.9},
        "rounds": 3,
    }
    found = script("timing/table.py").tables([row])
    assert "| resnet50, fp32 | 12 | 3 | 2.000 | 1.900 | 2.020 | 3.000 | 2.010 | 0.032 |" in found
    assert "resnet50 with n = 10000 in batches of 100:" in found
    assert "1.500 [1.250, 1.750] (14.9) | 1.100 [1.000, 1.200] |" in found
    assert "On one GPU, card, torch 9;" in found
    assert "timing.json --rounds 3\n" in found
    more = script("timing/table.py").tables([row, row | {"rounds": 7}, row | {"precision": "bf16"}])
    assert 'timing.json --rounds 7 --precision "fp32"\n' in more
    for part in found.split("\n\n"):
        assert len({line.count("|") for line in part.splitlines() if line.startswith("|")}) <= 1


def test_a_row_replaces_an_older_one(tmp_path: Path) -> None:
    measure, path = script("timing/measure.py"), tmp_path / "timing.json"
    first = {"machine": "card", "network": "resnet50", "k": "3", "precision": "fp32", "rounds": 3, "images": 1}
    others = [first | {"k": "12"}, first | {"rounds": 7}]
    for row in (first, *others, first | {"images": 2}):
        measure.keep(path, row, measure.SAME)
    assert json.loads(path.read_text()) == [*others, first | {"images": 2}]


def test_how_much_faster_is_field_over_ours() -> None:
    rows = [
        {"network": "net", "precision": "fp32", "seconds": {"standard": 6.0, "ours, fresh, own batch": 5.0}},
        {
            "network": "net",
            "precision": "bf16 channels-last",
            "seconds": {"standard": 3.0, "ours, fresh, own batch": 2.0},
        },
    ]
    assert script("performance/table.py").faster(rows).splitlines()[-1] == "| net | 6.000 | 2.000 | 3.00 |"


def test_only_what_lies_between_the_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x begin -->\nold\n<!-- x end -->\nb\n<!-- y begin --><!-- y end -->\n")
    fill(page, "x", table(["h", "i"], [["1", "2"]]))
    assert page.read_text().startswith("a\n<!-- x begin -->\n| h | i |\n| --- | --- |\n| 1 | 2 |\n<!-- x end -->\nb\n")
    with pytest.raises(ValueError, match="has no marks <!-- z begin -->"):
        fill(page, "z", "")
    assert "<!-- y begin --><!-- y end -->" in page.read_text()
