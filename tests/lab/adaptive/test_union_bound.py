"""The parts of α sum to one at most, and one look is Clopper–Pearson."""

import pytest
from scipy.stats import binom

from soundsmooth.lab.adaptive.union_bound import growing_looks, stages, tail


@pytest.mark.parametrize("n", [1000, 100_000])
def test_the_parts_sum_to_one_at_most(n: int) -> None:
    assert stages(n).looks(n) == (n // 1000, n // 100, n // 10, n)
    for test in (stages(n), growing_looks(n)):
        assert sum(test.parts.values()) <= 1 + 1e-12
        assert list(test.parts) == sorted(test.parts)
    assert list(growing_looks(n).parts)[:4] == [3, 4, 5, 6]
    assert sum(growing_looks(n).parts.values()) > 0.9


def test_tails() -> None:
    for hits in (0, 1, 700, 730, 760, 1000):
        assert tail(hits, 1000, 0.7) == pytest.approx(binom.sf(hits - 1, 1000, 0.7), rel=1e-9, abs=1e-15)
    assert (tail(3, 10, 0.0), tail(3, 10, 1.0)) == (0.0, 1.0)
