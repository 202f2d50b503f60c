"""Boundaries for set radii, against every path in exact fractions, and the level that they use at the real sizes."""

from fractions import Fraction
from functools import cache
from itertools import accumulate, product
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soundsmooth.audit import group_sequential as audits
from soundsmooth.exact import BOUNDS, Look, Schedule, balls, boundaries, crossing_probability, group_sequential
from soundsmooth.exact import bounds as issuers
from walks import crossing, reaching

ALPHA = Fraction(1, 1000)
SCHEDULES = [
    ((3, 6, 9), (Fraction(1, 50), Fraction(1, 40), Fraction(1, 20))),
    ((1, 2, 3, 4, 5, 6, 7, 8), (Fraction(1, 80),) * 8),
    ((5, 12), (Fraction(1, 10**6), Fraction(1, 10))),
    ((40,), (ALPHA,)),
]


def defaults(n: int = 100_000, alpha: Fraction = ALPHA) -> tuple[tuple[int, ...], tuple[Fraction, ...]]:
    """Looks at 100·2^k, and levels that grow with the square of the votes."""
    looks = [100 * 2**k for k in range(30) if 100 * 2**k < n] + [n]
    spent = [alpha * Fraction(look, n) ** 2 for look in looks]
    return tuple(looks), tuple(after - before for before, after in zip([0, *spent], spent, strict=False))


@pytest.mark.parametrize(("looks", "levels"), SCHEDULES)
@pytest.mark.parametrize("p", [0.5000000000000001, 0.7, 0.95, 0.1])
def test_each_is_the_smallest_that_the_levels_allow(
    looks: tuple[int, ...], levels: tuple[Fraction, ...], p: float
) -> None:
    """Counted over all paths, in fractions; so also at every look on the way. One less would spend too much."""
    found = boundaries(p, looks, levels)
    for k, spent in enumerate(accumulate(levels), 1):
        assert reaching(p, looks[:k], found[:k]) <= spent
        if found[k - 1] > 0:
            assert reaching(p, looks[:k], [*found[: k - 1], found[k - 1] - 1]) > spent
    assert all(0 < b <= n + 1 for b, n in zip(found, looks, strict=True))
    for smaller in (p * 0.9, p * 0.999):
        assert reaching(smaller, looks, found) <= reaching(p, looks, found)


@pytest.mark.parametrize(("looks", "levels"), SCHEDULES)
@pytest.mark.parametrize("p", [0.5000000000000001, 0.7])
def test_the_probability_of_crossing_is_proved_from_above(
    looks: tuple[int, ...], levels: tuple[Fraction, ...], p: float
) -> None:
    found = boundaries(p, looks, levels)
    true = reaching(p, looks, found)
    assert (
        true <= Fraction(crossing_probability(p, looks, found)) <= true * (1 + Fraction(1, 10**15)) + Fraction(1, 2**60)
    )


