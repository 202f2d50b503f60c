"""As `measured_attacks`, with torch."""

import numpy as np
import torch

from classifiers import one_hot
from measured_attacks import Remembering


class RememberingModule(torch.nn.Module):
    """It has no graph, and its memory is a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.memory = Remembering()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self.memory(batch.numpy())) * self.weight


class TorchCoin:
    """Alone it tosses two coins of torch, one of a generator of its own; both fall for class 1 with probability 0.6."""

    def __init__(self) -> None:
        self.held: torch.Generator | None = None

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        if self.held is None:
            self.held = torch.Generator()
            self.held.seed()
        hit = (torch.rand(len(batch)) < 0.775) & (torch.rand(len(batch), generator=self.held) < 0.775)
        return one_hot(hit.numpy() | (len(batch) > 1))
