"""The grid: what is a level, what is not, and the one float that stands for each level."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soundsmooth.audit import pays
from soundsmooth.certification.promise import Inputs
from soundsmooth.core.grid import IMAGES, Grid, Rounding, levels, nearest_float32
from soundsmooth.exact import price_above

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
def test_one_ulp_off_is_no_level(dtype: type, direction: float) -> None:
    """Each value moved by one ulp (unless a double lands on the other float of its level). Somebody pays, or nobody."""
    accepted = set(IMAGES.values(ALL).astype(np.float64)) | (set(ALL / 255.0) if dtype is np.float64 else set())
    for t in ALL:
        moved = np.nextafter(dtype(IMAGES.values(ALL)[t]), dtype(direction))
        if float(moved) not in accepted:
            with pytest.raises(ValueError, match="not on the grid, but only within rounding of it"):
                levels(moved)
            found = IMAGES.snap(moved)
            assert found.levels == t
            assert found.rounded is not None
            assert found.rounded.squared == (Fraction(float(moved)) - Fraction(int(t), 255)) ** 2


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
    with pytest.raises(ValueError, match=r"nearest value is 128/255, 0\.00196 away.*np\.rint\(x \* 255\)"):
        levels(np.array([[0.5]]))


def test_the_worst_pixel_is_named() -> None:
    image = np.array([0.2, 0.2 + 1e-6, 0.6 + 1e-4, 0.4 + 1e-5])
    with pytest.raises(ValueError, match=r"pixel \(2,\) is 0\.6001, .* 153/255, 0\.0001 away, .* explains 2\.4e-07"):
        IMAGES.snap(image)


NORMALISED = {
    "ImageNet": (0.485, 0.229), "CIFAR-10": (0.4914, 0.2023), "MNIST": (0.1307, 0.3081), "by halves": (0.5, 0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", NORMALISED)
def test_normalised_images_are_refused_with_the_line_to_write(name: str) -> None:
    mean, std = (np.float32(number) for number in NORMALISED[name])
    with pytest.raises(ValueError, match=r"probably normalised.*soundsmooth\.torch\.Normalize\(mean, std\), model"):
        levels((IMAGES.values(ALL) - mean) / std)


@pytest.mark.parametrize("image", [ALL * 1.0, ALL[:200].astype(np.float32), ALL - 0.25 * (ALL > 9)], ids=len)
def test_levels_that_were_not_divided_are_recognised(image: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"look like levels 0 … 255, kept as floats: give x / 255, or np\.rint"):
        levels(image)


#: What usual preprocessing makes of x / 255 in float32. All are far within the tolerance.
ROUNDED = {
    "times the reciprocal": ALL.astype(np.float32) * np.float32(1 / 255),
    "times the reciprocal, in doubles": ALL * (1 / 255),
    "times the reciprocal, in doubles, cast": (ALL * (1 / 255)).astype(np.float32),
    "divided in doubles, cast": (ALL / 255).astype(np.float32),
    **{
        f"normalised and back, {name}": (IMAGES.values(ALL) - np.float32(mean)) / np.float32(std) * np.float32(std)
        + np.float32(mean)
        for name, (mean, std) in NORMALISED.items()
    },
    "to [-1, 1] and back": (IMAGES.values(ALL) * np.float32(2) - np.float32(1) + np.float32(1)) / np.float32(2),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_usual_preprocessing_is_within_the_tolerance_with_room(name: str) -> None:
    found = IMAGES.snap(ROUNDED[name])
    assert np.array_equal(found.levels, ALL)
    gaps = [Fraction(float(x)) - Fraction(int(t), 255) for x, t in zip(ROUNDED[name], ALL, strict=True)]
    assert max(map(abs, gaps)) < IMAGES.tolerance / 2


def test_the_tolerance_is_met_exactly() -> None:
    """2⁻²² of the width: the floats around 51/255 + 2⁻²² and 51/255 − 2⁻²² are told apart, on this grid and a wider."""
    for grid in (IMAGES, Grid(256, 51)):
        for end in (grid.tolerance, -grid.tolerance):
            middle = float(Fraction(51, grid.q) + end)
            near = [float(np.nextafter(middle, 99 * way)) for way in (-1, 1)] + [middle]
            for value in near:
                within = abs(Fraction(value) - Fraction(51, grid.q)) <= abs(end)
                if within:
                    assert grid.snap(np.array([value])).rounded is not None
                else:
                    with pytest.raises(ValueError, match="not on the grid"):
                        grid.snap(np.array([value]))
            assert len({abs(Fraction(value) - Fraction(51, grid.q)) <= abs(end) for value in near}) == 2


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="no wider float on this machine")
def test_wider_floats_are_not_rounded_to_the_grid() -> None:
    """A long double beside a level is off the grid, though it rounds to a double that is on it."""
    beside = np.longdouble(IMAGES.values(ALL)[77]) * (1 + np.finfo(np.longdouble).eps)
    assert float(beside) == float(IMAGES.values(ALL)[77])
    with pytest.raises(ValueError, match="not on the grid"):
        levels(np.array([beside]))


def test_half_precision_tells_levels_apart() -> None:
    """Of float32, or of the double: its float16 is the level. One spacing beside it is none, and too far."""
    for floats in (IMAGES.values(ALL).astype(np.float16), (ALL / 255).astype(np.float16)):
        assert np.array_equal(levels(floats), ALL)
    with pytest.raises(ValueError, match="not on the grid"):
        IMAGES.snap(np.nextafter(np.float16(128 / 255), np.float16(1)))


@pytest.mark.parametrize(
    ("grid", "dtype"),
    [
        (Grid(1024, 1023), np.float16),
        (Grid(256, 1 << 23), np.float16),
        (Grid(256, 255, Fraction(1 << 20)), np.float32),
        (Grid(256, 255, Fraction(-(1 << 20))), np.float32),
        (Grid(256, 255, Fraction(10**400)), np.float64),
    ],
    ids=str,
)
def test_floats_that_are_too_coarse_are_refused(grid: Grid, dtype: type) -> None:
    """Where levels merge, among numbers too small to be normal as well, and where a spacing or two lies between."""
    with pytest.raises(ValueError, match="is too coarse for levels that are 1/"):
        grid.snap(np.zeros(3, dtype))


def test_bfloat16_is_refused() -> None:
    """Its spacing below 1 is 1/256: times 1/255, computed in it, gives the float of another level."""
    torch = pytest.importorskip("torch")
    whole = torch.arange(256)
    exact, product = whole.bfloat16() / 255, whole.bfloat16() * torch.tensor(1 / 255).bfloat16()
    assert len(set(exact.tolist()) & set(product.tolist()) - {0.0}) > 100
    assert (exact != product).sum() > 100
    for image in (exact, [exact, exact]):
        with pytest.raises(ValueError, match="bfloat16 is too coarse"):
            levels(image)


def test_tensors_and_lists_come_as_they_are() -> None:
    """With a gradient, turned around, conjugated and negated by a flag, in lists."""
    torch = pytest.importorskip("torch")
    image = (torch.arange(256).reshape(2, 128) / 255).requires_grad_()
    turned = image.detach().clone().T
    negative = torch.conj(torch.complex(torch.zeros(2, 128), -image.detach())).imag
    assert negative.is_neg()
    for each in (image, turned.T, negative, list(image), [row.tolist() for row in image], image.double()):
        assert np.array_equal(levels(each), ALL.reshape(2, 128))
    with pytest.raises(ValueError, match=r"the tensor \(float32\) cannot be read as an array"):
        levels(torch.zeros(3).to_sparse())


@pytest.mark.parametrize("image", [np.array([True]), np.array([1j]), np.array(["1"]), np.array([None])], ids=repr)
def test_other_dtypes_are_refused(image: np.ndarray) -> None:
    with pytest.raises(ValueError, match="dtype"):
        levels(image)
    with pytest.raises(ValueError, match="dtype"):
        IMAGES.on_grid(image)


@pytest.mark.parametrize("values", [np.arange(4), np.arange(4, dtype=np.uint8), IMAGES.values(np.arange(4))])
def test_masked_arrays_are_refused(values: np.ndarray) -> None:
    masked = np.ma.masked_array(values, mask=[0, 1, 0, 0])
    for read in (levels, IMAGES.on_grid, IMAGES.snap):
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


def test_snapped_levels_are_not_written_to() -> None:
    image = ALL.astype(np.int16)
    for each in (image, IMAGES.values(ALL), ROUNDED["times the reciprocal"]):
        found = IMAGES.snap(each).levels
        assert found.dtype == np.int16
        assert not found.flags.writeable
        assert found.base is None
        assert not np.shares_memory(found, each)


# --- the claim about floats near the grid ------------------------------------------------------------------


@st.composite
def near_images(draw: st.DrawFn, grid: Grid, size: int) -> np.ndarray:
    """Floats of a random kind within the tolerance of random levels: some are levels, some lie at the very end."""
    kind = draw(st.sampled_from([np.dtype(name) for name in ("f2", "<f4", ">f4", "<f8", ">f8")]))
    parts = draw(st.lists(st.fractions(-1, 1, max_denominator=1000), min_size=size, max_size=size))
    found = draw(st.lists(st.integers(0, grid.levels - 1), min_size=size, max_size=size))
    moved = [value_of(grid, t) + part * grid.tolerance for t, part in zip(found, parts, strict=True)]
    values = np.array([*map(float, moved)]).astype(kind)
    pairs = zip(values.tolist(), found, strict=True)
    fits = [abs(Fraction(value) - value_of(grid, t)) <= grid.tolerance for value, t in pairs]
    return np.where(fits, values, grid.values(np.array(found)).astype(kind)).astype(kind)


def value_of(grid: Grid, level: int) -> Fraction:
    return grid.offset + Fraction(int(level), grid.q)


def points(image: np.ndarray, grid: Grid) -> list[Fraction]:
    """What the floats stand for, by exact arithmetic: a level's float for its level, any other for itself."""
    found, kind = [], image.dtype.type
    for x in image.tolist():
        level = round((Fraction(x) - grid.offset) * grid.q)
        value = value_of(grid, min(max(level, 0), grid.levels - 1))
        own = float(kind(float(value))), float(kind(nearest_float32(value)))
        found.append(value if x in own else Fraction(x))
    return found


