"""The grid: integer levels, the values they stand for, and what is and is not on it."""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import as_array
from .integers import integer

Levels = npt.NDArray[np.int16]
Floats = npt.NDArray[np.float32]

#: The largest level, in absolute value, that any computation may reach: levels are kept in int16.
MOST_LEVEL = 32767
#: Floats so close to a grid point, in units of the grid's width, stand for it: four spacings of float32 below 1
#: (docs/soundness.md, row 12).
TOLERANCE = Fraction(1, 1 << 22)
#: The floats in which images may come: their binary digits, and the exponent of the smallest one.
SPACING = {"float16": (11, -24), "float32": (24, -149), "float64": (53, -1074)}
#: Levels must be so many spacings of these floats apart. What is rounded once or twice is then no other level.
ROOM = 4
#: Larger floats are levels that were not divided; data that was normalised by mean and deviation stays below.
MOST_NORMALISED = 16


class Rounding(NamedTuple):
    """What was rounded off an image whose floats are within rounding of the grid, and not on it."""

    squared: Fraction
    """‖x − x′‖², exactly: x the floats as given, where one that is a level's float counts as its level; x′ the grid
    point."""
    given: str
    """SHA-256 of the floats as given."""


class Snapped(NamedTuple):
    """An image as levels, and what was rounded off it: None if it is on the grid."""

    levels: Levels
    rounded: Rounding | None


