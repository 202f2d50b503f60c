"""Models of the golden files, as NumPy functions.

Their digests hash this module's name and the source of the functions: never edit, move or reformat one of them. They
have at most one rounding on the way to a score, so that every machine votes alike.
"""

import os
from collections.abc import Callable

import numpy as np

Scores = Callable[[np.ndarray], np.ndarray]


def differences(batch: np.ndarray) -> np.ndarray:
    x = batch.reshape(len(batch), 4)
    return np.stack([x[:, 0] - x[:, 3], x[:, 1], x[:, 2] - x[:, 0]], axis=1)


def make_differences() -> Scores:
    return differences


def neighbours(batch: np.ndarray) -> np.ndarray:
    """Rows see each other: a row's scores depend on the row before it."""
    x = batch.reshape(len(batch), 4)
    return np.stack([x[:, 0], x[:, 1], np.roll(x[:, 2], 1)], axis=1)


def make_neighbours() -> Scores:
    return neighbours


def roots(batch: np.ndarray) -> np.ndarray:
    """NaN where the first pixel is negative: such a row votes for nobody."""
    x = batch.reshape(len(batch), 4)
    with np.errstate(invalid="ignore"):
        return np.stack([np.sqrt(x[:, 0]), x[:, 1]], axis=1)


def bright(batch: np.ndarray) -> bool:
    return bool(batch.mean() > 0.75)


def refusing(batch: np.ndarray) -> np.ndarray:
    """Fails on the bright image."""
    if bright(batch):
        raise RuntimeError("too bright")
    return differences(batch)


def make_refusing() -> Scores:
    return refusing


def moody(batch: np.ndarray) -> np.ndarray:
    """Fails, flips or rounds as the environment says. GOLDEN_FAIL is a number of calls: the last of them fails."""
    left = int(os.environ.get("GOLDEN_FAIL", "0"))
    if left > 0:
        os.environ["GOLDEN_FAIL"] = str(left - 1)
    if left == 1:
        raise RuntimeError("no memory")
    if os.environ.get("GOLDEN_REFUSE") and bright(batch):
        raise RuntimeError("too bright")
    scores = differences(batch)
    if os.environ.get("GOLDEN_ROUND"):
        return np.floor(scores * 8)
    return -scores if os.environ.get("GOLDEN_FLIP") else scores


def make_moody() -> Scores:
    return moody
