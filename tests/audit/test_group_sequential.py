"""The auditor's boundaries: everything is rounded down, and what is missing counts as crossed."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundsmooth.audit import bounds, group_sequential
from soundsmooth.audit.group_sequential import boundaries, masses_below, product
from walks import reaching

ALPHA = Fraction(1, 1000)
LOOKS, LEVELS = (10, 25, 45), (Fraction(1, 200), Fraction(1, 100), Fraction(1, 50))


@pytest.fixture
def nothing_kept() -> Iterator[None]:
    group_sequential._boundaries.cache_clear()
    yield
    group_sequential._boundaries.cache_clear()


@pytest.mark.parametrize("p", [0.5000000000000001, 0.8, 0.2])
def test_each_is_the_smallest_that_the_levels_allow(p: float) -> None:
    found = boundaries(p, LOOKS, LEVELS)
    for k, spent in enumerate(accumulate(LEVELS), 1):
        assert reaching(p, LOOKS[:k], found[:k]) <= spent
        assert reaching(p, LOOKS[:k], [*found[: k - 1], found[k - 1] - 1]) > spent


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize(("digits", "rare"), [(0, 0), (0, 2), (0, 40), (1, 300), (2, 1000)])
@pytest.mark.parametrize("p", [0.5000000000000001, 0.6, 0.7, 0.8])
def test_what_is_missing_counts_as_crossed(digits: int, rare: int, p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few digits and wide ends cut off, the levels still hold; more hits may be asked for."""
    fine = boundaries(p, LOOKS, LEVELS)
    group_sequential._boundaries.cache_clear()
    monkeypatch.setattr(group_sequential, "DIGITS", (digits,))
    monkeypatch.setattr(group_sequential, "RARE", rare)
    found = boundaries(p, LOOKS, LEVELS)
    for k, spent in enumerate(accumulate(LEVELS), 1):
        assert reaching(p, LOOKS[:k], found[:k]) <= spent
    assert found != fine or digits


@given(st.lists(st.integers(0, 10**30), min_size=1, max_size=40), st.lists(st.integers(0, 99), min_size=1, max_size=40))
def test_products_of_polynomials_are_exact(first: list[int], second: list[int]) -> None:
    expected = [0] * (len(first) + len(second) - 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            expected[i + j] += a * b
    assert product(first, second) == expected


@pytest.mark.parametrize("n", [1, 2, 10, 60])
@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(1, 100), Fraction(999, 1000)])
@pytest.mark.parametrize("one", [10**6, 10**40])
def test_masses_are_below_the_true_ones_and_near(n: int, p: Fraction, one: int) -> None:
    """Near: what rounding and rare counts take is less than the end that is cut off, on either side of each mass."""
    low, found = masses_below(n, p, one)
    mass, true = (1 - p) ** n, []
    for i in range(n + 1):
        true.append(mass)
        mass *= Fraction(n - i, i + 1) * p / (1 - p)
    assert all(Fraction(x, one) <= true[low + i] for i, x in enumerate(found))
    assert sum(found) >= one - 10 * group_sequential.RARE - n**3


def test_bounds_are_accepted_up_to_the_last_threshold_that_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boundaries need not rise with the threshold; all smaller ones must have been reached, at any look."""
    made = {0.6: (90, 150), 0.7: (80, 190), 0.8: (101, 180)}
    monkeypatch.setattr(bounds, "boundaries", lambda p, looks, levels: made[p])
    schedule = bounds.Schedule((100, 200), (ALPHA, ALPHA), (0.6, 0.7, 0.8))
    bound = bounds.BOUNDS["group-sequential"]
    for hits, proved in (
        ((), 0.0),
        ((85,), 0.0),
        ((89, 149), 0.0),
        ((89, 150), 0.7),
        ((90,), 0.7),
        ((79, 179), 0.6),
        ((80, 180), 0.8),
    ):
        looks = [bounds.Look(n, h, 0) for n, h in zip((100, 200), hits, strict=False)]
        assert bound.prove(looks, schedule) == (proved, None)
        for p in (0.0, 0.1, 0.55, 0.6, 0.61, 0.7, 0.75, 0.8, 0.81, 1.0, float("nan")):
            assert bound.holds(p, None, looks, schedule) == (p <= proved)
        assert not bound.holds(0.0, 1.0, looks, schedule)


@pytest.mark.parametrize("thresholds", [(), (0.6, 0.6), (0.7, 0.6), (0.0, 0.5), (0.5, 1.0)])
def test_thresholds_that_do_not_rise_are_refused(thresholds: tuple[float, ...]) -> None:
    schedule = bounds.Schedule((100,), (ALPHA,), thresholds)
    for ask in (bounds.BOUNDS["group-sequential"].prove, lambda *they: bounds._threshold_holds(0.0, None, *they)):
        with pytest.raises(ValueError, match="thresholds that rise"):
            ask([], schedule)
