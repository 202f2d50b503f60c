"""Algorithm 1 with noise from a framework's global generator, which the classifier can read and seed."""

from importlib import import_module
from typing import Any

import numpy as np

from ...noise import Purpose
from ..unsound import UnsoundStandard
from .certifiers import (
    Answer,
    Array,
    CertifierTask,
    MakeScores,
    Procedure,
    Refused,
    ask_standard,
    values,
    vote_and_certify,
)

SINGLE = np.dtype("float32")


def certify_with_numpy(make: MakeScores, classes: int, x: Array, task: CertifierTask) -> Answer:
    """Algorithm 1 with NumPy's global generator, as ART has it (which draws in one go: it is the same stream)."""

    def noisy(x: Array, purpose: Purpose, first: int, copies: int) -> Array:
        noise = np.random.normal(scale=float(task.sigma), size=(copies, *x.shape))
        return values(x, SINGLE) + noise.astype(SINGLE)

    return vote_and_certify(noisy, make(SINGLE), classes, x, task)


def certify_with_torch(make: MakeScores, classes: int, x: Array, task: CertifierTask) -> Answer:
    """Algorithm 1 with torch's global generator and a draw for every batch, as most code in use has it."""
    try:
        torch: Any = import_module("torch")
    except ImportError as error:
        raise Refused('torch is not installed: pip install "soundsmooth[torch]"') from error
    with torch.random.fork_rng(devices=[]):
        smooth = UnsoundStandard(make(SINGLE), classes, task.sigma, backend="torch")
        return ask_standard(smooth, values(x, SINGLE), task, batch=1000)


GLOBAL_NUMPY = Procedure("standard-numpy", certify_with_numpy)
GLOBAL_TORCH = Procedure("standard-torch", certify_with_torch)