def squares(one: list[Fraction], other: list[Fraction]) -> Fraction:
    return sum(((a - b) ** 2 for a, b in zip(one, other, strict=True)), Fraction(0))


def exceeds(square: Fraction, other: Fraction, more: Fraction) -> bool:
    """Whether √square > √other + more, exactly."""
    rest = square - other - more**2
    return rest > 0 and rest**2 > 4 * other * more**2


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([IMAGES, SHIFTED, Grid(4, 3, Fraction(1, 7))]), st.integers(1, 6), st.data())
def test_a_ball_around_the_floats_lies_in_the_ball_around_the_grid_point(
    grid: Grid, size: int, data: st.DataObject
) -> None:
    """docs/soundness.md, row 12: ‖y′ − x′‖ ≤ ‖y − x‖ + paid, for any two images that are accepted; exactly."""
    near, exact, nearest = [], [], []
    for image in (data.draw(near_images(grid, size)) for _ in range(2)):
        found = grid.snap(image)
        near.append(found)
        exact.append(points(image, grid))
        nearest.append([value_of(grid, t) for t in found.levels])
        assert max(abs(a - b) for a, b in zip(exact[-1], nearest[-1], strict=True)) <= grid.tolerance
        assert (Fraction(0) if found.rounded is None else found.rounded.squared) == squares(exact[-1], nearest[-1])
        assert (found.rounded is None) == (exact[-1] == nearest[-1])
    one = near[0].rounded or Rounding(Fraction(0), "00" * 32)
    price = Inputs((0,), (near[0].levels,), (None,), (one,)).paid(0, grid)
    assert price is not None
    assert pays(price, one.squared, grid.tolerance**2 * size)
    assert not exceeds(squares(*nearest), squares(*exact), Fraction(price))


