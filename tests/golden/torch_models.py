"""Models of the golden files, as torch modules.

Their digests hash this module's name and the source of the classes: never edit, move or reformat one of them.
"""

import torch

WEIGHTS = [[1.0, 0.0, 0.0, -1.0], [0.0, 1.0, 0.0, 0.0], [-1.0, 0.0, 1.0, 0.0]]


class Differences(torch.nn.Module):
    """One linear layer, with at most two terms for each score."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = torch.nn.Linear(4, 3, bias=False)
        with torch.no_grad():
            self.scores.weight.copy_(torch.tensor(WEIGHTS))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.scores(batch.flatten(1))


def make_differences() -> torch.nn.Module:
    return Differences()


class Neighbours(torch.nn.Module):
    """Rows see each other, so nothing is proved."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        x = batch.flatten(1)
        return torch.stack([x[:, 0], x[:, 1], torch.roll(x[:, 2], 1)], dim=1)


def make_neighbours() -> torch.nn.Module:
    return Neighbours()
