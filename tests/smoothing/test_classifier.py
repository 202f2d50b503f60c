"""The batch size that is chosen for a GPU, with a model that only says what fits."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from soundsmooth.certification.settings import settings
from soundsmooth.core.machine import InputPlacement
from soundsmooth.noise import Gaussian
from soundsmooth.smoothing.classifier import GPU_BATCH, GPU_ELEMENTS, Replica, Smoothing, expected_copies

GPU = InputPlacement("cuda:0")


@dataclass
class Fits:
    """A model on a GPU on which so many rows fit."""

    rows: int
    placement: InputPlacement | None = GPU
    asked: int = 0
    tuned_batch: int | None = None
    batch: int | None = None

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


@pytest.mark.parametrize(
    ("n", "radii", "given", "sizes"),
    [
        (100_000, None, None, [10_000, 5000, 2500, 1000]),
        (100_000, None, 640, [640]),
        (3000, None, None, [3000, 1500, 750, 300]),
        (900, None, None, [900, 450, 225]),
        (100_000, "0.5", None, [3200, 1600, 800]),
    ],
)
def test_smaller_batches_may_be_tried(n: int, radii: str | None, given: int | None, sizes: list[int]) -> None:
    """Each fills with n copies as well as the largest one does; with looks they are halves of it."""
    chosen, model = settings(n=n, radii=radii), Fits(10**6)
    smooth = replace(smoothing(model), batch=given)
    first = smooth.batch_of((3, 32, 32), chosen)
    assert smooth._other_batches(first, chosen) == sizes


@pytest.mark.parametrize(
    ("n", "radii", "given", "sizes"),
    [
        (100_000, None, None, [100, 50, 25]),
        (100_000, "0.5", None, [100, 50, 25]),
        (100_000, None, 64, [64]),
        (90, None, None, [90, 45, 22]),
        (1, None, None, [1]),
    ],
)
def test_on_a_cpu_smaller_batches_than_the_usual_may_be_tried(
    n: int, radii: str | None, given: int | None, sizes: list[int]
) -> None:
    chosen, model = settings(n=n, radii=radii), Fits(10**6, placement=None)
    smooth = replace(smoothing(model), batch=given)
    first = min(smooth.batch_of((3, 32, 32), chosen), n)
    assert smooth._other_batches(first, chosen) == sizes
    assert model.asked == (given is None)


def test_tuned_kernels_have_their_own_batch() -> None:
    model = Fits(10**6, tuned_batch=2500)
    assert smoothing(model).batch_for((3, 32, 32), 100_000) == 2500
    assert model.asked == 0


def test_a_run_with_looks_is_expected_to_be_short() -> None:
    assert expected_copies(settings(n=100_000, n0=100)) == 100_100
    assert expected_copies(settings(n=100_000, n0=100, radii="0.5")) == 12_512
