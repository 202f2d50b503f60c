"""Copies of several images in one batch vote as they do alone, and each range gets its own votes back."""

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth.models import NOBODY
from soundsmooth.noise import Noisy, Purpose
from soundsmooth.noise.sources import CopyRange, FreshNoise
from soundsmooth.smoothing import voting as votings
from soundsmooth.smoothing.voting import PendingVotes, Voting

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
    return [votes.labels.tolist() for votes in PendingVotes(voting, ranges).votes()]


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


class Noting(Losing):
    """Notes in which thread its noise is made."""

    def __init__(self) -> None:
        super().__init__(0)
        self.threads: list[threading.Thread] = []

    def noisy(self, purpose: Purpose, x: np.ndarray, first: int, count: int, sure: bool = False) -> Noisy:
        self.threads.append(threading.current_thread())
        return super().noisy(purpose, x, first, count, sure)


@pytest.mark.parametrize(
    ("cores", "most", "ahead"), [(2, 1 << 24, True), (1, 1 << 24, False), (2, 39, False), (2, 40, True)]
)
def test_noise_is_made_ahead_where_a_core_and_memory_are_left(
    cores: int, most: int, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of ten copies have 40 elements. The votes are the same."""
    monkeypatch.setattr(votings, "BLOCK_ELEMENTS", 1)
    monkeypatch.setattr(votings, "MOST_AHEAD", most)
    monkeypatch.setattr(votings, "cores", lambda: cores)
    noise = Noting()
    ranges = [CopyRange(noise, np.full((2, 2), 115, np.int16), Purpose.ESTIMATION, range(30))]
    voting = Voting(MODEL, 10, MODEL.flags())
    (found,) = PendingVotes(voting, ranges).votes()
    assert len(noise.threads) == 3
    assert all((thread is not threading.current_thread()) == ahead for thread in noise.threads)
    monkeypatch.undo()
    (alone,) = PendingVotes(replace(voting, batch=30), ranges).votes()
    assert found.labels.tolist() == alone.labels.tolist()


def test_a_model_may_have_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(votings, "cores", lambda: 4)
    assert [Voting(MODEL, 10, {"threads": str(own)}).leaves_a_core for own in (1, 3, 4, 8)] == [
        True,
        True,
        False,
        False,
    ]
    assert Voting(MODEL, 10, {}).leaves_a_core
