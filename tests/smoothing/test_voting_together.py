"""Copies of several images in one batch vote as they do alone, and each range gets its own votes back."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth.models import NOBODY
from soundsmooth.noise import Noisy, Purpose
from soundsmooth.noise.sources import FreshNoise
from soundsmooth.smoothing import voting as votings
from soundsmooth.smoothing.voting import CopyRange, PendingVotes, Voting

KEY = bytes(range(32))
SMOOTHING = ss.Smoother(brightness_of_three, "1/2", threads=1, independence="assumed").smoothing
MODEL, SAMPLER = SMOOTHING.model, SMOOTHING.replicas[0].sampler

spans = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(1, 25)), min_size=1, max_size=6)


def copies(place: int, first: int, count: int) -> CopyRange:
    """Doubtful images, so that votes differ from copy to copy."""
    x = np.full((2, 2), 115 + 10 * place, np.int16)
    return CopyRange(FreshNoise(SAMPLER, KEY, place), x, Purpose.ESTIMATION, range(first, first + count))


def labels(ranges: Sequence[CopyRange], batch: int) -> list[list[int]]:
    voting = Voting(MODEL, batch, MODEL.flags())
    return [votes.labels.tolist() for votes in PendingVotes(voting, ranges, batch).votes()]


@given(spans, st.integers(1, 30), st.sampled_from([1, 64, 1 << 19]))
def test_each_copy_votes_as_alone(asked: list[tuple[int, int, int]], batch: int, elements: int) -> None:
    ranges = [copies(*each) for each in asked]
    alone = [labels([each], 7)[0] for each in ranges]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(votings, "BLOCK_ELEMENTS", elements)
        assert labels(ranges, batch) == alone


def test_the_votes_differ_so_that_the_test_above_can_fail() -> None:
    one, other = labels([copies(0, 0, 40), copies(1, 0, 40)], 10)
    assert len({*one}) > 1
    assert one != other
    assert one != labels([copies(0, 1, 40)], 10)[0]


class Losing:
    """Loses every third copy."""

    def __init__(self, stream: int) -> None:
        self.noise = FreshNoise(SAMPLER, KEY, stream)

    def noisy(self, purpose: Purpose, x: np.ndarray, first: int, count: int, sure: bool = False) -> Noisy:
        made = self.noise.noisy(purpose, x, first, count, sure)
        return Noisy(made.values, tuple(i for i in range(count) if (first + i) % 3 == 0), made.doubt)


def test_lost_copies_vote_for_nobody_wherever_they_lie() -> None:
    ranges = [copies(place, 5 * place, 11)._replace(noise=Losing(place)) for place in range(3)]
    for found, asked in zip(labels(ranges, 8), ranges, strict=True):
        assert [label == NOBODY for label in found] == [copy % 3 == 0 for copy in asked.copies]