@pytest.mark.parametrize("spare", [0, 1, 4, 9])
@pytest.mark.parametrize("p", [0.5000000000000001, 0.8])
def test_what_is_left_out_counts_as_crossed(spare: int, p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With so coarse a live that a good part of a level is left out, the levels still hold."""
    looks, levels = (10, 25, 45), (Fraction(1, 200), Fraction(1, 100), Fraction(1, 50))
    monkeypatch.setattr(group_sequential, "SPARE", (spare,))
    group_sequential._boundaries.cache_clear()
    found = boundaries(p, looks, levels)
    group_sequential._boundaries.cache_clear()
    for k, spent in enumerate(accumulate(levels), 1):
        assert reaching(p, looks[:k], found[:k]) <= spent
    monkeypatch.setattr(group_sequential, "GUARD", 4)
    assert reaching(p, looks, found) <= Fraction(crossing_probability(p, looks, found))


@pytest.mark.parametrize("rare", [Fraction(1, 20), Fraction(1, 300), Fraction(1, 10**9)])
@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(9, 10), Fraction(1, 100)])
def test_no_mass_disappears(rare: Fraction, p: Fraction) -> None:
    """What is alive, has crossed or is lost adds up to at least 1; without the lost it is less, however little."""
    with balls.precision(200):
        live = group_sequential._LiveHits(p, rare)
        for votes, crossing in ((10, 8), (25, 17), (200, 112)):
            live.advance(votes)
            live.absorb(crossing)
            kept = sum(live.state, live.crossed)
            assert balls.upper_end(kept + live.lost) >= 1
        assert balls.upper_end(kept) < 1
        assert balls.lower_end(live.lost) < 300 * rare


def test_where_too_much_is_lost_nothing_more_crosses() -> None:
    with balls.precision(200):
        live = group_sequential._LiveHits(Fraction(1, 2), Fraction(1, 10**9))
        live.advance(10)
        live.lost = balls.ball(Fraction(1, 2))
        assert live.lowest(Fraction(1, 3)) == (11, False)
        assert live.lowest(Fraction(2, 3)) == (8, False)  # P(H ≥ 7) is above 1/6, and not above 2/3


@st.composite
def schedules(draw: st.DrawFn) -> tuple[float, tuple[int, ...], tuple[Fraction, ...]]:
    looks = sorted(draw(st.sets(st.integers(1, 2000), min_size=1, max_size=6)))
    alpha = draw(st.sampled_from([Fraction(1, 2), Fraction(1, 20), ALPHA, Fraction(1, 10**12)]))
    parts = [draw(st.integers(1, 100)) for _ in looks]
    levels = tuple(alpha * Fraction(part, sum(parts)) for part in parts)
    p = draw(st.floats(0.01, 0.9999) | st.sampled_from([0.5000000000000001, 1 - 1e-6, 1e-6]))
    return p, tuple(looks), levels


@settings(max_examples=60)
@given(schedules())
def test_the_auditors_boundaries_are_the_same(case: tuple[float, tuple[int, ...], tuple[Fraction, ...]]) -> None:
    assert audits.boundaries(*case) == boundaries(*case)


@pytest.mark.parametrize("deviations", [0, 1, 2, 3])
def test_the_default_looks_use_nearly_all_of_alpha(deviations: int) -> None:
    """n = 100 000 and σ = ¼, radii in steps of ¼: at least 0.9 α up to 2.5 σ, by the auditor's boundaries too."""
    looks, levels = defaults()
    p = float(np.nextafter(NormalDist().cdf(deviations), 1))
    found = boundaries(p, looks, levels)
    assert audits.boundaries(p, looks, levels) == found
    spent = crossing_probability(p, looks, found)
    assert spent <= ALPHA
    assert spent >= (0.9 if deviations < 2.5 else 0.86) * float(ALPHA)


def test_the_probability_rises_with_p() -> None:
    """So its supremum over all p that a claim would be false for is at the threshold."""
    looks, levels = defaults(5000)
    found = boundaries(0.9, looks, levels)
    at = [crossing_probability(p, looks, found) for p in (0.01, 0.5, 0.8, 0.85, 0.88, 0.89, 0.899, 0.9)]
    assert at == sorted(at)
    assert at[-1] <= ALPHA


def test_an_exact_tie_is_not_proved_and_takes_the_larger_one() -> None:
    """P(H ≥ 4) = 5/16 for four votes at ½ plus nothing to spare: balls cannot tell, and one more hit is asked for."""
    half = Fraction(1, 2)
    assert boundaries(half, (4,), (Fraction(5, 16),)) == (4,)
    assert boundaries(half, (4,), (Fraction(5, 16) + Fraction(1, 10**60),)) == (3,)
    assert audits.boundaries(half, (4,), (Fraction(5, 16),)) == (4,)
    assert audits.boundaries(half, (4,), (Fraction(5, 16) + Fraction(1, 10**60),)) == (3,)


def test_where_no_count_will_do() -> None:
    assert boundaries(0.9, (10, 100), (ALPHA / 2, ALPHA / 2)) == (11, 99)
    assert audits.boundaries(0.9, (10, 100), (ALPHA / 2, ALPHA / 2)) == (11, 99)


def test_numbers_of_other_types_are_the_same_numbers() -> None:
    looks, levels = (100, 3_000_000_000 // 10**6), (ALPHA, ALPHA)
    plain = boundaries(0.75, looks, levels)
    group_sequential._boundaries.cache_clear()
    found = boundaries(np.float64(0.75), np.array(looks, np.int16), levels)
    assert found == plain
    assert all(type(b) is int for b in found)
    assert boundaries(0.5, (True, 2), (ALPHA, ALPHA)) == boundaries(0.5, (1, 2), (ALPHA, ALPHA))


@pytest.mark.parametrize(
    ("p", "looks", "levels"),
    [
        (0.5, (), ()),
        (0.5, (10,), (ALPHA, ALPHA)),
        (0.5, (10, 10), (ALPHA, ALPHA)),
        (0.5, (20, 10), (ALPHA, ALPHA)),
        (0.5, (0, 10), (ALPHA, ALPHA)),
        (0.5, (10, 20), (ALPHA, Fraction(0))),
        (0.5, (10, 20), (Fraction(1, 2), Fraction(1, 2))),
        (0.0, (10,), (ALPHA,)),
        (1.0, (10,), (ALPHA,)),
    ],
)
def test_what_has_no_boundaries_is_refused(p: float, looks: tuple[int, ...], levels: tuple[Fraction, ...]) -> None:
    for arithmetic in (boundaries, audits.boundaries):
        with pytest.raises(ValueError, match=r"looks|must lie"):
            arithmetic(p, looks, levels)
    if not 0 < p < 1:
        with pytest.raises(ValueError, match="strictly between"):
            crossing_probability(p, (10,), (5,))


# --- the level of whole bounds, whoever stops ------------------------------------------------------------

LOOKS, LEVELS = (3, 6, 9), (Fraction(1, 20), Fraction(1, 20), Fraction(1, 10))


@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(1, 2), Fraction(2, 3), Fraction(3, 4)])
@pytest.mark.parametrize("name", ["clopper-pearson", "group-sequential"])
def test_a_stop_at_the_worst_look_exceeds_the_truth_with_at_most_alpha(name: str, p: Fraction) -> None:
    """All paths of nine votes; a path is bad if after any look on it more than the truth is proved."""
    schedule = Schedule(LOOKS, LEVELS, (0.2, *(float(p) + step for step in (1e-9, 0.04, 0.08))))

    @cache
    def wrong(hits: tuple[int, ...]) -> bool:
        looks = [Look(n, h, 0) for n, h in zip(LOOKS, hits, strict=False)]
        return Fraction(BOUNDS[name].prove(looks, schedule)[0]) > p

    bad = Fraction(0)
    for path in product((0, 1), repeat=LOOKS[-1]):
        hits = tuple(sum(path[:n]) for n in LOOKS)
        if any(wrong(hits[:k]) for k in (1, 2, 3)):
            bad += p ** hits[-1] * (1 - p) ** (LOOKS[-1] - hits[-1])
    assert 0 < bad <= sum(LEVELS)


