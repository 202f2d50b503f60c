"""A lone image: the certificate is that of a run with this image, without a store."""

from dataclasses import replace

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness, brightness_of_three
from soundsmooth.runs.voter import AHEAD

IMAGE = np.full((1, 2, 2), 150, np.uint8)


def without_time(certificate: ss.Certificate) -> ss.Certificate:
    return replace(certificate, seconds=0.0, environment={})


def both_ways(smooth: ss.Smoother, **choices: object) -> tuple[ss.Certificate, ss.Certificate]:
    """Alone, and in a run of one image."""
    lone = smooth.certify(IMAGE, label=1, seed="s", **choices)
    with smooth.certify_all([IMAGE], [1], seed="s", **choices) as run:
        (stored,) = run
    return without_time(lone), without_time(stored)


@pytest.mark.parametrize("bound", ["clopper-pearson", "hoeffding", "runner-up"])
@pytest.mark.parametrize("scores", [brightness, brightness_of_three])
def test_it_is_the_certificate_of_a_run(scores: object, bound: str) -> None:
    lone, stored = both_ways(ss.Smoother(scores, "1/4"), n=700, n0=30, bound=bound)
    assert lone == stored
    assert lone.commitment == stored.commitment


def test_many_blocks_are_counted_like_one() -> None:
    """More blocks than are begun together."""
    blocks = 2 * AHEAD + 3
    lone, stored = both_ways(ss.Smoother(brightness, "1/4", batch_size=5000), n=10_000 * blocks, n0=10_000)
    assert lone == stored
    assert lone.estimation.total == 10_000 * blocks


@pytest.mark.slow("starts processes for rows alone, twice")
def test_measured_rows_are_those_of_a_run() -> None:
    lone, stored = both_ways(ss.Smoother(brightness, "1/4", independence="measured", again=50), n=20_000)
    assert lone == stored
    assert lone.measured is not None
    assert lone.measured.rows == 50


def test_an_error_is_tried_again_on_the_same_noise_and_then_raised() -> None:
    seen: list[bytes] = []

    def moody(batch: np.ndarray) -> np.ndarray:
        seen.append(batch.tobytes())
        if len(seen) < 3:
            raise RuntimeError("not today")
        return brightness(batch)

    smooth = ss.Smoother(moody, "1/4", batch_size=30, independence="assumed")
    assert smooth.certify(IMAGE, n=60, n0=30, seed="s").estimation.total == 60
    assert seen.count(seen[0]) >= 2

    def never(_: np.ndarray) -> np.ndarray:
        raise RuntimeError("never")

    with pytest.raises(ValueError, match="the model failed: RuntimeError: never"):
        ss.Smoother(never, "1/4", independence="assumed").certify(IMAGE, n=60)


def test_a_model_that_changes_after_the_last_vote_gets_no_certificate() -> None:
    """A look comes after the last vote, too."""
    torch = pytest.importorskip("torch")

    class Learns(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, batch: "torch.Tensor") -> "torch.Tensor":
            self.calls += 1
            bright = batch.mean(dim=(1, 2, 3))
            return torch.stack([0.5 - bright, bright - 0.5], dim=1)

    with pytest.raises(ValueError, match="the model changed"):
        ss.Smoother(Learns(), "1/4", batch_size=100, independence="assumed").certify(IMAGE, n=200)
