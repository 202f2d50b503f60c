"""Sizes of axes, as far as they are known: a count times a product of symbols, one of which is the batch size.

A symbol stands for one positive integer in each run. Two extents that are equal here are equal in every run;
nothing is concluded from two extents that differ.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

BATCH_SYMBOL = "batch"
_fresh = count()


@dataclass(frozen=True)
class Extent:
    """count · symbol · symbol …; the symbols are sorted."""

    count: int
    symbols: tuple[str, ...] = ()

    @property
    def of_batch(self) -> bool:
        """The batch size is a factor."""
        return BATCH_SYMBOL in self.symbols

    @property
    def number(self) -> int | None:
        """The value, if no symbol is left."""
        return None if self.symbols else self.count

    def times(self, other: "Extent") -> "Extent":
        return Extent(self.count * other.count, tuple(sorted(self.symbols + other.symbols)))

    def over(self, other: "Extent") -> "Extent | None":
        """self / other, if the division is exact in every run; else None."""
        if other.count == 0 or self.count % other.count:
            return None
        left = Counter(self.symbols)
        left.subtract(other.symbols)
        if any(times < 0 for times in left.values()):
            return None
        return Extent(self.count // other.count, tuple(sorted(left.elements())))

    def __str__(self) -> str:
        factors = [str(self.count)] if self.count != 1 or not self.symbols else []
        return "·".join([*factors, *("?" if symbol.startswith("?") else symbol for symbol in self.symbols)])


ONE = Extent(1)
BATCH = Extent(1, (BATCH_SYMBOL,))


def unknown() -> Extent:
    """The size of an axis of which nothing is known, except that it does not depend on the batch."""
    return Extent(1, (f"?{next(_fresh)}",))


def product(extents: Iterable[Extent]) -> Extent:
    result = ONE
    for extent in extents:
        result = result.times(extent)
    return result
