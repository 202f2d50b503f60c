"""Predictions: what cannot be asked is refused, and each has a key of its own."""

from typing import Any

import numpy as np
import pytest

import soundsmooth as ss
from soundsmooth.smoothing.prediction import predict

X = np.full((2, 2), 100, np.int16)


def scores(batch: np.ndarray) -> np.ndarray:
    return batch.reshape(len(batch), -1)[:, :3]


SMOOTHING = ss.Smoother(scores, "1/2", threads=1, independence="assumed").smoothing


@pytest.mark.parametrize(
    ("n", "alpha", "text"),
    [
        (0, "1/2", "n must be an integer between 1 and 10⁹, not 0"),
        (10**9 + 1, "1/2", "n must be an integer"),
        (1.5, "1/2", "n must be"),
        (10, 0, "alpha"),
        (10, 1, "alpha"),
        (10, "-1/2", "alpha"),
        (10, "nan", "alpha"),
    ],
)
def test_what_cannot_be_asked(n: Any, alpha: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        predict(SMOOTHING, 0, X, n, alpha)


@pytest.mark.parametrize("levels", [[[-1, 0], [0, 0]], [[0, 256], [0, 0]]])
def test_levels_outside_the_grid(levels: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="level"):
        predict(SMOOTHING, 0, np.array(levels, np.int16), 10, "1/2")


def test_each_prediction_has_a_key_of_its_own() -> None:
    one, other = (predict(SMOOTHING, 7, X, 50, "1/100") for _ in range(2))
    assert one.key != other.key
    assert one.counts.total == 50
    assert (one.index, one.n, one.alpha) == (7, 50, "1/100")