@pytest.mark.parametrize("p", [(5, 3, 2), (4, 4, 2), (1, 6, 3), (2, 2, 6)])
def test_both_sides_of_the_runner_up_together_fail_with_at_most_alpha(p: tuple[int, ...]) -> None:
    """Three classes, the first selected; a path is bad if any look bounds it too high or the others too low."""
    truth = [Fraction(part, 10) for part in p]

    def bad(k: int, counts: tuple[int, ...]) -> bool:
        look, level = Look(LOOKS[k], counts[0], max(counts[1:])), LEVELS[k]
        p_lower, p_upper = BOUNDS["runner-up"].prove([look], Schedule.fixed(look.n, level))
        return Fraction(p_lower) > truth[0] or (p_upper or 0.0) < max(truth[1:]) <= 1 - Fraction(p_lower)

    assert crossing(truth, LOOKS, bad) <= sum(LEVELS)


# --- from boundaries to a bound --------------------------------------------------------------------------


def test_a_threshold_needs_all_smaller_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boundaries need not rise with the threshold, nor be reached at the same look."""
    made = {0.6: (90, 150), 0.7: (80, 190), 0.8: (101, 180)}
    monkeypatch.setattr(issuers, "boundaries", lambda p, looks, levels: made[p])
    schedule = Schedule((100, 200), (ALPHA, ALPHA), (0.6, 0.7, 0.8))

    def proved(*hits: int) -> float:
        looks = [Look(n, h, 0) for n, h in zip((100, 200), hits, strict=False)]
        return BOUNDS["group-sequential"].prove(looks, schedule)[0]

    assert proved(85) == 0.0
    assert proved(89, 149) == 0.0
    assert proved(89, 150) == 0.7
    assert proved(90) == 0.7
    assert proved(79, 179) == 0.6
    assert proved(80, 180) == 0.8
    assert proved() == 0.0


@pytest.mark.parametrize("thresholds", [(), (0.6, 0.6), (0.7, 0.6), (0.0, 0.5)])
def test_thresholds_that_do_not_rise_are_refused(thresholds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="thresholds that rise"):
        BOUNDS["group-sequential"].prove([], Schedule((100,), (ALPHA,), thresholds))
