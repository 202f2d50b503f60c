"""The guard band's loss: computed in balls, against other formulas at high precision, and as `GuardBand` has it."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from soundsmooth.lab.gallery.certifiers import CertifierTask, GuardBand, guard_width
from soundsmooth.lab.gallery.guard_loss import PAPER_NEAR, kept_share, losses, near_boundary

HALF = Fraction(1, 2)


@pytest.mark.parametrize("sigma", [Fraction(1, 2000), Fraction(1, 850), Fraction(1, 300), Fraction(1, 100)])
@pytest.mark.parametrize("guard", [Fraction(1, 1000), Fraction(1, 10), Fraction(49, 100)])
def test_near_boundary_agrees_with_its_fourier_series(sigma: Fraction, guard: Fraction) -> None:
    """2g + Σ 2(−1)^m sin(2πmg)/(πm) · exp(−2π²m²(σq)²), at 60 digits. With σq = 0.3 the second term is a tenth."""
    with mpmath.workdps(60):
        s, g = mpmath.mpf(255 * sigma.numerator) / sigma.denominator, mpmath.mpf(guard.numerator) / guard.denominator
        series = 2 * g + sum(
            2
            * (-1) ** m
            * mpmath.sin(2 * mpmath.pi * m * g)
            / (mpmath.pi * m)
            * mpmath.exp(-2 * (mpmath.pi * m * s) ** 2)
            for m in range(1, 60)
        )
        low, high = (mpmath.mpf(end.numerator) / end.denominator for end in near_boundary(guard, sigma))
        assert low - mpmath.mpf(10) ** -50 <= series <= high + mpmath.mpf(10) ** -50
        assert high - low < 1e-30


def test_the_numbers_of_the_table() -> None:
    """At σ = ½ the series is 2g and no more that a double could show; the powers are taken again at 60 digits."""
    rows = {(row.images, row.precision): row for row in losses()}
    assert len(rows) == 6
    for row in rows.values():
        assert row.guard == guard_width(np.dtype(row.precision), 6)
        if row.guard < 0.5:
            with mpmath.workdps(60):
                assert row.near == pytest.approx(2 * row.guard, rel=1e-15)
                assert row.kept == pytest.approx(float((1 - 2 * mpmath.mpf(row.guard)) ** row.dimension), rel=1e-13)
    assert rows["CIFAR", "float32"].kept == pytest.approx(0.4737, abs=5e-5)
    assert rows["ImageNet", "float32"].kept == pytest.approx(1.26e-16, rel=0.01)
    assert rows["CIFAR", "float16"].kept == rows["ImageNet", "float16"].kept == 0
    assert rows["ImageNet", "float64"].kept > 1 - 1e-7


def test_the_papers_powers_are_right_and_its_chance_for_one_coordinate_is_not() -> None:
    """0.997 and 0.86 follow from 10⁻⁶; the guard that single precision needs makes it 243 times as much."""
    low, high = kept_share(PAPER_NEAR, 3072)
    assert Fraction("0.9969") < low <= high < Fraction("0.9970")
    low, high = kept_share(PAPER_NEAR, 150_528)
    assert Fraction("0.8602") < low <= high < Fraction("0.8603")
    near = near_boundary(Fraction(guard_width(np.dtype("float32"), 6)), HALF)
    assert 243 < near[0] / PAPER_NEAR <= near[1] / PAPER_NEAR < 244


def test_the_guard_band_certifier_loses_that_share() -> None:
    """2000 copies of 3072 coordinates, kept with 0.474 in reals. Floats are multiples of an ulp; were the chance for a
    coordinate moved by all of 1/16 by that, the share would be 0.452. 0.1 is accepted: by Hoeffding a correct
    program fails with 2·exp(−2·2000·0.078²) < 6e-11, and a share of 0.997 passes with exp(−2·2000·0.42²) < 1e-300.
    """
    task = CertifierTask(HALF, 2000, n0=1)
    answer = GuardBand().certify(lambda dtype: lambda batch: np.zeros((len(batch), 2)), 2, np.full(3072, 128), task)
    assert abs(answer.counts[0] / 2000 - 0.474) < 0.1
