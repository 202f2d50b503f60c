"""Items: the images of a source one by one, each with its label and the name by which an error calls it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
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
    together: Callable[[range], tuple[Any, Any]] | None = None
    """Images and labels of several numbers, where both lie in arrays of NumPy."""
    most: int = 1
    """So many numbers at once."""

    def chunks(self, every: int, limit: int | None) -> Iterator[range]:
        """Each multiple of `every`, at most `limit` of them, at most `most` at once."""
        numbers = range(0, self.count, every)[:limit]
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

    def chosen(self, every: int, limit: int | None) -> Iterator[tuple[int, Item]]:
        """Each item whose number is a multiple of `every`, at most `limit` of them, with its number among all."""
        if isinstance(self.items, Lookup):
            for number in range(0, self.items.count, every)[:limit]:
                yield number, self.items.get(number)
        else:
            yield from islice(islice(enumerate(self.items), 0, None, every), limit)


def rows_of(images: Any, labels: Any = None, prefix: str = "", origin: str = "") -> DataSource:
    """The rows of one array or tensor of images, each beside the row of the labels."""

    def get(number: int) -> Item:
        return Item(f"{prefix}image {number}", images[number], None if labels is None else labels[number])

    def together(numbers: range) -> tuple[Any, Any]:
        rows = slice(numbers.start, numbers.stop, numbers.step)
        return images[rows], None if labels is None else labels[rows]

    if not all(each is None or type(each) in PLAIN for each in (images, labels)):
        return DataSource(Lookup(len(images), get), origin)
    most = max(1, ELEMENTS_TOGETHER // max(1, prod(images.shape[1:])))
    return DataSource(Lookup(len(images), get, together, most), origin)
