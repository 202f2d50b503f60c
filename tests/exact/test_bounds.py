"""The two registries of bounds: the same names and kinds, and neither believes more than the other."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from soundsmooth import audit, exact
from soundsmooth.audit import bounds as audits
from soundsmooth.certification.settings import settings
from soundsmooth.exact import (
    BOUNDS,
    Bound,
    Look,
    Schedule,
    clopper_pearson_above,
    clopper_pearson_below,
    float_above,
)

ALPHA = Fraction(1, 1000)
LOOKS = [Look(1000, hits, others) for hits, others in ((0, 1000), (500, 500), (700, 200), (990, 4), (1000, 0))]


THRESHOLDS = (0.5000000000000001, 0.75, 0.9, 0.97, 0.99)


def kind(bound: Bound | audits.Bound) -> tuple[bool, ...]:
    return bound.two_sided, bound.measurable, bound.repeatable, bound.radii, bound.positions, bound.coin


def test_both_arithmetics_have_the_same_bounds_in_the_same_order() -> None:
    issuers = [(name, *kind(bound)) for name, bound in BOUNDS.items()]
    auditors = [(name, *kind(bound)) for name, bound in audits.BOUNDS.items()]
    assert issuers == auditors
    assert settings().bound == next(iter(BOUNDS)) == "clopper-pearson"


def once(alpha: Fraction = ALPHA) -> tuple[Schedule, audits.Schedule]:
    """One look; its thresholds and its coin are for the bounds that need some."""
    said = ((1000,), (alpha,), THRESHOLDS, Fraction(1, 3))
    return Schedule(*said), audits.Schedule(*said)


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("look", LOOKS)
def test_what_one_proves_the_other_accepts_and_nothing_better(name: str, look: Look) -> None:
    issuers, auditors = once()
    p_lower, p_upper = BOUNDS[name].prove([look], issuers)
    theirs, own = audits.BOUNDS[name], [audits.Look(*look)]
    assert (p_upper is not None) == BOUNDS[name].two_sided
    assert theirs.holds(p_lower, p_upper, own, auditors)
    assert theirs.holds(*theirs.prove(own, auditors), own, auditors)
    assert not theirs.holds(p_lower * (1 + 2.0**-40) or 2.0**-40, p_upper, own, auditors)
    if p_upper is not None:
        assert not theirs.holds(p_lower, p_upper * (1 - 2.0**-40), own, auditors)


@pytest.mark.parametrize("name", BOUNDS)
def test_a_bound_on_the_others_is_there_exactly_where_it_belongs(name: str) -> None:
    look = audits.Look(1000, 900, 50)
    unfit = None if audits.BOUNDS[name].two_sided else 1.0
    assert not audits.BOUNDS[name].holds(0.0, unfit, [look], once()[1])


@pytest.mark.parametrize("name", BOUNDS)
def test_what_goes_with_measured_independence(name: str) -> None:
    """Only bounds for which it is proved; then rows alone get no better a bound than rows in batches."""
    if not BOUNDS[name].measurable:
        with pytest.raises(ValueError, match="does not go with measured independence"):
            BOUNDS[name].prove_alone(LOOKS[3:4], 100, 0, once()[0])
        with pytest.raises(ValueError, match="independence cannot be measured with the bound"):
            audit.read_terms(promised(name))
        return
    alone, p_upper = BOUNDS[name].prove_alone(LOOKS[3:4], 100, 1, once()[0])
    assert alone < BOUNDS[name].prove(LOOKS[3:4], once(ALPHA / 4)[0])[0]
    assert p_upper is None
    assert audit.read_terms(promised(name)).again == 100


# --- several looks ---------------------------------------------------------------------------------------

THREE = ((100, Fraction(1, 10**5)), (400, Fraction(1, 10**4)), (1000, Fraction(8, 10**4)))
SEEN = [Look(100, 99, 1), Look(400, 380, 15), Look(1000, 960, 30)]


def three(kind: type[Schedule] | type[audits.Schedule]) -> Any:
    return kind(tuple(n for n, _ in THREE), tuple(level for _, level in THREE))


def own(looks: Sequence[Look]) -> list[audits.Look]:
    return [audits.Look(*look) for look in looks]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_the_best_of_the_looks_counts_each_at_its_level(count: int) -> None:
    each = [clopper_pearson_below(look.hits, look.n, THREE[k][1]) for k, look in enumerate(SEEN[:count])]
    assert BOUNDS["clopper-pearson"].prove(SEEN[:count], three(Schedule)) == (max(each, default=0.0), None)
    lower = [clopper_pearson_below(look.hits, look.n, THREE[k][1] / 2) for k, look in enumerate(SEEN[:count])]
    upper = [clopper_pearson_above(look.others, look.n, THREE[k][1] / 2) for k, look in enumerate(SEEN[:count])]
    p_lower = max(lower, default=0.0)
    expected = min([*upper, float_above(1 - Fraction(p_lower))])
    assert BOUNDS["runner-up"].prove(SEEN[:count], three(Schedule)) == (p_lower, expected)


@pytest.mark.parametrize("name", ["clopper-pearson", "runner-up"])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_the_auditor_accepts_what_looks_prove_and_nothing_better(name: str, count: int) -> None:
    bound, seen, schedule = audits.BOUNDS[name], own(SEEN[:count]), three(audits.Schedule)
    p_lower, p_upper = BOUNDS[name].prove(SEEN[:count], three(Schedule))
    assert bound.prove(seen, schedule) == (p_lower, p_upper)
    assert bound.holds(p_lower, p_upper, seen, schedule)
    assert not bound.holds(p_lower * (1 + 2.0**-40) or 2.0**-40, p_upper, seen, schedule)
    if p_upper is not None:
        assert not bound.holds(p_lower, p_upper * (1 - 2.0**-40), seen, schedule)


def test_an_early_look_may_be_the_best() -> None:
    """The later ones take nothing away: a claim once proved stays."""
    worse = [*SEEN[:2], Look(1000, 700, 300)]
    for name in ("clopper-pearson", "runner-up"):
        assert BOUNDS[name].prove(worse, three(Schedule)) == BOUNDS[name].prove(SEEN[:2], three(Schedule))
        proved = audits.BOUNDS[name].prove(own(worse), three(audits.Schedule))
        assert proved == BOUNDS[name].prove(worse, three(Schedule))


def test_rows_alone_count_at_the_last_look_only() -> None:
    alone = BOUNDS["clopper-pearson"].prove_alone(SEEN[:2], 300, 2, three(Schedule))
    assert alone == BOUNDS["clopper-pearson"].prove_alone(SEEN[1:2], 300, 2, Schedule.fixed(400, THREE[1][1]))
    assert BOUNDS["clopper-pearson"].prove_alone([], 300, 2, three(Schedule)) == (0.0, None)


def test_hoeffding_looks_once() -> None:
    with pytest.raises(ValueError, match="one look at a fixed number of votes"):
        BOUNDS["hoeffding"].prove([], three(Schedule))
    for ask in (audits.BOUNDS["hoeffding"].prove, lambda *they: audits.BOUNDS["hoeffding"].holds(0.0, None, *they)):
        with pytest.raises(ValueError, match="one look at a fixed number of votes"):
            ask([], three(audits.Schedule))


def test_the_randomized_bound_looks_once_and_needs_a_coin() -> None:
    without, coin = Schedule.fixed(1000, ALPHA), Fraction(1, 3)
    for schedule in (without, three(Schedule)._replace(coin=coin)):
        with pytest.raises(ValueError, match="one look"):
            BOUNDS["randomized"].prove([], schedule)
        for ask in (audits.BOUNDS["randomized"].prove, partial(audits.BOUNDS["randomized"].holds, 0.0, None)):
            with pytest.raises(ValueError, match="one look"):
                ask([], audits.Schedule(*schedule))  # type: ignore[operator]
    assert BOUNDS["randomized"].prove([], without._replace(coin=coin)) == (0.0, None)
    assert audits.BOUNDS["randomized"].prove([], audits.Schedule(*without)._replace(coin=coin)) == (0.0, None)


@pytest.mark.parametrize(
    "schedule",
    [
        ((), ()),
        ((100, 200), (ALPHA,)),
        ((100, 100), (ALPHA, ALPHA)),
        ((200, 100), (ALPHA, ALPHA)),
        ((0, 100), (ALPHA, ALPHA)),
        ((100, 200), (ALPHA, Fraction(0))),
        ((100, 200), (Fraction(1, 2), Fraction(1, 2))),
    ],
)
def test_what_is_no_schedule_is_refused(schedule: tuple[Any, Any]) -> None:
    for name in ("clopper-pearson", "runner-up"):
        with pytest.raises(ValueError, match=r"look|level|rise"):
            BOUNDS[name].prove([], Schedule(*schedule))
        with pytest.raises(ValueError, match=r"look|level"):
            audits.BOUNDS[name].prove([], audits.Schedule(*schedule))


@pytest.mark.parametrize(
    "looks",
    [
        SEEN[1:],
        [*SEEN, Look(2000, 1900, 50)],
        [Look(101, 99, 1)],
    ],
)
def test_looks_that_were_not_promised_are_refused(looks: list[Look]) -> None:
    for name in ("clopper-pearson", "runner-up"):
        with pytest.raises(ValueError, match="counted"):
            BOUNDS[name].prove(looks, three(Schedule))
        with pytest.raises(ValueError, match="counted"):
            audits.BOUNDS[name].holds(0.0, 1.0, own(looks), three(audits.Schedule))


@pytest.mark.parametrize("second", [(98, 1), (400, 1), (380, 0), (380, 401)])
def test_counts_that_cannot_follow_each_other_are_refused(second: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="cannot follow"):
        BOUNDS["clopper-pearson"].prove([SEEN[0], Look(400, *second)], three(Schedule))


def promised(bound: str) -> dict[str, str]:
    fixed = {"n0": "100", "n": "1000", "alpha": "1/1000", "sigma": "1/4"}
    return {**fixed, "bound": bound, "independence": "measured m=100"}


def test_the_front_door_has_them() -> None:
    assert exact.BOUNDS is BOUNDS


def test_of_several_looks_one_hit_proves_nothing_of_the_winner() -> None:
    """One position of ten is a hit with probability 10·p̄, and the others never. Then one hit, whose bound exceeds p̄, is
    more probable than its level. A later look with a thousand classes has a smaller p_upper, and would certify.
    """
    half, p = Fraction(1, 8), Fraction(132, 10_000)
    assert clopper_pearson_below(1, 10, half) > p
    assert 10 * p > half
    looks, spent = [Look(10, 1, 1), Look(1000, 1, 1)], ((10, 1000), (2 * half, Fraction(1, 10**6)))
    later = [*looks[:1], Look(1000, 4, 1)]
    assert clopper_pearson_above(1, 1000, half) < clopper_pearson_below(1, 10, half)
    theirs = [audits.Look(*look) for look in looks]
    assert BOUNDS["runner-up"].prove(looks, Schedule(*spent))[0] == 0
    assert audits.BOUNDS["runner-up"].prove(theirs, audits.Schedule(*spent))[0] == 0
    assert not audits.BOUNDS["runner-up"].holds(0.0132, 0.9, theirs, audits.Schedule(*spent))
    p_lower, _ = BOUNDS["runner-up"].prove(later, Schedule(*spent))
    assert p_lower == clopper_pearson_below(4, 1000, Fraction(1, 2 * 10**6))
    alone = BOUNDS["runner-up"].prove(looks[:1], Schedule.fixed(10, 2 * half))
    assert alone[0] == clopper_pearson_below(1, 10, half)
