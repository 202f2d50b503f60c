"""Data sets and loaders of others, read in their order: rows that can be asked for by number, rows that come one after
the other, and batches. What would give other images the next time is rejected.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from ..core.errors import describe_error
from .arrays import array_of
from .items import DataSource, Item, Lookup
from .pictures import Pictures
from .rows import Keys

#: So many rows are read a second time. A flip with probability 1/2 changes none of them with probability 2⁻¹⁶.
AGAIN = 16


def dataset_source(rows: Any, keys: Keys, every: int, limit: int | None) -> DataSource:
    """A data set with a length, whose rows have numbers."""
    count = len(rows)

    def get(number: int) -> Item:
        name = f"image {number}"
        try:
            return Item(name, *keys.parts(rows[number]))
        except Exception as error:  # of the data set's own code
            raise ValueError(f"{name} cannot be read: {describe_error(error)}") from error

    first = range(0, count, every)[:limit][:AGAIN]
    if first and not isinstance(rows, list | tuple):
        _check_repeats((get(number), get(number)) for number in (first[i % len(first)] for i in range(AGAIN)))
    return DataSource(Lookup(count, get))


def iterable_source(rows: Iterable[Any], keys: Keys) -> DataSource:
    """Rows that come one after the other, and are counted from 0. What can be read only once cannot be compared."""

    def items() -> Iterator[Item]:
        for number, row in enumerate(_watched(rows)):
            yield _named(number, row, keys)

    if not isinstance(rows, Iterator):
        _check_repeats(zip(islice(items(), AGAIN), islice(items(), AGAIN), strict=False))
    return DataSource(items())


def loader_source(loader: Any, keys: Keys) -> DataSource:
    """The rows of a loader's batches, which must come in the order of its data set."""
    rows = loader.dataset
    if has_numbers(rows):
        _check_order(loader, len(rows))
    elif getattr(loader, "drop_last", False):
        raise ValueError("the loader may leave out the last images, unseen: make it with drop_last=False")
    single = loader.batch_size is None and getattr(loader, "batch_sampler", None) is None

    def items() -> Iterator[Item]:
        number = 0
        for batch in _watched(loader):
            for row in [batch] if single else _unbatched(batch, keys, number):
                yield _named(number, row, keys if single else Keys(), listed=True)
                number += 1

    _check_repeats(zip(islice(items(), AGAIN), islice(items(), AGAIN), strict=False))
    return DataSource(items())


def has_numbers(rows: object) -> bool:
    """Whether rows can be asked for by number. (torch's iterable data sets have the method, and it does not work.)"""
    iterable_only = any(each.__name__ == "IterableDataset" for each in type(rows).__mro__)
    return hasattr(rows, "__len__") and hasattr(rows, "__getitem__") and not iterable_only


def is_loader(source: object) -> bool:
    """Whether it is a DataLoader of torch, or something that has its parts."""
    return all(hasattr(source, name) for name in ("dataset", "batch_size", "sampler", "collate_fn"))


def is_dataset(source: object) -> bool:
    """Whether it is a data set of torch or Hugging Face, by the name of its class."""
    return any(each.__name__ in ("Dataset", "IterableDataset", "DatasetDict") for each in type(source).__mro__)


def _watched(rows: Iterable[Any]) -> Iterator[Any]:
    """The rows; what goes wrong on the way becomes a ValueError that says after how many."""
    count = 0
    try:
        for row in rows:
            yield row
            count += 1
    except GeneratorExit:
        raise
    except Exception as error:  # of the data set's own code
        raise ValueError(f"the data breaks off after {count} rows or batches: {describe_error(error)}") from error


def _named(number: int, row: Any, keys: Keys, listed: bool = False) -> Item:
    name = f"image {number}"
    try:
        return Item(name, *keys.parts(row, listed))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _unbatched(batch: Any, keys: Keys, number: int) -> Iterator[tuple[Any, Any]]:
    """The rows of a batch, as pairs."""
    try:
        images, labels = keys.parts(batch, listed=True)
        count = len(images)
        if labels is not None and len(labels) != count:
            raise ValueError(f"it has {count} images and {len(labels)} labels")
    except (ValueError, TypeError) as error:
        raise ValueError(f"the batch of image {number}: {error}") from None
    return ((images[row], None if labels is None else labels[row]) for row in range(count))


def _check_order(loader: Any, count: int) -> None:
    """A ValueError unless the loader gives all rows of its data set in their order."""
    sampler = loader.sampler
    if any("Random" in each.__name__ for each in type(sampler).__mro__):
        raise ValueError(
            "the loader shuffles, and a certificate needs to say which image it is for: make it with shuffle=False, "
            "or pass loader.dataset"
        )
    batches = getattr(loader, "batch_sampler", None)
    order = list(sampler) if batches is None else [number for batch in batches for number in batch]
    if order == list(range(len(order))) and len(order) < count:
        raise ValueError(
            f"the loader leaves out the last {count - len(order)} of {count} images: make it with drop_last=False, or "
            "pass loader.dataset"
        )
    if order != list(range(count)):
        raise ValueError("the loader has an order of its own, and numbers would be wrong: pass loader.dataset")


def _check_repeats(pairs: Iterable[tuple[Item, Item]]) -> None:
    """A ValueError if a row is not what it was when it was read before."""
    for one, other in pairs:
        if not (_same(one.image, other.image) and _same(one.label, other.label)):
            raise ValueError(
                f"{one.name} is another one each time it is read: the data is augmented or shuffled. Take the "
                "transform of the test set, without random steps"
            )


def _same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    values = [array_of(each, Pictures()) for each in (one, other)]
    return values[0].shape == values[1].shape and values[0].tobytes() == values[1].tobytes()
