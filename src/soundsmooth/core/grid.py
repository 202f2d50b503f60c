"""The grid: integer levels, the values they stand for, and what is and is not on it."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .integers import integer

Levels = npt.NDArray[np.int16]
Floats = npt.NDArray[np.float32]

#: The largest level, in absolute value, that any computation may reach: levels are kept in int16.
MOST_LEVEL = 32767


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

    def on_grid(self, image: npt.NDArray[np.generic]) -> Levels:
        """The image as levels, or a ValueError. Integers only: floats go through `levels_of_floats`."""
        image = unmasked(image)
        if image.dtype.kind == "f":
            self.levels_of_floats(image)  # names the pixel if one is off the grid
            raise ValueError(
                f"the image has dtype {image.dtype}, but levels are integers 0 … {self.levels - 1}; "
                "all its values are on the grid: pass ss.levels(image)"
            )
        if image.dtype.kind not in "iu":
            raise ValueError(
                f"the image has dtype {image.dtype}; pass integer levels 0 … {self.levels - 1} (uint8 for images)"
            )
        whole = image.astype(np.int64) if image.dtype != np.uint64 else np.minimum(image, 1 << 62).astype(np.int64)
        outside = (whole < 0) | (whole >= self.levels)
        if outside.any():
            where = first_index(outside)
            raise ValueError(f"pixel {where} is {image[where]}, outside the levels 0 … {self.levels - 1}")
        return image.astype(np.int16)

    def fixed(self, image: npt.NDArray[np.generic]) -> Levels:
        """As `on_grid`, in memory of its own that is not written to any more."""
        found = self.on_grid(image)
        found.setflags(write=False)
        return found

    def check_levels(self, levels: Levels) -> None:
        """A ValueError unless these are levels of inputs, as `on_grid` gives them: noise has no law for others."""
        if levels.dtype != np.int16 or levels.min(initial=0) < 0 or levels.max(initial=0) >= self.levels:
            raise ValueError(f"inputs are levels 0 … {self.levels - 1} in int16: take them from Grid.on_grid(image)")

    def _advice(self, image: npt.NDArray[np.float64], where: tuple[int, ...]) -> str:
        lowest, highest = self.offset, self.offset + Fraction(self.levels - 1, self.q)
        if image.min() < lowest or image.max() > highest:
            if np.array_equal(image, np.clip(np.rint(image), 0, self.levels - 1)):
                return "the values look like levels, kept as floats: x.astype(np.uint8) makes integers of them"
            return (
                f"some values lie outside [{lowest}, {highest}]: if the data is normalised, give the plain image and "
                "put the normalisation into the model; then convert it with ss.levels(image)"
            )
        nearest = round((Fraction(image[where]) - self.offset) * self.q)
        return (
            f"the nearest value is {nearest}/{self.q}. Certificates are for images on the grid: quantize the data "
            "first, then convert it with ss.levels(image)"
        )

    def levels_of_floats(self, image: npt.NDArray[np.generic]) -> Levels:
        """Floats that are exactly the float32 value of a level, back to levels; a ValueError names the rest.

        Doubles may also be the double nearest to the level's value, which is what `image / 255.0` gives.
        Nothing is ever rounded to the grid: that would certify another image.
        """
        image = unmasked(image)
        if image.dtype.kind in "iu":
            return self.on_grid(image)
        if image.dtype.kind != "f":
            raise ValueError(f"cannot read levels from dtype {image.dtype}; pass integers or floats")
        wide = image.astype(np.float64)
        nan = np.isnan(wide)
        if nan.any():
            raise ValueError(f"pixel {first_index(nan)} is NaN, which is no level")
        inputs = np.arange(self.levels, dtype=np.int16)
        guess = np.clip(np.rint((wide - float(self.offset)) * self.q), 0, self.levels - 1).astype(np.int16)
        single = self.values(inputs).astype(np.float64)[guess]
        double = np.array([float(self.offset + Fraction(int(t), self.q)) for t in inputs])[guess]
        off = (wide != single) & ((wide != double) | (image.dtype != np.float64)) | (wide != image)
        if off.any():
            where = first_index(off)
            raise ValueError(
                f"pixel {where} is {float(wide[where])}, which is not on the grid; {self._advice(wide, where)}"
            )
        return guess


def nearest_float32(value: Fraction) -> np.float32:
    """The float32 nearest to an exact rational, ties to even; no double rounding."""
    guess = np.float32(float(value))
    near = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(near, key=lambda x: (abs(Fraction(float(x)) - value), int(x.view(np.uint32)) & 1))


def unmasked(image: npt.ArrayLike) -> npt.NDArray[np.generic]:
    """The image as an array; a ValueError for a masked one, or a list of such.

    Guarantee: no mask is lost. (What lies under one would be certified as if it were a part of the image.)
    """
    if _has_mask(image):
        raise ValueError(
            "the image is a masked array, and a certificate has no place for a mask: decide what the masked pixels "
            "are, with image.filled(0), or pass image.data if they are as they should be"
        )
    return np.asarray(image)


def _has_mask(image: object) -> bool:
    return isinstance(image, np.ma.MaskedArray) or (isinstance(image, list | tuple) and any(map(_has_mask, image)))


def first_index(mask: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """The index of the first True in C order."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


#: Eight-bit images: 256 levels, and a pixel's value is its level divided by 255.
IMAGES = Grid()


def levels(image: npt.ArrayLike, grid: Grid = IMAGES) -> Levels:
    """The image as integer levels: integers are checked, floats must be exactly float32(t / 255).

    A value that is off the grid raises a ValueError that names the pixel.
    """
    return grid.levels_of_floats(unmasked(image))
