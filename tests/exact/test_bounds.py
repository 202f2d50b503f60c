"""The two registries of bounds: the same names and kinds, and neither believes more than the other."""

from collections.abc import Sequence
from fractions import Fraction

import pytest

from soundsmooth import audit, exact
from soundsmooth.audit import bounds as audits
from soundsmooth.certification.settings import settings
from soundsmooth.exact import BOUNDS, Look

ALPHA = Fraction(1, 1000)
LOOKS = [Look(1000, hits, others) for hits, others in ((0, 1000), (500, 500), (700, 200), (990, 4), (1000, 0))]


def test_both_arithmetics_have_the_same_bounds_in_the_same_order() -> None:
    issuers = [(name, bound.two_sided, bound.measurable) for name, bound in BOUNDS.items()]
    auditors = [(name, bound.two_sided, bound.measurable) for name, bound in audits.BOUNDS.items()]
    assert issuers == auditors
    assert settings().bound == next(iter(BOUNDS)) == "clopper-pearson"


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("look", LOOKS)
def test_what_one_proves_the_other_accepts_and_nothing_better(name: str, look: Look) -> None:
    p_lower, p_upper = BOUNDS[name].prove([look], ALPHA)
    theirs, own = audits.BOUNDS[name], [audits.Look(*look)]
    assert (p_upper is not None) == BOUNDS[name].two_sided
    assert theirs.holds(p_lower, p_upper, own, ALPHA)
    assert theirs.holds(*theirs.prove(own, ALPHA), own, ALPHA)
    assert not theirs.holds(p_lower * (1 + 2.0**-40) or 2.0**-40, p_upper, own, ALPHA)
    if p_upper is not None:
        assert not theirs.holds(p_lower, p_upper * (1 - 2.0**-40), own, ALPHA)


@pytest.mark.parametrize("name", BOUNDS)
def test_a_bound_on_the_others_is_there_exactly_where_it_belongs(name: str) -> None:
    look = audits.Look(1000, 900, 50)
    unfit = None if audits.BOUNDS[name].two_sided else 1.0
    assert not audits.BOUNDS[name].holds(0.0, unfit, [look], ALPHA)


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("looks", [[], LOOKS[:2], LOOKS])
def test_bounds_for_a_fixed_number_of_votes_look_once(name: str, looks: Sequence[Look]) -> None:
    own = [audits.Look(*look) for look in looks]
    for ask in (
        lambda: BOUNDS[name].prove(looks, ALPHA),
        lambda: audits.BOUNDS[name].prove(own, ALPHA),
        lambda: audits.BOUNDS[name].holds(0.0, 1.0, own, ALPHA),
    ):
        with pytest.raises(ValueError, match="one look at a fixed number of votes"):
            ask()


@pytest.mark.parametrize("name", BOUNDS)
def test_what_goes_with_measured_independence(name: str) -> None:
    """Only bounds for which it is proved; then rows alone get no better a bound than rows in batches."""
    if not BOUNDS[name].measurable:
        with pytest.raises(ValueError, match="does not go with measured independence"):
            BOUNDS[name].prove_alone(LOOKS[3:4], 100, 0, ALPHA)
        with pytest.raises(ValueError, match="independence cannot be measured with the bound"):
            audit.read_terms(promised(name))
        return
    alone, p_upper = BOUNDS[name].prove_alone(LOOKS[3:4], 100, 1, ALPHA)
    assert alone < BOUNDS[name].prove(LOOKS[3:4], ALPHA / 4)[0]
    assert p_upper is None
    assert audit.read_terms(promised(name)).again == 100
    with pytest.raises(ValueError, match="one look"):
        BOUNDS[name].prove_alone(LOOKS, 100, 1, ALPHA)


def promised(bound: str) -> dict[str, str]:
    fixed = {"n0": "100", "n": "1000", "alpha": "1/1000", "sigma": "1/4"}
    return {**fixed, "bound": bound, "independence": "measured m=100"}


def test_the_front_door_has_them() -> None:
    assert exact.BOUNDS is BOUNDS
