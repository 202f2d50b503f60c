"""A sample that is smaller than the promised batch: what is proved is proved for the batches that vote."""

import numpy as np
import pytest
import torch

import soundsmooth as ss
from soundsmooth.certification.settings import settings
from soundsmooth.smoothing.classifier import CPU_BATCH, voting_batch

IMAGE = np.full((1, 2, 2), 130, np.uint8)


class Mixing(torch.nn.Module):
    """Votes by the mean over the batch, in batches of one size only."""

    def __init__(self, mixed: int) -> None:
        super().__init__()
        self.mixed = mixed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bright = x.flatten(1).mean(1)
        if x.shape[0] == self.mixed:
            bright = bright.mean().expand(self.mixed)
        return torch.stack([0.5 - bright, bright - 0.5], 1)


def test_a_model_that_mixes_small_batches_is_not_proved() -> None:
    """60 copies are one batch of 60, whatever size is promised."""
    smooth = ss.Smoother(Mixing(60), "1/2", threads=1, independence="proved")
    with pytest.raises(ValueError, match="independence cannot be proved for this module"):
        smooth.certify(IMAGE, n=60, n0=10)
    with pytest.raises(ValueError, match="the vote of a row depends on its batch"):
        ss.Smoother(Mixing(60), "1/2", threads=1, independence="checked").certify(IMAGE, n=60, n0=10)


def test_where_it_does_not_mix_it_is_proved() -> None:
    smooth = ss.Smoother(Mixing(CPU_BATCH), "1/2", threads=1)
    found = smooth.certify(IMAGE, n=60, n0=10, seed="small")
    assert found.promise.independence.proved
    assert found.promise.values["batch"] == str(CPU_BATCH)
    assert smooth.smoothing.model.report.batch == 60


@pytest.mark.parametrize(
    ("n", "radii", "noise", "rows"),
    [(60, None, "fresh", 60), (100, None, "fresh", 100), (700, None, "fresh", 100), (60, "0", "fresh", 100),
     (60, "0", "shared", 60)],
)  # fmt: skip
def test_the_rows_that_vote_together(n: int, radii: str | None, noise: str, rows: int) -> None:
    """Images with looks share whole batches, however few copies each has."""
    chosen = settings(n=n, radii=radii, noise=noise)
    assert voting_batch(ss.Smoother(Mixing(3), "1/2", threads=1).smoothing.model, CPU_BATCH, chosen) == rows
