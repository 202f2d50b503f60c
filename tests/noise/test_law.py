"""The law of the noise: exact parameters, the reach of Proposition 5.1, and refusals."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from soundsmooth.grid import Grid
from soundsmooth.noise import Gaussian


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
