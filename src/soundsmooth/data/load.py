"""Whatever people have becomes the inputs of a run: one pass checks every image and writes its levels to a spool."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, SupportsIndex

from ..certification.promise import Inputs
from ..core.grid import IMAGES, Grid, Levels, Rounding, Snapped
from ..core.integers import integer
from ..core.layouts import Layout, check_layout, laid_out
from ..core.spool import Spool
from .arrays import array_of, is_whole_array
from .datasets import dataset_source, has_numbers, is_dataset, is_loader, iterable_source, loader_source
from .files import KINDS, path_source
from .items import DataSource, Item, rows_of
from .labels import label_of, labels_of
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
    check_layout(layout)
    every, limit = _count(every, "every"), None if limit is None else _count(limit, "limit")
    keys, pictures = Keys(x_key, y_key), Pictures(resize, crop)
    found = source_of(source, keys, every, limit)
    given = labels_of(labels, found.count)
    return _Pass(grid, layout, pictures, given).over(found, every, limit)


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


def levels_of(image: Any, pictures: Pictures, grid: Grid, layout: Layout) -> Snapped:
    """The one way from what was given to levels, and what was rounded off."""
    return grid.snap(laid_out(array_of(image, pictures), layout))


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


@dataclass
class _Pass:
    """One pass over a source."""

    grid: Grid
    layout: Layout
    pictures: Pictures
    given: list[Any] | None
    """Labels that count instead of the source's."""
    numbers: list[int] = field(default_factory=list)
    labels: list[int | None] = field(default_factory=list)
    rounded: list[Rounding | None] = field(default_factory=list)
    decoded: bool = False
    """Whether any item was a picture."""
    first: tuple[str, tuple[int, ...]] | None = None
    """Name and shape of the first image: all others have this shape."""

    def over(self, source: DataSource, every: int, limit: int | None) -> Inputs:
        """The inputs; a ValueError names the item that cannot be one."""
        levels = Spool(self._levels(source.chosen(every, limit)))
        if self.given is not None and limit is None and len(self.given) > (self.numbers or [-1])[-1] + every:
            raise ValueError(f"{len(self.given)} labels do not match the images, of which there are fewer")
        origin = [source.origin, *([decoder()] if self.decoded else []), *self.pictures.words]
        made = ", ".join(filter(None, origin))
        return Inputs(self.numbers, levels, self.labels, self.rounded, made, self.grid)

    def _levels(self, items: Iterator[tuple[int, Item]]) -> Iterator[Levels]:
        for number, item in items:
            try:
                levels = self._read(item)
                label = label_of(self._label(number, item))
            except ValueError as error:
                raise ValueError(f"{item.name}: {error}") from None
            self.numbers.append(number)
            self.labels.append(label)
            yield levels

    def _read(self, item: Item) -> Levels:
        levels, rounded = levels_of(item.image, self.pictures, self.grid, self.layout)
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
        if self.given is None:
            return item.label
        if number >= len(self.given):
            raise ValueError(f"{len(self.given)} labels do not match the images, of which there are more")
        return self.given[number]


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
