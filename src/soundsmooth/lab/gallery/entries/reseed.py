"""A model that seeds the global generator which the noise is drawn from, and subtracts the noise that it now knows.

One seeds torch's generator in every call and so knows the noise of the next batch. The other seeds NumPy's once, when
it is loaded, as much honest code does, and keeps a twin in step. So 210/255 and 209/255 are told apart as if there were
no noise. Where the certifier has a generator of its own, the subtracted numbers are only more noise. Ours has one, and
even so refuses where it is asked for proof that f keeps its hands off.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np

from ..assumption_breakers import proving
from ..certifiers import Array, Certifier, CertifierTask, Scores, one_hot
from ..contradicting_pairs import Pair, try_pair
from ..global_generators import GLOBAL_NUMPY, GLOBAL_TORCH
from ..options import Options
from ..trial import Trial

CLAIM = "f seeds the global generator and subtracts the noise that it now knows: 210/255 against 209/255"
SIGMA = 0.5
MIDDLE = 209.5 / 255


def seeds_numpy(dtype: np.dtype[Any]) -> Scores:
    """Class 1 where the row, less the noise foreseen for it, lies above the middle of the two levels."""
    np.random.seed(0)
    twin = np.random.RandomState(0)

    def scores(batch: Array) -> Array:
        image = batch - SIGMA * twin.normal(size=batch.shape)
        return one_hot(image.reshape(len(batch), -1)[:, 0] > MIDDLE)

    return scores


def seeds_torch(dtype: np.dtype[Any]) -> Scores:
    """The same with torch, whose generator is seeded anew in every call."""
    torch: Any = import_module("torch")
    torch.manual_seed(0)

    def scores(batch: Any) -> Any:
        torch.manual_seed(0)
        image = batch - SIGMA * torch.randn(batch.shape, dtype=batch.dtype)
        torch.manual_seed(0)
        hit = image.reshape(len(batch), -1)[:, 0] > MIDDLE
        return torch.stack([~hit, hit], 1).float()

    return scores


EXTRA: tuple[Certifier, ...] = (GLOBAL_TORCH, GLOBAL_NUMPY)


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """One level apart; NumPy's global generator is put back as it was."""
    task, kept = CertifierTask(Fraction(SIGMA), options.n or 100_000), np.random.get_state()
    pair = Pair(seeds_numpy, np.full(1, 210), np.full(1, 209), note="np.random.seed when it is loaded")
    torch_pair = replace(pair, make=seeds_torch, note="torch.manual_seed in every call")
    try:
        yield try_pair("reseed", GLOBAL_TORCH, torch_pair, task)
        for certifier in [GLOBAL_NUMPY, *proving(certifiers)]:
            yield try_pair("reseed", certifier, pair, task)
    finally:
        np.random.set_state(kept)
