"""The grid: what is a level, what is not, and the one float that stands for each level."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundsmooth.core.grid import IMAGES, Grid, levels, nearest_float32

ALL = np.arange(256)
SHIFTED = Grid(levels=16, q=15, offset=Fraction(-1, 2))


def round_to_float32(value: Fraction) -> float:
    """The float32 nearest to a rational, ties to even, in integers: exponent, then a 24-bit mantissa."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = max(-149, size.numerator.bit_length() - size.denominator.bit_length() - 24)
    if size >= Fraction(2) ** (exponent + 24):
        exponent += 1
    mantissa = round(size / Fraction(2) ** exponent)  # Python rounds a Fraction's ties to even
    return float((1 if value > 0 else -1) * mantissa * Fraction(2) ** exponent)


# --- level → float -----------------------------------------------------------------------------------------


def test_values_are_the_nearest_floats_over_the_whole_noisy_range() -> None:
    """Every level that int16 holds, by exact arithmetic."""
    reached = np.arange(-32768, 32768).astype(np.int16)
    expected = np.array([round_to_float32(Fraction(int(t), 255)) for t in reached], np.float32)
    assert np.array_equal(IMAGES.values(reached).view(np.uint32), expected.view(np.uint32))


def test_multiplying_by_the_reciprocal_is_another_map() -> None:
    """The test above can fail: t · (1/255) in float32 differs on most of the levels 0 … 255."""
    product = ALL.astype(np.float32) * np.float32(1 / 255)
    assert np.count_nonzero(product != IMAGES.values(ALL)) > 100


def test_values_with_an_offset() -> None:
    """Offset −½, negative levels included; the map is the same however many levels are asked for at once."""
    asked = np.arange(-40, 60, dtype=np.int16)
    expected = np.array([round_to_float32(Fraction(-1, 2) + Fraction(int(t), 15)) for t in asked], np.float32)
    assert np.array_equal(SHIFTED.values(asked), expected)
    assert all(SHIFTED.values(asked[i : i + 1])[0] == expected[i] for i in range(asked.size))


@pytest.mark.parametrize("grid", [IMAGES, SHIFTED, Grid(1024, 1023), Grid(4, 3, Fraction(1, 7))], ids=str)
def test_values_of_different_inputs_differ(grid: Grid) -> None:
    """So that levels() can find the way back."""
    assert np.unique(grid.values(np.arange(grid.levels))).size == grid.levels


def test_values_keep_the_shape_and_are_float32() -> None:
    for grid in (IMAGES, SHIFTED):
        values = grid.values(np.zeros((2, 3, 4), np.uint8))
        assert values.shape == (2, 3, 4)
        assert values.dtype == np.float32


@given(st.fractions(-100, 100))
def test_nearest_float32_anywhere(value: Fraction) -> None:
    assert float(nearest_float32(value)) == round_to_float32(value)


def test_nearest_float32_rounds_once() -> None:
    """A value just beside the middle of two float32: float64 rounds it onto the middle, and the tie then goes wrong."""
    one_up, two_up = 1 + Fraction(1, 1 << 23), 1 + Fraction(2, 1 << 23)
    middle = (one_up + two_up) / 2  # the tie would go to two_up, whose mantissa is even
    value = middle - Fraction(1, 1 << 80)
    assert Fraction(float(np.float32(float(value)))) == two_up, "rounding twice was meant to go wrong here"
    assert Fraction(float(nearest_float32(value))) == one_up
    assert Fraction(float(nearest_float32(middle))) == two_up
    assert Fraction(float(nearest_float32(-value))) == -one_up
    assert nearest_float32(value).dtype == np.float32


# --- float → level -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64])
def test_integers_are_levels(dtype: type) -> None:
    assert np.array_equal(levels(ALL.astype(dtype)), ALL)
    assert np.array_equal(IMAGES.on_grid(ALL.astype(dtype)), ALL)
    assert levels(ALL.astype(dtype)).dtype == np.int16