@dataclass(frozen=True)
class Grid:
    """Inputs are levels 0, …, levels − 1; the value of level t is offset + t / q.

    Noisy levels leave that range on both sides, and their values follow the same formula.

    Guarantee: `levels` and `q` are Python's integers and `offset` is a Fraction of such, whatever kind was given.
    """

    levels: int = 256
    q: int = 255
    offset: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if not isinstance(self.offset, Fraction | int):
            raise ValueError(f'the offset must be exact, such as Fraction("0.1"), not {self.offset!r}')
        object.__setattr__(self, "levels", integer(self.levels, "the number of levels"))
        object.__setattr__(self, "q", integer(self.q, "q"))
        object.__setattr__(self, "offset", Fraction(int(self.offset.numerator), int(self.offset.denominator)))
        if not 2 <= self.levels <= MOST_LEVEL:
            raise ValueError(f"a grid needs between 2 and {MOST_LEVEL} levels, not {self.levels}")
        if not 1 <= self.q < 1 << 24:
            raise ValueError(f"q must be between 1 and 2²⁴ − 1, not {self.q}")

    @property
    def text(self) -> str:
        """As a promise writes it."""
        return f"levels={self.levels} q={self.q} offset={self.offset}"

    @classmethod
    def of_text(cls, text: str) -> "Grid":
        """The grid with this text, which can be read in one way only; a ValueError for all others."""
        try:
            held = dict(word.split("=") for word in text.split(" "))
            if "e" in held["offset"].lower():  # 1e999999999 would take for ever
                raise ValueError("write the offset as a quotient")
            grid = cls(int(held["levels"]), int(held["q"]), Fraction(held["offset"]))
            if grid.text != text:
                raise ValueError(f"it would be written {grid.text!r}")
            return grid
        except (ValueError, KeyError, ZeroDivisionError) as error:
            raise ValueError(f"the promised grid cannot be read: {text!r} ({error})") from None

    @property
    def width(self) -> Fraction:
        """How far the smallest and the largest value of an input are apart: radii are in this unit."""
        return Fraction(self.levels - 1, self.q)

    @property
    def range(self) -> str:
        """The values of inputs, for people: "[0, 1]"."""
        return f"[{self.offset}, {self.offset + self.width}]"

    def margin(self, k: Fraction) -> int:
        """K = k · q: how many levels beyond the inputs a noisy level may lie before it is clamped."""
        exact = k * self.q
        if exact.denominator != 1 or exact < 1:
            raise ValueError(f"k·q must be a positive integer: with q = {self.q}, k = {k} gives {exact}")
        if exact + 2 * (self.levels - 1) > MOST_LEVEL:
            most = (MOST_LEVEL - 2 * (self.levels - 1)) // self.q
            raise ValueError(f"k = {k} does not fit into 16 bits: it must be at most {most} on this grid")
        return int(exact)

    def values(self, levels: npt.NDArray[np.integer]) -> Floats:
        """The float32 nearest to the value of each level: a function of the level alone."""
        out = np.empty(levels.shape, np.float32)
        self.write_values(levels, out)
        return out

    def write_values(self, levels: npt.NDArray[np.integer], out: Floats) -> None:
        """Write the float32 nearest to each level's value into `out`.

        Without an offset this is one IEEE division of two integers that float32 holds exactly, hence
        correctly rounded. (Multiplying by 1/q instead would be off on two thirds of the levels.)
        """
        if self.offset == 0:
            np.divide(levels, np.float32(self.q), out=out, dtype=np.float32, casting="unsafe")
        else:
            lowest = int(levels.min(initial=0))
            table = [
                nearest_float32(self.offset + Fraction(t, self.q))
                for t in range(lowest, int(levels.max(initial=0)) + 1)
            ]
            out[...] = np.array(table, np.float32)[levels.astype(np.intp) - lowest]

    def check_levels(self, levels: Levels) -> None:
        """A ValueError unless these are levels of inputs, as `on_grid` gives them: noise has no law for others."""
        if levels.dtype != np.int16 or levels.min(initial=0) < 0 or levels.max(initial=0) >= self.levels:
            raise ValueError(f"inputs are levels 0 … {self.levels - 1} in int16: take them from Grid.on_grid(image)")

    @property
    def tolerance(self) -> Fraction:
        """How far from a grid point a float may be and still stand for it, in the unit of values."""
        return TOLERANCE * self.width

    def snap(self, image: npt.ArrayLike) -> "Snapped":
        """The image as levels, with what was rounded off it; a ValueError for what is farther from the grid.

        Integers are levels. A float that is the float of a level (`level_floats`) is that level. Other floats within
        `tolerance` of a level stand for it.

        Guarantee: each value is within `tolerance` of its level's value, or is its level; and `rounded` has the exact
        distance, where a value that is its level counts as 0. The levels are in memory that nobody writes to.
        """
        image = unmasked(image)
        if image.dtype.kind in "iu":
            return Snapped(_frozen(self._checked_levels(image)), None)
        floats = self._checked_floats(image)
        wide = floats.astype(np.float64)
        found = self._nearest(wide)
        off = np.logical_and.reduce([floats != table[found] for table in level_floats(self, floats.dtype.name)])
        if not off.any():
            return Snapped(_frozen(found), None)
        apart = np.where(off, np.abs(wide - level_floats(self, "float64")[0][found]), 0)
        if apart.max() > float(2 * self.tolerance):  # far off: nothing to compute
            raise ValueError(self._off_grid(wide, found, apart))
        values, counts = np.unique(wide[off], return_counts=True)
        gaps, unit = self._exact_gaps(values)
        if max(map(abs, gaps)) > self.tolerance * unit:
            raise ValueError(self._off_grid(wide, found, apart))
        squared = Fraction(sum(gap * gap * count for gap, count in zip(gaps, counts.tolist(), strict=True)), unit**2)
        return Snapped(_frozen(found), Rounding(squared, digest_of_floats(floats)))

    def on_grid(self, image: npt.ArrayLike) -> Levels:
        """The image as levels; a ValueError if anything would have to be rounded. Floats may be those of levels.

        Nothing is ever rounded here: that would certify another image, and nobody would pay for the distance.
        """
        found = self.snap(image)
        if found.rounded is not None:
            raise ValueError(
                "the image is not on the grid, but only within rounding of it: pass the floats themselves, not their "
                "levels, and the certificate pays for the distance"
            )
        return found.levels.copy()

    def _checked_levels(self, image: npt.NDArray[np.generic]) -> Levels:
        whole = image.astype(np.int64) if image.dtype != np.uint64 else np.minimum(image, 1 << 62).astype(np.int64)
        outside = (whole < 0) | (whole >= self.levels)
        if outside.any():
            where = first_index(outside)
            raise ValueError(f"pixel {where} is {image[where]}, outside the levels 0 … {self.levels - 1}")
        return whole.astype(np.int16)  # what was checked, whoever writes to the image meanwhile

    def _checked_floats(self, image: npt.NDArray[np.generic]) -> npt.NDArray[np.floating]:
        """The same finite numbers as float16, float32 or float64; a ValueError for others, and for floats that are too
        coarse to tell levels apart.
        """
        if image.dtype.kind != "f":
            raise ValueError(
                f"the image has dtype {image.dtype}; pass integer levels 0 … {self.levels - 1} (uint8 for images), or "
                f"floats in {self.range}"
            )
        name = image.dtype.name if image.dtype.name in SPACING else "float64"
        if image.dtype.itemsize < 2:
            raise ValueError(f"{image.dtype} is too coarse for levels. Give the image as integers, before it is cast")
        floats = np.array(image, np.dtype(name), order="C") if name == image.dtype.name else _as_doubles(image)
        bad = ~np.isfinite(floats)
        if bad.any():
            where = first_index(bad)
            what = "NaN" if np.isnan(floats[where]) else float(floats[where])
            raise ValueError(f"pixel {where} is {what}, which is no level: the image is not on the grid")
        if Fraction(1, self.q) < ROOM * self._spacing(*SPACING[name]):
            raise ValueError(
                f"{name} is too coarse for levels that are 1/{self.q} apart: rounding may have made one level of "
                "another. Give the image as integers, or in a wider type, before it is cast"
            )
        return floats

    def _spacing(self, digits: int, least: int) -> Fraction:
        """How far neighbouring floats of such a type are apart, at most, among the values of inputs."""
        most = max(abs(self.offset), abs(self.offset + self.width))
        exponent = (
            most.numerator.bit_length() - most.denominator.bit_length() + 1
        )  # 2^(exponent − 2) < most < 2^exponent
        if Fraction(2) ** (exponent - 1) >= most:
            exponent -= 1
        return Fraction(2) ** max(exponent - digits, least)

    def _nearest(self, wide: npt.NDArray[np.float64]) -> Levels:
        """The nearest levels, or others where that is not clear: what rests on them is computed exactly."""
        with np.errstate(over="ignore"):
            steps = np.rint((wide - float(self.offset)) * self.q)
        return np.asarray(np.clip(steps, 0, self.levels - 1), np.int16)

    def _exact_gaps(self, values: npt.NDArray[np.float64]) -> tuple[list[int], int]:
        """How far each float is from the value of its level, exactly: in whole parts of 1, and how many there are."""
        ratios = [value.as_integer_ratio() for value in values.tolist()]
        twos = max(below for _, below in ratios)  # a power of two, like all of them
        first, each = self.offset.numerator * self.q, self.offset.denominator
        pairs = zip(ratios, self._nearest(values).tolist(), strict=True)
        gaps = [above * (twos // below) * self.q * each - (first + t * each) * twos for (above, below), t in pairs]
        return gaps, twos * self.q * each

    def _off_grid(self, wide: npt.NDArray[np.float64], found: Levels, apart: npt.NDArray[np.float64]) -> str:
        """What is wrong with an image that is not on the grid: how far off it is, probably why, and what to write."""
        where = tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), apart.shape))
        nearest = self.offset + Fraction(int(found[where]), self.q) if self.offset else f"{found[where]}/{self.q}"
        return (
            f"pixel {where} is {float(wide[where])}, which is not on the grid: the nearest value is {nearest}, "
            f"{apart[where]:.3g} away, and rounding explains {float(self.tolerance):.2g}. {self._advice(wide)}"
        )

    def _advice(self, wide: npt.NDArray[np.float64]) -> str:
        lowest, highest = wide.min(), wide.max()
        x, kind = f"(x - {self.offset})" if self.offset else "x", "uint8" if self.levels <= 256 else "int16"
        if self.offset <= Fraction(lowest) and Fraction(highest) <= self.offset + self.width:
            return (
                "Certificates are for images on the grid: quantize the data first, for example with "
                f"np.rint({x} * {self.q}).astype(np.{kind})"
            )
        if lowest >= 0 and MOST_NORMALISED < highest < self.levels:
            divided = "" if self.offset else f"x / {self.q}, or "
            look = f"The values look like levels 0 … {self.levels - 1}, kept as floats"
            return f"{look}: give {divided}np.rint(x).astype(np.{kind})"
        return (
            f"The values lie in [{lowest:.3g}, {highest:.3g}], not in {self.range}: the image was probably normalised. "
            "Give the plain image, and let the model normalise it: "
            "ss.Smoother(torch.nn.Sequential(soundsmooth.torch.Normalize(mean, std), model), …)"
        )


