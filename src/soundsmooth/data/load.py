"""Whatever people have becomes the inputs of a run: one pass checks every image and writes its levels to a spool."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from ..certification.promise import Inputs
from ..core.grid import IMAGES, Grid, Levels, Rounding, Snapped
from ..core.integers import integer
from ..core.layouts import Layout, check_layout, laid_out
from ..core.spool import Spool
from .arrays import array_of, is_whole_array
from .datasets import dataset_source, has_numbers, is_dataset, is_loader, iterable_source, loader_source
from .files import KINDS, path_source
from .items import DataSource, Item, Lookup, rows_of
from .labels import label_of, labels_of, labels_together
from .npz import mapping_source
from .pictures import Pictures, decoder, is_picture
from .rows import Keys


def load(
    source: Any,
    *,
    labels: Any = None,
    grid: Grid = IMAGES,
    layout: Layout = "as-is",
    x_key: str | None = None,
    y_key: str | None = None,
    resize: int | None = None,
    crop: int | None = None,
    every: int = 1,
    limit: int | None = None,
) -> Inputs:
    """Images as levels of the grid, with their numbers and labels: for `certify_all`, `commit` and `verify`.

    `source` is an array or a tensor [N, …]; a list of images; a data set or a loader of torch or Hugging Face; an .npz
    (whose arrays `x_key` and `y_key` name) or .npy; a folder of images, or of one folder for each class; or the files
    of MNIST, Fashion-MNIST or CIFAR. `labels` count instead of those that the source has. Pictures are resized to
    `resize` pixels on the short side, cropped to `crop` × `crop`, and become [channels, height, width]. `layout`
    reorders axes. With `every=20` each 20th image is taken, from the first; with `limit=500` at most 500. Each keeps
    its number among all, which names its noise.

    Guarantee: a ValueError names the first image that is not on the grid or has another shape. What is returned never
    changes: it lies in memory that nobody writes to or, if it is large, in a file without a name.
    """
    if isinstance(source, Inputs):
        chosen = (layout, x_key, y_key, resize, crop, every, limit)
        plain = labels is None and chosen == ("as-is", None, None, None, None, 1, None)
        return _loaded_before(source, grid, plain)
    every, limit = _count(every, "every"), None if limit is None else _count(limit, "limit")
    opened = UnreadData.of(source, labels, grid, layout, Keys(x_key, y_key), Pictures(resize, crop), every, limit)
    return opened.read(every, limit)


def open_all(
    source: Any,
    *,
    labels: Any = None,
    grid: Grid = IMAGES,
    layout: Layout = "as-is",
    x_key: str | None = None,
    y_key: str | None = None,
    resize: int | None = None,
    crop: int | None = None,
) -> "AllImages":
    """All images of a source, for an audit, which picks some by number. Others are not read where that can be."""
    if isinstance(source, Inputs):
        found = load(
            source, labels=labels, grid=grid, layout=layout, x_key=x_key, y_key=y_key, resize=resize, crop=crop
        )
        if found.indices != tuple(range(len(found))):
            raise ValueError("the auditor's data is all of it: load it without every and limit")
        return found
    opened = UnreadData.of(source, labels, grid, layout, Keys(x_key, y_key), Pictures(resize, crop))
    return opened if isinstance(opened.source.items, Lookup) else opened.read()


def load_image(image: Any, label: SupportsIndex | None, grid: Grid, layout: Layout) -> Inputs:
    """A lone image, with number 0."""
    check_layout(layout)
    _check_lone(image)
    levels, rounded = levels_of(image, Pictures(), grid, layout)
    return Inputs((0,), [levels], (label_of(label),), [rounded], decoder() if is_picture(image) else "", grid)


def _check_lone(image: Any) -> None:
    """A ValueError for many images, and for the name of a file."""
    if isinstance(image, str | os.PathLike):
        raise ValueError(f"a lone image is an array, a tensor or a Pillow image: PIL.Image.open({str(image)!r})")
    if isinstance(image, Inputs) or is_loader(image) or is_dataset(image):
        raise ValueError(
            f"{type(image).__name__} holds a data set, and this takes one image: certify_all takes data sets"
        )


def levels_of(images: Any, pictures: Pictures, grid: Grid, layout: Layout, before: int = 0) -> Snapped:
    """The one way from what was given to levels, and what was rounded off: an image, or several, which have an axis
    `before` theirs.
    """
    return grid.snap(laid_out(array_of(images, pictures), layout, before))


def source_of(source: Any, keys: Keys, every: int = 1, limit: int | None = None) -> DataSource:
    """The items of whatever was given."""
    if isinstance(source, str | os.PathLike):
        return path_source(Path(source), keys)
    if is_picture(source):
        raise ValueError("this is one image, and a data set has many: put it into a list")
    if is_whole_array(source):
        keys.reject("an array")
        return rows_of(source if source.shape else source.reshape(1))
    if is_loader(source):
        return loader_source(source, keys)
    if isinstance(source, Mapping):
        return mapping_source(source, keys)
    if has_numbers(source):
        return dataset_source(source, keys, every, limit)
    if isinstance(source, Iterable):
        return iterable_source(source, keys)
    raise ValueError(
        f"data of type {type(source).__name__} cannot be read: pass arrays, tensors, lists of images, data sets or "
        f"loaders, or a path ({KINDS})"
    )


@dataclass(frozen=True)
class UnreadData:
    """A source, and how it is read: nothing has been read yet."""

    source: DataSource
    grid: Grid
    layout: Layout
    pictures: Pictures
    given: list[Any] | npt.NDArray[Any] | None
    """Labels that count instead of the source's."""

    @classmethod
    def of(
        cls,
        source: Any,
        labels: Any,
        grid: Grid,
        layout: Layout,
        keys: Keys,
        pictures: Pictures,
        every: int = 1,
        limit: int | None = None,
    ) -> "UnreadData":
        check_layout(layout)
        found = source_of(source, keys, every, limit)
        return cls(found, grid, layout, pictures, labels_of(labels, found.count))

    def __len__(self) -> int:
        assert self.source.count is not None
        return self.source.count

    def pick(self, numbers: Sequence[int]) -> Inputs:
        """The images with these numbers, in this order; a ValueError names the one that cannot be an input."""
        items, reading = self.source.items, _Pass(self)
        assert isinstance(items, Lookup)
        return reading.inputs(Spool.joined(reading.chunk(items, some) for some in items.chunks(numbers)))

    def read(self, every: int = 1, limit: int | None = None) -> Inputs:
        """Each image whose number is a multiple of `every`, at most `limit` of them."""
        if isinstance(self.source.items, Lookup):
            return self.pick(range(0, self.source.items.count, every)[:limit])
        reading, chosen = _Pass(self), islice(islice(enumerate(self.source.items), 0, None, every), limit)
        levels, given = Spool(reading.one(number, item) for number, item in chosen), self.given
        if given is not None and limit is None and len(given) > (reading.numbers or [-1])[-1] + every:
            raise ValueError(f"{len(given)} labels do not match the images, of which there are fewer")
        return reading.inputs(levels)