def test_levels_are_a_copy() -> None:
    """The caller may change the image afterwards."""
    image = ALL.astype(np.int16)
    for read in (levels(image), IMAGES.on_grid(image)):
        assert not np.shares_memory(read, image)


@pytest.mark.parametrize("grid", [IMAGES, SHIFTED, Grid(1024, 1023)], ids=str)
def test_float32_values_find_their_level(grid: Grid) -> None:
    """In float32, and widened to float64."""
    inputs = np.arange(grid.levels).reshape(2, -1)
    values = grid.values(inputs)
    assert np.array_equal(levels(values, grid), inputs)
    assert np.array_equal(levels(values.astype(np.float64), grid), inputs)
    assert levels(values, grid).shape == inputs.shape


def test_float64_quotients_find_their_level() -> None:
    """What image / 255.0 gives in NumPy: the double nearest to t/255."""
    assert np.array_equal(levels(ALL / 255.0), ALL)
    assert np.array_equal(levels([0.0, 1.0]), [0, 255])


def test_minus_zero_is_zero() -> None:
    assert levels(np.float32(-0.0)) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("direction", [-np.inf, np.inf])
def test_one_ulp_off_is_off(dtype: type, direction: float) -> None:
    """Each value moved by one ulp is refused (but for a double that lands on the other accepted one of its level)."""
    accepted = set(IMAGES.values(ALL).astype(np.float64)) | (set(ALL / 255.0) if dtype is np.float64 else set())
    for t in ALL:
        moved = np.nextafter(dtype(IMAGES.values(ALL)[t]), dtype(direction))
        if float(moved) not in accepted:
            with pytest.raises(ValueError, match="not on the grid"):
                levels(moved)


@pytest.mark.parametrize(
    ("bad", "says"),
    [(0.5, "not on the grid"), (np.nan, "NaN"), (np.inf, "not on the grid"), (-0.1, "not on"), (256 / 255, "not on")],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_error_names_the_first_bad_pixel(bad: float, says: str, dtype: type) -> None:
    image = np.zeros((3, 4, 5), dtype)
    image[1, 2, 3] = bad
    image[2, 0, 0] = bad
    with pytest.raises(ValueError, match=says) as error:
        levels(image)
    assert "(1, 2, 3)" in str(error.value)
    assert "\n" not in str(error.value)


def test_off_the_grid_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"nearest value is 128/255.*ss\.levels"):
        levels(np.array([[0.5]]))


def test_the_product_with_the_reciprocal_is_off_the_grid() -> None:
    """A loader that multiplies by float32(1/255) makes other images; they are refused, not rounded."""
    with pytest.raises(ValueError, match="not on the grid"):
        levels(ALL.astype(np.float32) * np.float32(1 / 255))


def test_normalised_images_are_refused() -> None:
    with pytest.raises(ValueError, match="not on the grid"):
        levels((IMAGES.values(ALL) - np.float32(0.4914)) / np.float32(0.2023))


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="no wider float on this machine")
def test_wider_floats_are_not_rounded_to_the_grid() -> None:
    """A long double beside a level is off the grid, though it rounds to a double that is on it."""
    beside = np.longdouble(IMAGES.values(ALL)[77]) * (1 + np.finfo(np.longdouble).eps)
    assert float(beside) == float(IMAGES.values(ALL)[77])
    with pytest.raises(ValueError, match="not on the grid"):
        levels(np.array([beside]))


def test_half_precision_holds_only_some_levels() -> None:
    assert np.array_equal(levels(np.array([0, 1], np.float16)), [0, 255])
    with pytest.raises(ValueError, match="not on the grid"):
        levels(np.array([128 / 255], np.float16))


