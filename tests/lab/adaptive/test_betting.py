"""Betting by KT: its wealth bet by bet, and what the released threshold of 1/(2α) is worth."""

from math import exp

import pytest

from soundsmooth.lab.adaptive.betting import KT, KT_AS_RELEASED, ROBBINS, log_wealth
from soundsmooth.lab.adaptive.sequential import boundary
from soundsmooth.lab.gallery.repeated_looks import chance


@pytest.mark.parametrize("prior", [0.5, 1.0])
def test_wealth_is_the_product_of_the_bets(prior: float) -> None:
    wealth, hits, p = 1.0, 0, 0.7
    for votes, hit in enumerate([1, 1, 0, 1, 0, 0, 1, 1, 1, 0]):
        forecast = (hits + prior) / (votes + 2 * prior)
        wealth *= forecast / p if hit else (1 - forecast) / (1 - p)
        hits += hit
    assert exp(log_wealth(hits, 10, p, prior)) == pytest.approx(wealth)
    assert log_wealth(3, 4, 1.0, prior) == float("inf")


def test_the_released_threshold_claims_more() -> None:
    """Hits that are enough with wealth 1/(2α) need not be enough with 1/α; and both stay below their proved levels."""
    looks, alpha = tuple(range(1, 1001)), 0.01
    for p in (0.5, 0.9):
        released, careful = (boundary(test, p, 1000, alpha, looks).certify for test in (KT_AS_RELEASED, KT))
        assert all(a <= b for a, b in zip(released, careful, strict=True))
        assert chance(p, looks, careful) < chance(p, looks, released) < 2 * alpha
    assert not KT_AS_RELEASED.valid
    assert KT.valid
    assert ROBBINS.valid
