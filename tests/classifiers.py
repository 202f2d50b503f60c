"""Classifiers of small grey images, honest and not, at the top of a module: a fresh process can import them."""

import sys

import numpy as np

CLASSES = 2


def one_hot(hit: np.ndarray) -> np.ndarray:
    return np.stack([~hit, hit], axis=1).astype(np.float32)


def brightness(batch: np.ndarray) -> np.ndarray:
    """Honest: is the row's mean above one half?"""
    mean = batch.reshape(len(batch), -1).mean(axis=1)
    return np.stack([0.5 - mean, mean - 0.5], axis=1)


def brightness_of_three(batch: np.ndarray) -> np.ndarray:
    """Honest: `brightness`, with a third class that no row gets."""
    mean = batch.reshape(len(batch), -1).mean(axis=1)
    return np.stack([0.5 - mean, mean - 0.5, np.full(len(mean), -0.1)], axis=1)


def batch_mean(batch: np.ndarray) -> np.ndarray:
    """The whole batch's mean decides: nearly the clean image."""
    return one_hot(np.full(len(batch), batch.mean() > 0.5))


def softmax_over_batch(batch: np.ndarray) -> np.ndarray:
    """A softmax over the wrong axis."""
    scores = np.exp(20 * brightness(batch))
    return scores / scores.sum(axis=0)


def only_in_company(batch: np.ndarray) -> np.ndarray:
    """Class 1 wherever there are other rows, class 0 alone."""
    return one_hot(np.full(len(batch), len(batch) > 1))


def first_row(batch: np.ndarray) -> np.ndarray:
    """Row 0 is class 1, all others class 0."""
    return one_hot(np.arange(len(batch)) == 0)


class Calls:
    """Every other call, another answer."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        self.calls += 1
        return one_hot(np.full(len(batch), self.calls % 2 == 0))


class Evader:
    """Honest for its first rows, while it may be checked, and whenever it is alone; then the batch's mean decides."""

    def __init__(self, honest: int = 100_000) -> None:
        self.left = honest

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        self.left -= len(batch)
        return brightness(batch) if self.left > 0 or len(batch) == 1 else batch_mean(batch)


class RunningMean:
    """The mean of all rows so far decides, at batch size 1 too: a memory, not a batch, brings the rows together."""

    def __init__(self) -> None:
        self.total, self.rows = 0.0, 0

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        totals = self.total + np.cumsum(batch.reshape(len(batch), -1).mean(axis=1, dtype=np.float64))
        rows = self.rows + 1 + np.arange(len(batch))
        self.total, self.rows = float(totals[-1]), int(rows[-1])
        return one_hot(totals / rows > 0.5)


class Peeping:
    """The mean of all rows of this shape that lie about in its process decides: those of its batch, and those that its
    callers hold.
    """

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        rows, frame = [batch], sys._getframe()
        while frame is not None:
            held = [each for value in frame.f_locals.values() for each in (value if type(value) is list else [value])]
            rows += [np.reshape(each, (-1, *batch.shape[1:])) for each in held if _are_rows(each, batch[0])]
            frame = frame.f_back
        return one_hot(np.full(len(batch), np.concatenate(rows).mean() > 0.5))


def _are_rows(value: object, row: np.ndarray) -> bool:
    return isinstance(value, np.ndarray) and value.shape[-row.ndim :] == row.shape


class NotAlone:
    """Fails on a batch of one row."""

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        if len(batch) == 1:
            raise RuntimeError("one row is not enough")
        return brightness(batch)


def threaded_brightness(batch: np.ndarray) -> np.ndarray:
    """Honest, by products of matrices that are large enough for several threads, in a library that comes late."""
    import torch

    rows = torch.from_numpy(batch.reshape(len(batch), -1))
    mean = (rows @ torch.ones(rows.shape[1], 200_000)).mean(dim=1).numpy() / rows.shape[1]
    return np.stack([0.5 - mean, mean - 0.5], axis=1)


def make_brightness() -> object:
    """A factory whose product cannot be pickled."""
    return lambda batch: brightness(batch)
