"""What the tests of the noise share: replayed bits, and breakpoints by MPFR, which shares no code with Arb."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import gmpy2
import numpy as np
import numpy.typing as npt
import pytest


@dataclass
class Replay:
    """Bits that were written down beforehand: stands in for a `Keystream`.

    Element `start + i` begins with words[i]; its later words come from `later(level, element)`, and `read` keeps a
    record of which of them were asked for.
    """

    words: npt.NDArray[np.uint32]
    later: Callable[[int, int], int] = lambda level, element: 0
    start: int = 0
    read: list[tuple[int, int]] = field(default_factory=list)

    def first_words(self, first: int, out: npt.NDArray[np.uint32]) -> None:
        at = first - self.start
        assert 0 <= at <= at + out.size <= self.words.size, "read beyond the stream"
        out[:] = self.words[at : at + out.size]

    def later_word(self, level: int, element: int) -> int:
        assert 1 <= level <= 255, "there is no such level"
        self.read.append((level, element))
        return self.later(level, element)

    @classmethod
    def of_numbers(cls, numbers: list[int], bits: int) -> "Replay":
        """One element per number U = number / 2^bits, with bits = 32 + 64·L; all words after that are zero."""
        last = (bits - 32) // 64

        def later(level: int, element: int) -> int:
            return numbers[element] >> 64 * (last - level) & 0xFFFF_FFFF_FFFF_FFFF if level <= last else 0

        return cls(np.array([number >> (bits - 32) for number in numbers], np.uint32), later)


def _mpfr_floor(sigma: Fraction, q: int, j: int, bits: int) -> int:
    """⌊2^bits · Φ((j + ½)/(σq))⌋ by MPFR with 200 guard bits; asserts that it is 2^−100 away from any integer."""
    z = Fraction(2 * j + 1, 2 * q) / sigma
    if z * z > 2 * bits:  # Φ(−|z|) ≤ exp(−z²/2)/2 < 2^−bits
        return 0 if j < 0 else (1 << bits) - 1
    with gmpy2.context(precision=bits + 200):
        at = gmpy2.mpfr(gmpy2.mpq(z))
        scaled = gmpy2.mul_2exp(gmpy2.erfc(-at / gmpy2.sqrt(gmpy2.mpfr(2))), bits - 1)
        floor = int(gmpy2.floor(scaled))
        margin = gmpy2.mul_2exp(gmpy2.mpfr(1), -100)
        assert margin < scaled - floor < 1 - margin, f"MPFR cannot tell the floor for sigma={sigma}, j={j}"
        return floor


@pytest.fixture(scope="session")
def replay() -> type[Replay]:
    return Replay


@pytest.fixture(scope="session")
def mpfr_floor() -> Callable[[Fraction, int, int, int], int]:
    return _mpfr_floor
