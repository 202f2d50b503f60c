"""The batch size that is chosen for a GPU, with a model that only says what fits."""

from dataclasses import dataclass
from typing import Any

import pytest

from soundsmooth.core.machine import InputPlacement
from soundsmooth.noise import Gaussian
from soundsmooth.smoothing.classifier import GPU_BATCH, GPU_ELEMENTS, Replica, Smoothing

GPU = InputPlacement("cuda:0")


@dataclass
class Fits:
    """A model on a GPU on which so many rows fit."""

    rows: int
    placement: InputPlacement | None = GPU
    asked: int = 0

    def largest_batch(self, shape: tuple[int, ...], wanted: int) -> int:
        self.asked += 1
        return min(wanted, self.rows)


def smoothing(model: Any) -> Smoothing:
    sampler: Any = None
    return Smoothing(Gaussian("0.5"), (Replica(model, sampler),), None, "nowhere")


@pytest.mark.parametrize(
    ("shape", "rows", "n", "batch"),
    [
        ((3, 32, 32), 10**6, 100_000, 10_000),
        ((3, 32, 32), 10**6, 1000, 1000),
        ((3, 32, 32), 7000, 100_000, 6667),  # 15 batches: 6667 · 15 = 100 005, where 7000 · 15 = 105 000
        ((3, 32, 32), 5000, 100_000, 5000),
        ((3, 224, 224), 10**6, 10_000, 1667),  # 2²⁸ elements are 1783 rows; 6 batches
        ((3, 224, 224), 100, 10_000, 100),
        ((3, 20_000, 20_000), 10**6, 1000, 1),
    ],
)
def test_large_even_batches_are_chosen_once(shape: tuple[int, ...], rows: int, n: int, batch: int) -> None:
    model = Fits(rows)
    smooth = smoothing(model)
    assert [smooth.batch_for(shape, n) for _ in range(3)] == [batch] * 3
    assert model.asked == 1
    assert batch <= min(rows, n, GPU_BATCH)
    assert batch == 1 or batch * shape[0] * shape[1] * shape[2] <= GPU_ELEMENTS
    assert -(-n // batch) * batch - n < -(-n // batch), "at most one row a batch is filled up"