AllImages = Inputs | UnreadData


@dataclass
class _Pass:
    """One pass over a source."""

    of: UnreadData
    numbers: list[int] = field(default_factory=list)
    labels: list[int | None] = field(default_factory=list)
    rounded: list[Rounding | None] = field(default_factory=list)
    alone: bool = False
    """Whether each image is to be read alone: one was found that has to be named, or pays for its distance."""
    decoded: bool = False
    """Whether any item was a picture."""
    first: tuple[str, tuple[int, ...]] | None = None
    """Name and shape of the first image: all others have this shape."""

    def inputs(self, levels: Spool) -> Inputs:
        """What was read, with its levels."""
        origin = [self.of.source.origin, *([decoder()] if self.decoded else []), *self.of.pictures.words]
        made = ", ".join(filter(None, origin))
        return Inputs(self.numbers, levels, self.labels, self.rounded, made, self.of.grid)

    def chunk(self, items: Lookup, numbers: Sequence[int]) -> Levels:
        """The levels of images, [images, …]; at once, if they lie in one array and nothing is wrong with them."""
        levels = None
        if items.together is not None and not self.alone:
            levels = self._together(numbers, *items.together(numbers))
            self.alone = levels is None
        if levels is not None:
            return levels
        found = [self.one(each, items.get(each)) for each in numbers]
        return found[0][None] if len(found) == 1 else np.stack(found)

    def _together(self, numbers: Sequence[int], images: Any, labels: Any) -> Levels | None:
        """The levels of rows with these numbers; None if something is wrong with one of them, or was rounded off."""
        how, given = self.of, self.of.given
        if given is not None:
            labels = given[list(numbers)] if isinstance(given, np.ndarray) else [given[each] for each in numbers]
        try:
            levels, rounded = levels_of(images, how.pictures, how.grid, how.layout, before=1)
            classes = labels_together(labels, len(numbers))
        except ValueError:
            return None
        if rounded is not None:
            return None
        self.numbers += numbers
        self.labels += classes
        self.rounded += [None] * len(numbers)
        return levels

    def one(self, number: int, item: Item) -> Levels:
        """The levels of an image."""
        try:
            levels = self._read(item)
            label = label_of(self._label(number, item))
        except ValueError as error:
            raise ValueError(f"{item.name}: {error}") from None
        self.numbers.append(number)
        self.labels.append(label)
        return levels

    def _read(self, item: Item) -> Levels:
        levels, rounded = levels_of(item.image, self.of.pictures, self.of.grid, self.of.layout)
        self.decoded = self.decoded or is_picture(item.image)
        name, shape = self.first = self.first or (item.name, levels.shape)
        if levels.shape != shape:
            raise ValueError(
                f"its shape is {list(levels.shape)}, and that of {name} is {list(shape)}: all images of a run must "
                f"have the same shape; {_cure(item.image, levels.shape, shape)}"
            )
        self.rounded.append(rounded)
        return levels

    def _label(self, number: int, item: Item) -> Any:
        given = self.of.given
        if given is None:
            return item.label
        if number >= len(given):
            raise ValueError(f"{len(given)} labels do not match the images, of which there are more")
        return given[number]


def _cure(image: Any, shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """What to do about images of several shapes."""
    if len(shape) == 1 < len(wanted):
        return "if these are labels, give them apart, as labels=…"
    if not is_picture(image):
        return "make them equal before"
    grey = prod(shape) == 3 * prod(wanted) or prod(wanted) == 3 * prod(shape)
    return (
        'some are grey: convert all to one mode, image.convert("RGB")' if grey else "resize= and crop= make them equal"
    )


def _loaded_before(inputs: Inputs, grid: Grid, plain: bool) -> Inputs:
    if not plain:
        raise ValueError(
            "this data was loaded before: give labels, layout, every, limit and the other options to ss.load"
        )
    if inputs.grid not in (None, grid):
        raise ValueError(f"this data was loaded for another grid: ss.load(…, grid={grid!r})")
    return inputs


def _count(value: SupportsIndex, name: str) -> int:
    found = integer(value, name)
    if found < 1:
        raise ValueError(f"{name} must be at least 1{' (each image)' if name == 'every' else ''}, not {found}")
    return found