def nearest_float32(value: Fraction) -> np.float32:
    """The float32 nearest to an exact rational, ties to even; no double rounding."""
    guess = np.float32(float(value))
    near = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(near, key=lambda x: (abs(Fraction(float(x)) - value), int(x.view(np.uint32)) & 1))


@lru_cache(maxsize=16)
def level_floats(grid: Grid, name: str) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
    """The floats of this dtype that are the level t, for each t of the inputs.

    They are the double nearest to its value, and the float32 nearest to it, both cast: what x / 255 gives, computed in
    either precision and stored in any.
    """
    inputs = np.arange(grid.levels)
    doubles = np.array([float(grid.offset + Fraction(int(t), grid.q)) for t in inputs])
    return doubles.astype(name), grid.values(inputs).astype(name)


def digest_of_floats(floats: npt.NDArray[np.generic]) -> str:
    """SHA-256 of "dtype sizes", a line feed and the numbers, little-endian in C order (docs/noise.md, 2.3)."""
    head = " ".join([floats.dtype.name, *map(str, floats.shape)])
    numbers = np.asarray(floats, floats.dtype.newbyteorder("<")).tobytes()
    return hashlib.sha256(f"{head}\n".encode("ascii") + numbers).hexdigest()


def _as_doubles(image: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """The same numbers as doubles; a ValueError where that would round."""
    with np.errstate(over="ignore"):
        doubles = image.astype(np.float64)
    changed = (doubles != image) & ~np.isnan(doubles)
    if changed.any():
        raise ValueError(
            f"pixel {first_index(changed)} is {image[first_index(changed)]}, which is not on the grid: no double is "
            "equal to it. Give the image as float64"
        )
    return doubles


def _frozen(levels: Levels) -> Levels:
    levels.setflags(write=False)
    return levels


def unmasked(image: npt.ArrayLike) -> npt.NDArray[np.generic]:
    """The image as an array; a ValueError for a masked one, or a list of such.

    Guarantee: no mask is lost. (What lies under one would be certified as if it were a part of the image.)
    """
    if _has_mask(image):
        raise ValueError(
            "the image is a masked array, and a certificate has no place for a mask: decide what the masked pixels "
            "are, with image.filled(0), or pass image.data if they are as they should be"
        )
    return as_array(image)


def _has_mask(image: object) -> bool:
    return isinstance(image, np.ma.MaskedArray) or (isinstance(image, list | tuple) and any(map(_has_mask, image)))


def first_index(mask: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """The index of the first True in C order."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


#: Eight-bit images: 256 levels, and a pixel's value is its level divided by 255.
IMAGES = Grid()


def levels(image: npt.ArrayLike, grid: Grid = IMAGES) -> Levels:
    """The image as integer levels: integers are checked, floats must be those of levels, such as float32(t / 255).

    A value that is off the grid raises a ValueError that names the pixel.
    """
    return grid.on_grid(image)
