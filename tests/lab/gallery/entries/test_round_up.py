"""Numbers that are rounded up, and the proof that ours are not."""

from fractions import Fraction

import mpmath
import pytest

from soundsmooth.lab.gallery import stated_radius
from soundsmooth.lab.gallery.certifiers import Ours, Standard
from soundsmooth.lab.gallery.entries import round_up
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding


def test_the_verdicts() -> None:
    """No chance in it: concrete counts."""
    field, ours = round_up.run([Standard("float32"), Ours()], Options())
    assert field.certifier == "standard-scipy"
    assert field.finding is Finding.FALSE_NUMBER
    assert field.radius == 1.02
    assert field.counts == ((98_022, 1978),)
    assert field.note.startswith("98022 of 100000: 1.02 is stated, 1.0150004")
    assert ours.finding is Finding.HOLDS


def test_arts_row_is_scipys_radius() -> None:
    """Some of the 20 radii are a few ulp too large with every scipy so far; ART prints nothing, so this is all."""
    found = round_up.usual("art")
    assert found.finding is Finding.FALSE_NUMBER
    hits = found.counts[0][0]
    assert found.radius == stated_radius.by_scipy(hits) == pytest.approx(stated_radius.proved(hits), rel=1e-13)
    assert found.radius > stated_radius.proved(hits)


def test_all_hits_are_printed_as_1_91() -> None:
    assert f"{stated_radius.proved(100_000):.3}" == "1.91"
    assert stated_radius.too_large(Fraction("1.91"), 100_000)
    assert not stated_radius.too_large(Fraction("1.90"), 100_000)


def test_too_large_agrees_with_mpmath_to_forty_digits() -> None:
    """With all hits the true radius is σ·Φ⁻¹(α^(1/n)); both sides of it are told apart."""
    with mpmath.workdps(80):
        miss = -mpmath.expm1(mpmath.log(mpmath.mpf(1) / 1000) / 100_000)
        z = mpmath.findroot(lambda z: mpmath.erfc(z / mpmath.sqrt(2)) / 2 - miss, 3.8)
        radius = Fraction(mpmath.nstr(z / 2, 60))
    for step in (Fraction(1, 10**15), Fraction(1, 10**40)):
        assert stated_radius.too_large(radius + step, 100_000)
        assert not stated_radius.too_large(radius - step, 100_000)


@pytest.mark.parametrize("hits", round_up.HITS)
def test_the_proved_radius_holds_and_hardly_a_larger_one_does(hits: int) -> None:
    """The bound is stored as a double below 1, which costs the radius up to 2 · 10⁻¹³ where all vote alike."""
    radius = stated_radius.proved(hits)
    assert not stated_radius.too_large(Fraction(radius), hits)
    assert stated_radius.too_large(Fraction(radius) * (1 + Fraction(1, 10**12)), hits)


def test_what_the_balls_cannot_tell_is_an_error() -> None:
    with pytest.raises(ArithmeticError, match="30 bits do not tell"):
        stated_radius.too_large(Fraction(stated_radius.proved(99_000)), 99_000, bits=30)


def test_without_scipy_the_print_is_false_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_up, "by_scipy", lambda hits: None)
    found = round_up.usual("standard-scipy")
    assert found.finding is Finding.FALSE_NUMBER
    assert found.radius == 1.02
    assert "needs scipy" in found.note


def test_ours_would_be_false_if_it_rounded_to_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_up, "truncated", lambda value, digits: f"{value:.{digits}f}")
    assert round_up.ours("ours").finding is Finding.FALSE_NUMBER


def test_ours_would_be_false_with_scipys_radius(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_up, "proved", stated_radius.by_scipy)
    assert round_up.ours("ours").finding is Finding.FALSE_NUMBER
