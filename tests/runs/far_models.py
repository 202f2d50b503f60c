"""Classifiers for workers in other processes: they misbehave once, and a file remembers that they have."""

import os
import time
from pathlib import Path

import numpy as np

from classifiers import brightness_of_three


def batch_mean(batch: np.ndarray) -> np.ndarray:
    """Brighter than the others of the batch: a row's vote depends on its company."""
    mean = batch.reshape(len(batch), -1).mean(axis=1)
    return np.stack([mean.mean() - mean, mean - mean.mean()], axis=1)


class Once:
    """Honest, but the call of that number, counted over all processes together, does something else first."""

    def __init__(self, folder: Path, call: int) -> None:
        self.folder, self.call = Path(folder), call

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        if self._count() == self.call:
            with open(self.folder / "misbehaved", "a") as done:
                done.write(f"{type(self).__name__}\n")
            self.misbehave()
        return brightness_of_three(batch)

    def _count(self) -> int:
        with open(self.folder / "calls", "ab") as calls:
            calls.write(b".")
            calls.flush()
            return calls.tell()

    def misbehave(self) -> None:
        raise NotImplementedError


class DiesOnce(Once):
    def misbehave(self) -> None:
        os._exit(3)


class HangsOnce(Once):
    def misbehave(self) -> None:
        time.sleep(600)


class Slow:
    """Takes its time, and leaves the number of its process."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.seconds = Path(folder), seconds

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        with open(self.folder / "processes", "a") as processes:
            processes.write(f"{os.getpid()}\n")
        time.sleep(self.seconds)
        return brightness_of_three(batch)


class Meeting(Slow):
    """Takes no vote before so many processes have come to vote: nothing depends on which of them is quick."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder, 0.05)
        self.count = count

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        scores, end = super().__call__(batch), time.monotonic() + 120
        while len(set((self.folder / "processes").read_text().split())) < self.count and time.monotonic() < end:
            time.sleep(0.05)
        return scores
