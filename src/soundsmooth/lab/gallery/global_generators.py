"""Algorithm 1 with noise from a framework's global generator, which the classifier can read and seed."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from ...noise import Purpose
from ..unsound import UnsoundStandard
from .certifiers import Answer, Array, CertifierTask, MakeScores, Refused, ask_standard, values, vote_and_certify

SINGLE = np.dtype("float32")


@dataclass(frozen=True)
class GlobalNumpy:
    """Algorithm 1 with NumPy's global generator, as ART has it (which draws in one go: it is the same stream)."""

    name: str = "standard-numpy"

    def certify(self, make: MakeScores, classes: int, x: Array, task: CertifierTask) -> Answer:
        def noisy(x: Array, purpose: Purpose, first: int, copies: int) -> Array:
            noise = np.random.normal(scale=float(task.sigma), size=(copies, *x.shape))
            return values(x, SINGLE) + noise.astype(SINGLE)

        return vote_and_certify(noisy, make(SINGLE), classes, x, task)


@dataclass(frozen=True)
class GlobalTorch:
    """Algorithm 1 with torch's global generator and a draw for every batch, as most code in use has it."""

    name: str = "standard-torch"

    def certify(self, make: MakeScores, classes: int, x: Array, task: CertifierTask) -> Answer:
        try:
            torch: Any = import_module("torch")
        except ImportError as error:
            raise Refused('torch is not installed: pip install "soundsmooth[torch]"') from error
        with torch.random.fork_rng(devices=[]):
            smooth = UnsoundStandard(make(SINGLE), classes, task.sigma, backend="torch")
            return ask_standard(smooth, values(x, SINGLE), task, batch=1000)
