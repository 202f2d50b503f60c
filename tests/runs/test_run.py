"""A run for its users; here, the order in which records are handed on. (The rest: test_front_door.py.)"""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import soundsmooth as ss
from classifiers import brightness
from command import run_command
from soundsmooth.runs.run import in_order
from soundsmooth.runs.stored import Failure

SLOW_FIRST = """
import time
import torch

class SlowOnDark(torch.nn.Module):
    def forward(self, batch):
        bright = batch.flatten(1).mean(dim=1)
        if float(bright.mean()) < 0.3:
            time.sleep(0.1)
        return torch.stack([1 - bright, bright], dim=1)

def make():
    return SlowOnDark()
"""


def failure(index: int) -> Failure:
    return Failure(index, None, 3, "none")


@given(st.permutations(range(6)))
def test_records_are_handed_on_in_the_order_of_the_images(arrived: list[int]) -> None:
    handed: list[int] = []
    with in_order([3, 1, 0, 2, 5, 4], lambda record: handed.append(record.index)) as take:
        for index in arrived:
            take(failure(index))
    assert handed == [3, 1, 0, 2, 5, 4]


def test_what_waits_is_handed_on_after_an_error() -> None:
    smooth, handed = ss.Smoother(brightness, "1/4"), []
    with smooth.certify_all(np.zeros((3, 2, 2), np.uint8), n=20) as run:
        certificates = list(run)

    def interrupted() -> None:
        with in_order([0, 1, 2], lambda record: handed.append(record.index)) as take:
            take(certificates[2])
            take(certificates[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert handed == [0, 2]


def test_a_file_has_the_order_of_the_images_with_several_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first image takes longest: without an order its record would be the last."""
    pytest.importorskip("torch")
    (tmp_path / "slow_first.py").write_text(SLOW_FIRST)
    monkeypatch.syspath_prepend(tmp_path)
    levels = np.array([20, 250, 250, 250], np.uint8)
    np.savez(tmp_path / "data.npz", x=np.tile(levels[:, None, None], (1, 2, 2)))
    run_command(
        "certify", "slow_first:make", tmp_path / "data.npz", "--out", tmp_path / "a.jsonl", "--workers", 2, "--n", 200,
        "--sigma", "0.1", "--independence", "assumed",
    )  # fmt: skip
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert [json.loads(line)["index"] for line in lines] == [0, 1, 2, 3]