@pytest.mark.parametrize("image", [np.array([True]), np.array([1j]), np.array(["1"]), np.array([None])], ids=repr)
def test_other_dtypes_are_refused(image: np.ndarray) -> None:
    with pytest.raises(ValueError, match="dtype"):
        levels(image)
    with pytest.raises(ValueError, match="dtype"):
        IMAGES.on_grid(image)


@pytest.mark.parametrize("values", [np.arange(4), np.arange(4, dtype=np.uint8), IMAGES.values(np.arange(4))])
def test_masked_arrays_are_refused(values: np.ndarray) -> None:
    masked = np.ma.masked_array(values, mask=[0, 1, 0, 0])
    for read in (levels, IMAGES.on_grid, IMAGES.fixed, IMAGES.levels_of_floats):
        with pytest.raises(ValueError, match="masked"):
            read(masked)
    with pytest.raises(ValueError, match="masked"):
        levels([values, masked])


@pytest.mark.parametrize("bad", [-1, 256, 1000, -32768])
def test_integers_outside_are_refused(bad: int) -> None:
    image = np.zeros((2, 3), np.int32)
    image[1, 1] = bad
    for read in (levels, IMAGES.on_grid):
        with pytest.raises(ValueError, match=rf"pixel \(1, 1\) is {bad}"):
            read(image)


@pytest.mark.parametrize("bad", [65_536 + 5, -(1 << 40), (1 << 62) + 7])
def test_integers_that_would_wrap_around_are_refused(bad: int) -> None:
    """Checked before the cast to int16, not after."""
    with pytest.raises(ValueError, match="outside the levels"):
        levels(np.array([bad]))


def test_on_grid_points_floats_to_levels() -> None:
    """Good floats: use ss.levels. Bad floats: the pixel."""
    with pytest.raises(ValueError, match=r"pass ss\.levels"):
        IMAGES.on_grid(IMAGES.values(ALL))
    with pytest.raises(ValueError, match=r"pixel \(0,\)"):
        IMAGES.on_grid(np.array([0.3]))


# --- the grid itself ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{"levels": 1}, {"levels": 40_000}, {"q": 0}, {"q": 1 << 24}, {"q": -255}])
def test_impossible_grids(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="between"):
        Grid(**arguments)


@pytest.mark.parametrize(("k", "margin"), [("6", 1530), ("1/255", 1), ("12", 3060), ("0.2", 51)])
def test_margin(k: str, margin: int) -> None:
    assert IMAGES.margin(Fraction(k)) == margin


@pytest.mark.parametrize("k", ["0.1", "1/256", "0", "-1"])
def test_margin_must_be_a_positive_integer(k: str) -> None:
    with pytest.raises(ValueError, match="positive integer"):
        IMAGES.margin(Fraction(k))


def test_margin_must_fit_int16() -> None:
    """K + 2(L − 1) ≤ 32 767: the largest sum that noise plus input can reach."""
    assert IMAGES.margin(Fraction(32767 - 510, 255)) == 32767 - 510
    with pytest.raises(ValueError, match="at most 126"):
        IMAGES.margin(Fraction(32767 - 509, 255))


def test_an_offset_must_be_exact() -> None:
    with pytest.raises(ValueError, match="must be exact"):
        Grid(256, 255, 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int64], ids=lambda kind: kind.__name__)
def test_numpy_integers_become_integers(kind: type[np.integer]) -> None:
    """As a uint8, 16 levels had a reach whose negative wrapped around: no breakpoints, one noise for all copies."""
    grid = Grid(kind(16), kind(15), Fraction(kind(1), kind(2)))  # type: ignore[arg-type, call-overload]
    numbers = (grid.levels, grid.q, grid.offset.numerator, grid.offset.denominator)
    assert grid == Grid(16, 15, Fraction(1, 2))
    assert [type(number) for number in numbers] == [int] * 4


@pytest.mark.parametrize("arguments", [{"levels": 16.0}, {"q": True}, {"q": "255"}], ids=str)
def test_a_grid_of_other_numbers_is_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be an integer"):
        Grid(**arguments)
