"""Items: the images of a source one by one, each with its label and the name by which an error calls it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

#: Rows of an array are read together, up to this many elements: what is computed of them stays in the cache.
ELEMENTS_TOGETHER = 1 << 17
#: Arrays of which several rows are the rows one by one. Their subclasses may have ideas of their own.
PLAIN = (np.ndarray, np.memmap)


class Item(NamedTuple):
    """One image as the source gives it."""

    name: str
    """Its file, or its number: "image 17"."""
    image: Any
    label: Any = None


@dataclass(frozen=True)
class Lookup:
    """Items that are made when they are asked for, in any order."""

    count: int
    get: Callable[[int], Item]
    together: Callable[[Sequence[int]], tuple[Any, Any]] | None = None
    """Images and labels of several numbers, where both lie in arrays of NumPy."""
    most: int = 1
    """So many numbers at once."""

    def chunks(self, numbers: Sequence[int]) -> Iterator[Sequence[int]]:
        """The numbers in their order, as many at once as are read together."""
        for first in range(0, len(numbers), self.most):
            yield numbers[first : first + self.most]


@dataclass(frozen=True)
class DataSource:
    """All items of a data set, and what is known of where they come from."""

    items: Lookup | Iterable[Item]
    origin: str = ""

    @property
    def count(self) -> int | None:
        """How many there are, if that is known before they are read."""
        return self.items.count if isinstance(self.items, Lookup) else None


def rows_of(images: Any, labels: Any = None, prefix: str = "", origin: str = "") -> DataSource:
    """The rows of one array or tensor of images, each beside the row of the labels."""

    def get(number: int) -> Item:
        return Item(f"{prefix}image {number}", images[number], None if labels is None else labels[number])

    def together(numbers: Sequence[int]) -> tuple[Any, Any]:
        rows = slice(numbers.start, numbers.stop, numbers.step) if isinstance(numbers, range) else list(numbers)
        return images[rows], None if labels is None else labels[rows]

    if not all(each is None or type(each) in PLAIN for each in (images, labels)):
        return DataSource(Lookup(len(images), get), origin)
    most = max(1, ELEMENTS_TOGETHER // max(1, prod(images.shape[1:])))
    return DataSource(Lookup(len(images), get, together, most), origin)
