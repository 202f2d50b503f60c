"""A law with breakpoints that tie with known elements of a real keystream, for tests of what never happens."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from soundsmooth.core.grid import Grid
from soundsmooth.noise import Keystream, Law


@dataclass(frozen=True)
class Forced(Law):
    """A law whose breakpoints are given, as exact fractions. It certifies nothing."""

    word = "forced"
    norm = "none"

    points: tuple[Fraction, ...] = ()

    @property
    def parameter(self) -> Fraction:
        return Fraction(1)

    def radius(self, p_lower: float, p_upper: float | None) -> float:
        raise NotImplementedError

    def breakpoints(self, bits: int) -> tuple[int, ...]:
        return tuple(int(point * (1 << bits)) for point in self.points)

    def breakpoint(self, j: int, bits: int) -> int:
        return int(self.points[j + self.reach] * (1 << bits))


def forced(*points: Fraction) -> Forced:
    """These breakpoints and a few far out in the tails, for noise that is added to the levels 0 and 1."""
    tails = [Fraction(2 * i + 3, 1 << 33) for i in range(2 + len(points) % 2)]
    every = sorted([*points, *tails, 1 - tails[0], 1 - tails[1]])
    return Forced(Grid(levels=2, q=1), len(every) // 2 - 1, tuple(every))


def beginning(bits: Keystream, element: int, levels: int, step: int = 0) -> Fraction:
    """U of an element, cut after the words of so many levels above 0; the last bit there moved by `step`."""
    first = np.empty(1, np.uint32)
    bits.first_words(element, first)
    number = int(first[0])
    for level in range(1, levels + 1):
        number = number << 64 | bits.later_word(level, element)
    return Fraction(number + step, 1 << (32 + 64 * levels))