def test_both_parts_of_the_price_are_needed() -> None:
    """The test above can fail: these images lie between their grid points, nearly at the tolerance."""
    grid, size = Grid(4, 3), 4
    inward = float(grid.tolerance) * (1 - 2.0**-20)
    images = np.full(size, 1 / 3 + inward), np.full(size, 2 / 3 - inward)
    near, exact = [grid.snap(image) for image in images], [points(image, grid) for image in images]
    apart, between = squares(*([value_of(grid, t) for t in found.levels] for found in near)), squares(*exact)
    assert near[0].rounded is not None
    far = near[0].rounded.squared
    prices = price_above(far, Fraction(0), size), price_above(Fraction(0), grid.tolerance, size)
    assert [exceeds(apart, between, Fraction(price)) for price in prices] == [True, True]
    assert not exceeds(apart, between, Fraction(price_above(far, grid.tolerance, size)))


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
        Grid(256, 255, 0.1)


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


def test_floats_of_eight_bits_are_too_coarse() -> None:
    """Some of them count as floats in NumPy, and 1.0 is what they make of 0.9."""
    with pytest.raises(ValueError, match="float8_e5m2 is too coarse for levels"):
        IMAGES.snap(np.array([0.9, 0.0]).astype(ml_dtypes.float8_e5m2))


class Restless(np.ndarray):
    """An image that is written to between two looks at it."""

    def astype(self, *args: object, **kwargs: object) -> np.ndarray:
        now = np.asarray(self).astype(*args, **kwargs)
        np.asarray(self)[...] = 300
        return now


def test_what_was_checked_is_what_counts() -> None:
    image = np.array([1, 2], np.int32).view(Restless)
    assert IMAGES._checked_levels(image).tolist() == [1, 2]
