"""Items: the images of a source one by one, each with its label and the name by which an error calls it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple


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

    return DataSource(Lookup(len(images), get), origin)
