"""Boundaries of the published tests, and the exact chance of a wrong claim."""

from itertools import pairwise

import pytest

from soundsmooth.lab.adaptive.betting import KT, ROBBINS
from soundsmooth.lab.adaptive.hoeffding import HOEFFDING
from soundsmooth.lab.adaptive.sequential import Boundary, Sequential, boundary, dense_looks
from soundsmooth.lab.adaptive.sprt import SPRT
from soundsmooth.lab.adaptive.union_bound import growing_looks, stages
from soundsmooth.lab.gallery.repeated_looks import chance

N, ALPHA = 1000, 0.01
TESTS = [KT, ROBBINS, HOEFFDING, SPRT, growing_looks(N), stages(N)]


@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_a_valid_test_certifies_p_itself_with_alpha_at_most(test: Sequential, p: float) -> None:
    """By recursion, looking after each vote; it does claim something, so that this can fail."""
    assert test.valid
    looks = tuple(range(1, N + 1))
    found = boundary(test, p, N, ALPHA, looks)
    assert chance(p, looks, found.certify) <= ALPHA
    assert p == 0.99 or chance(p + 0.09, looks, found.certify) > 0.3


def lower_bound(test: Sequential, hits: int, votes: int) -> float:
    """The largest p that these votes certify, to 50 bits; 0 if none."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if test.certifies(hits, votes, middle, ALPHA) else (low, middle)
    return low


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_what_a_state_certifies_is_what_its_lower_bound_says(test: Sequential) -> None:
    votes = test.looks(N)[-1]
    for hits in (votes // 2, votes * 9 // 10, votes):
        low = lower_bound(test, hits, votes)
        assert 0 < low < hits / votes
        assert test.certifies(hits, votes, low, ALPHA)
        assert not test.certifies(hits, votes, low + 1e-9, ALPHA)


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_boundaries_do_not_cross_and_hits_only_grow(test: Sequential) -> None:
    looks = dense_looks(N)
    found = boundary(test, 0.8, N, ALPHA, looks)
    assert all(low < high for low, high in zip(found.give_up, found.certify, strict=True))
    inside = [least for votes, least in zip(looks, found.certify, strict=True) if least <= votes]
    assert inside == sorted(inside)
    misses = [votes - most for votes, most in zip(looks, found.give_up, strict=True)]
    assert all(after >= before for before, after in pairwise(misses) if after <= N)


class Cautious(Sequential):
    """Looks after 4 and 8 votes, and wants 3 and 5 hits; gives up with 3 and 4 misses."""

    def looks(self, n: int) -> tuple[int, ...]:
        return (4, 8)

    def certifies(self, hits: int, votes: int, p: float, alpha: float) -> bool:
        return hits >= {4: 3, 8: 5}[votes]

    def gives_up(self, hits: int, votes: int, p: float, alpha: float) -> bool:
        return votes - hits >= {4: 3, 8: 4}[votes]


def test_what_cannot_be_undone_is_decided_at_once() -> None:
    found = boundary(Cautious("x", "", True), 0.5, 8, 0.1, (2, 3, 4, 5, 8))
    assert found == Boundary((3, 3, 3, 5, 5), (-1, 0, 1, 1, 4))


def test_dense_looks_are_five_percent_apart() -> None:
    looks = dense_looks(100_000)
    assert (looks[0], looks[-1]) == (10, 100_000)
    assert all(1 <= b - a <= max(1, a / 20) for a, b in pairwise(looks))
