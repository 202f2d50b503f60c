"""Layouts: axes of one image in another order, and the hint for images that look channels-last."""

import numpy as np
import pytest

from soundsmooth.core.layouts import LAYOUTS, axes_hint, check_layout, laid_out

IMAGE = np.arange(24).reshape(2, 3, 4)


def test_there_and_back() -> None:
    first = laid_out(IMAGE, "nhwc-to-nchw")
    assert first.shape == (4, 2, 3)
    assert first[3, 1, 2] == IMAGE[1, 2, 3]
    assert np.array_equal(laid_out(first, "nchw-to-nhwc"), IMAGE)
    assert laid_out(IMAGE, "as-is") is IMAGE


@pytest.mark.parametrize("layout", ["nhwc-to-nchw", "nchw-to-nhwc"])
def test_only_three_axes_have_another_order(layout: str) -> None:
    with pytest.raises(ValueError, match=r"three axes, not of shape \[2, 3\]"):
        laid_out(IMAGE[..., 0], layout)


def test_other_words_are_rejected() -> None:
    with pytest.raises(ValueError, match=f"one of {', '.join(LAYOUTS)}, not 'chw'"):
        check_layout("chw")


@pytest.mark.parametrize(
    ("shape", "hinted"),
    [
        ((32, 32, 3), True),
        ((28, 28, 1), True),
        ((224, 200, 4), True),
        ((3, 32, 32), False),
        ((1, 28, 28), False),
        ((32, 32, 8), False),
        ((3, 32, 3), False),
        ((32, 32), False),
        ((784,), False),
        ((), False),
    ],
)
def test_the_hint_names_both_ways_to_write_it(shape: tuple[int, ...], hinted: bool) -> None:
    said = axes_hint(shape)
    assert ("try layout='nhwc-to-nchw' in Python, or --layout nhwc-to-nchw" in said) == hinted
    assert bool(said) == hinted


@pytest.mark.parametrize("shape", [(1, 3, 32, 32), (1, 1, 28, 28)])
def test_a_batch_of_one_is_told_how_to_become_an_image(shape: tuple[int, ...]) -> None:
    assert axes_hint(shape).endswith("looks like a batch of one: give x[0]")


@pytest.mark.parametrize("shape", [(1, 16, 32, 32), (2, 3, 32, 32), (1, 3, 32)])
def test_volumes_and_other_shapes_are_no_batch_of_one(shape: tuple[int, ...]) -> None:
    assert "batch" not in axes_hint(shape)
