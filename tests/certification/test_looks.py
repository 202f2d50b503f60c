"""The looks of a promise: each line has one spelling, and what breaks the guarantee is refused."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundsmooth.certification.looks import (
    MOST_RADII,
    Group,
    Looks,
    check_alpha_unproved,
    check_bound,
    check_counts,
    check_levels,
)
from soundsmooth.exact import BOUNDS, Look

ALPHA = Fraction(1, 10)
RADII = ((Fraction(0), 0.6), (Fraction(1, 4), 0.8))
LOOKS = Looks(
    (10, 20, 40),
    (Fraction(1, 40), Fraction(1, 40), Fraction(1, 20)),
    RADII,
    (((0, 3), (7, 9)), ()),
    skip_wrong=True,
    group=Group(8, 100),
)


def test_what_is_written_is_read() -> None:
    assert Looks.of_lines(LOOKS.lines) == LOOKS
    assert LOOKS.lines["looks"] == "10=1/40 20=1/40 40=1/20"
    assert LOOKS.lines["go on"] == "0-3,7-9 none"
    assert LOOKS.lines["group"] == "8 images 100 copies"
    bare = Looks((40,), (ALPHA,))
    assert list(bare.lines) == ["looks"]
    assert Looks.of_lines(bare.lines) == bare


def test_a_promise_without_looks_has_none() -> None:
    assert Looks.of_lines({"n": "100"}) is None


@pytest.mark.parametrize("name", ["radii", "go on", "wrong labels", "group"])
def test_a_line_without_looks_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"a line '{name}', but none of looks"):
        Looks.of_lines({name: LOOKS.lines[name]})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("looks", "10=1/40 20=1/40 40=2/40"),
        ("looks", "10=1/40  20=1/40 40=1/20"),
        ("looks", "10 20 40"),
        ("looks", "1٠=1/40 20=1/40 40=1/20"),
        ("looks", "10.0=1/40 20=1/40 40=1/20"),
        ("looks", "10=0.025 20=1/40 40=1/20"),
        ("radii", "0=0.6 1/4=0.8"),
        ("radii", "0=0x1.3333333333333p-1 2/8=0x1.999999999999ap-1"),
        ("go on", "0-3,7-9 None"),
        ("go on", "0-3,7- none"),
        ("go on", "00-3,7-9 none"),
        ("wrong labels", "kept"),
        ("group", "8 images"),
        ("group", "08 images 100 copies"),
    ],
)
def test_each_line_has_one_spelling(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"promise|Invalid"):
        Looks.of_lines({**LOOKS.lines, name: text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("looks", "10=1e999999999 20=1/40 40=1/20"),
        ("looks", f"10=1/{'9' * 3000} 20=1/40 40=1/20"),
        ("looks", "10=1/0 20=1/40 40=1/20"),
        ("radii", "1e999999999=0x1.3333333333333p-1"),
        ("radii", "0=0x1p99999"),
        ("radii", "1/0=0x1.3333333333333p-1"),
    ],
)
def test_numbers_that_nobody_can_compute_with_are_refused_at_once(name: str, text: str) -> None:
    """As a ValueError, which readers of files expect."""
    with pytest.raises(ValueError, match="the promise"):
        Looks.of_lines({**LOOKS.lines, name: text})


def test_what_is_promised_passes() -> None:
    LOOKS.check(40, ALPHA, "clopper-pearson")
    LOOKS.check(40, ALPHA, "group-sequential")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"counts": (10, 10, 40)}, "looks must rise, each at more copies than the one before: 10, 10, 40"),
        ({"counts": (20, 10, 40)}, "looks must rise"),
        ({"counts": (0, 20, 40)}, "looks must rise"),
        ({"counts": (10, 20, 30)}, "the last look is at all n = 40 copies, not at 30"),
        ({"counts": ()}, "between 1 and 64 looks"),
        ({"levels": (Fraction(1, 40), Fraction(1, 40), Fraction(1, 19))}, r"the looks spend .* more than alpha = 1/10"),
        ({"levels": (ALPHA, ALPHA, ALPHA)}, "the looks spend 3/10 in all, which is more than alpha = 1/10"),
        ({"levels": (Fraction(0), Fraction(1, 40), Fraction(1, 40))}, "each look spends something of alpha: 0,"),
        ({"levels": (Fraction(-1, 9), Fraction(1, 9), Fraction(1, 9))}, "each look spends something"),
        ({"levels": (Fraction(1, 40), Fraction(1, 40))}, "each look needs a level"),
        ({"go_on": ((),)}, "each but the last a rule"),
        ({"go_on": ((), (), ())}, "each but the last a rule"),
        ({"go_on": (((7, 9), (0, 3)), ())}, "after 10 copies has hits out of order: 7-9,0-3"),
        ({"go_on": (((0, 3), (4, 9)), ())}, "out of order"),
        ({"go_on": (((3, 0),), ())}, "out of order"),
        ({"go_on": (((0, 11),), ())}, "out of order"),
        ({"go_on": ((), ((0, 21),))}, "after 20 copies has hits out of order"),
        ({"radii": RADII[::-1]}, "radii must rise"),
        ({"radii": ((Fraction(-1, 4), 0.6),)}, "radii must rise, from 0 on"),
        ({"radii": ((Fraction(0), 0.8), (Fraction(1, 4), 0.8))}, "must rise between ½ and 1"),
        ({"radii": ((Fraction(0), 0.5),)}, "must rise between ½ and 1"),
        ({"radii": ((Fraction(0), 1.0),)}, "must rise between ½ and 1"),
        ({"radii": ((Fraction(0), float("nan")),)}, "must rise between ½ and 1"),
        ({"radii": tuple((Fraction(k), 0.6 + k / 1000) for k in range(MOST_RADII + 1))}, "at most 256 radii"),
        ({"group": Group(100_001, 1)}, "between 1 and 100000 images"),
        ({"group": Group(1, 10**9 + 1)}, "packs of copies"),
    ],
    ids=str,
)
def test_what_breaks_the_guarantee_is_refused(change: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        replace(LOOKS, **change).check(40, ALPHA, "clopper-pearson")


def test_64_looks_are_the_most() -> None:
    check_counts(range(1, 65), 64)
    with pytest.raises(ValueError, match="between 1 and 64 looks, not 65"):
        check_counts(range(1, 66), 65)


def test_levels_may_sum_to_alpha_and_not_to_more() -> None:
    check_levels((ALPHA / 2, ALPHA / 2), ALPHA)
    with pytest.raises(ValueError, match="more than alpha"):
        check_levels((ALPHA / 2, ALPHA / 2 + Fraction(1, 10**400)), ALPHA)


def test_levels_that_no_boundary_can_be_computed_for_are_refused() -> None:
    tiny = replace(LOOKS, levels=(Fraction(1, 40), Fraction(1, 10**101), Fraction(1, 20)))
    tiny.check(40, ALPHA, "clopper-pearson")
    with pytest.raises(ValueError, match="each look spends at least 10⁻¹⁰⁰"):
        tiny.check(40, ALPHA, "group-sequential")


def test_each_bound_knows_its_looks() -> None:
    for bound in BOUNDS:
        check_bound(bound, 1, radii=True)
    for bound in ("hoeffding", "randomized"):
        with pytest.raises(ValueError, match=f"the bound {bound} holds for one look only"):
            check_bound(bound, 2, radii=True)
    with pytest.raises(ValueError, match="group-sequential is for set radii: say which"):
        check_bound("group-sequential", 2, radii=False)


def test_alpha_is_at_most_a_quarter_where_rows_are_not_proved() -> None:
    check_alpha_unproved(Fraction(1, 4))
    with pytest.raises(ValueError, match="alpha is at most 1/4 with looks, not 2501/10000"):
        check_alpha_unproved(Fraction(2501, 10_000))


def test_the_rule_goes_on_inside_its_intervals_only() -> None:
    patient = replace(LOOKS, skip_wrong=False)
    assert [hits for hits in range(11) if patient.goes_on(None, 1, [Look(10, hits, 0)])] == [0, 1, 2, 3, 7, 8, 9]
    first = Look(10, 9, 0)
    assert not any(patient.goes_on(None, 1, [first, Look(20, hits, 0)]) for hits in range(21))
    assert patient.goes_on(0, 1, [])
    assert not patient.goes_on(None, 1, [first, Look(20, 19, 0), Look(40, 39, 0)])  # there is no look after the last


def test_a_wrong_label_is_skipped_where_that_is_promised() -> None:
    assert not LOOKS.goes_on(0, 1, [])
    assert LOOKS.goes_on(1, 1, [])
    assert LOOKS.goes_on(None, 1, [])  # nobody knows that it is wrong
    assert not LOOKS.goes_on(0, 1, [Look(10, 9, 0)])


@given(st.lists(st.integers(1, 500), min_size=1, max_size=20, unique=True))
def test_segments_are_the_copies_once_each_in_order(counts: list[int]) -> None:
    looks = Looks(tuple(sorted(counts)), (ALPHA,) * len(counts))
    assert [copy for segment in looks.segments for copy in segment] == list(range(max(counts)))
    assert [segment.stop for segment in looks.segments] == sorted(counts)


def test_thresholds_are_told_to_the_bound_that_needs_them() -> None:
    assert LOOKS.schedule("group-sequential").thresholds == (0.6, 0.8)
    assert LOOKS.schedule("clopper-pearson").thresholds == ()
    assert LOOKS.schedule("runner-up").looks == (10, 20, 40)
