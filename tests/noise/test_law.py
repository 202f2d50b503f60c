"""The law of the noise: exact parameters, the reach of Proposition 5.1, and refusals."""

import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from soundsmooth import audit
from soundsmooth.audit import laws
from soundsmooth.certification.promise import FIELDS
from soundsmooth.core.grid import Grid
from soundsmooth.exact import radius_below, radius_two_below
from soundsmooth.noise import Gaussian, law, promised_law


@pytest.mark.parametrize("sigma", ["0.12", 0.12, Decimal("0.12"), Fraction(3, 25), "3/25", "12e-2"])
def test_sigma_is_what_was_written(sigma: object) -> None:
    """All ways to write 0.12 are one law, and one cached table."""
    assert Gaussian(sigma) == Gaussian("0.12")  # type: ignore[arg-type]
    assert Gaussian(sigma).sigma == Fraction(3, 25)  # type: ignore[arg-type]


def test_images_at_the_default_k() -> None:
    """k = 6: K = 1530, levels −1530 … 1785, noise −1785 … 1785."""
    images = Gaussian("0.25")
    assert (images.margin, images.lowest, images.highest, images.reach) == (1530, -1530, 1785, 1785)
    assert len(images.breakpoints(32)) == 2 * images.reach


def test_another_grid() -> None:
    small = Gaussian("1/2", 1, Grid(levels=4, q=3, offset=Fraction(-1, 2)))
    assert (small.margin, small.lowest, small.highest, small.reach) == (3, -3, 6, 6)
    assert [small.breakpoint(j, 64) for j in range(-6, 6)] == list(small.breakpoints(64))


def test_a_grid_of_small_integers_has_all_its_breakpoints() -> None:
    """And what is kept of it in a cache is right for the same grid of other integers."""
    small = Gaussian("0.3", 6, Grid(np.uint8(16), 15))  # type: ignore[arg-type]
    assert len(small.breakpoints(32)) == 2 * (6 * 15 + 15)
    assert small.breakpoints(32) == Gaussian("0.3", 6, Grid(16, 15)).breakpoints(32)


@pytest.mark.parametrize("sigma", [0, "-0.25", "nan", "inf", "abc", None])
def test_sigma_must_be_positive(sigma: object) -> None:
    with pytest.raises(ValueError, match="sigma"):
        Gaussian(sigma)  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [0, -1, "0.001", 200, "x"])
def test_k_must_fit_the_grid(k: object) -> None:
    with pytest.raises(ValueError, match="k"):
        Gaussian("0.25", k)  # type: ignore[arg-type]


LAWS = [Gaussian("0.25"), Gaussian("1/3", 2, Grid(16, 15, Fraction(-1, 7))), Gaussian(7, "1/255")]


@pytest.mark.parametrize("one", LAWS, ids=lambda one: one.lines["sigma"])
def test_a_promise_says_all_of_a_law(one: Gaussian) -> None:
    assert promised_law({**one.lines, "n": "1000"}) == one
    assert tuple(one.lines) == tuple(name for name in FIELDS if name in one.lines)  # in the order of a promise
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    "change",
    [
        {"sigma": "0.25"}, {"sigma": "2/8"}, {"sigma": "-1/4"}, {"sigma": "0"}, {"sigma": " 1/4"}, {"sigma": "1/4 "},
        {"sigma": "normal 1/4"}, {"sigma": "1e9"}, {"sigma": "1/0"}, {"sigma": ""}, {"margin": "1530.0"},
        {"margin": "0"}, {"margin": "-1530"}, {"margin": "3060/2"}, {"margin": "99999"}, {"margin": ""},
        {"grid": "levels=256 q=255"}, {"grid": "levels=256 q=255 offset=0.0"}, {"grid": "none"},
    ],
    ids=str,
)  # fmt: skip
def test_no_other_lines_are_read(change: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"sigma|margin|grid|k|law"):
        promised_law({**Gaussian("1/4").lines, **change})


@pytest.mark.parametrize(("p_lower", "p_upper"), [(0.9, None), (0.500001, None), (0.7, 0.2), (0.4, 0.3)])
def test_the_radius_is_the_one_that_exact_proves_and_audit_accepts(p_lower: float, p_upper: float | None) -> None:
    sigma = Fraction(1, 3)
    found = Gaussian(sigma).radius(p_lower, p_upper)
    proved = radius_below(p_lower, sigma) if p_upper is None else radius_two_below(p_lower, p_upper, sigma)
    assert found == proved > 0
    auditors = audit.Gaussian(sigma)
    assert auditors.radius_holds(found, p_lower, p_upper)
    assert not auditors.radius_holds(found * (1 + 2.0**-40), p_lower, p_upper)
    assert auditors.radius_holds(auditors.radius_below(p_lower, p_upper), p_lower, p_upper)


def test_issuer_and_auditor_know_the_same_laws() -> None:
    assert set(law.LAWS) == set(laws.LAWS)
