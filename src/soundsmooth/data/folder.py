"""Folders of images: a folder for each class, in the order of their names, or one folder without labels."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from .items import DataSource, Item, Lookup
from .pictures import GREY, SUFFIXES, in_eight_bits, opened

#: Folders of these names are parts of a data set, and no classes.
PARTS = frozenset(("train", "training", "val", "valid", "validation", "test", "testing"))


Seen = TypeVar("Seen")


class _File(NamedTuple):
    path: Path
    name: str
    label: int | None


def folder_source(folder: Path) -> DataSource:
    """All images of a folder. Class folders are numbered in the sorted order of their names, as torchvision does it.

    If every image is grey, all have one channel; otherwise all become RGB.
    """
    files = _files(folder)
    mode = "L" if all(_look(file, _is_grey) for file in files) else "RGB"
    return DataSource(Lookup(len(files), partial(_item, files, mode)))


def file_source(path: Path) -> DataSource:
    """One image file: a data set of one image."""
    file = _File(path, path.name, None)
    return DataSource(Lookup(1, partial(_item, [file], "L" if _look(file, _is_grey) else "RGB")))


def _files(folder: Path) -> list[_File]:
    classes = sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
    loose = [path for path in sorted(folder.iterdir()) if _is_image(path) and not path.is_dir()]
    if classes and loose:
        raise ValueError(
            f"{str(folder)!r} holds images and folders ({loose[0].name!r}, {classes[0]!r}): pass a folder of images, "
            "or a folder with one folder for each class"
        )
    if classes and PARTS.issuperset(classes):
        raise ValueError(f"{str(folder)!r} holds {', '.join(classes)}: pass one of them, {str(folder / classes[-1])!r}")
    found = [_File(path, path.name, None) for path in loose]
    for label, name in enumerate(classes):
        found += [_File(path, str(path.relative_to(folder)), label) for path in _inside(folder / name)]
    if not found:
        raise ValueError(f"{str(folder)!r} holds no image ({', '.join(SUFFIXES)}), and no data set that is known")
    return found


def _inside(folder: Path) -> list[Path]:
    """The images of a class: folder by folder, in the order of their names."""
    walked = sorted(_walked(folder))
    found = [path for root, names in walked for path in (Path(root, name) for name in sorted(names))]
    images = [path for path in found if _is_image(path)]
    if not images:
        raise ValueError(f"the class folder {str(folder)!r} holds no image ({', '.join(SUFFIXES)})")
    return images


def _walked(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """All folders in a folder, with the names in them; a ValueError if links lead to one of them twice."""
    seen = set[str]()
    for root, _, names in os.walk(folder, followlinks=True):
        if os.path.realpath(root) in seen:
            raise ValueError(f"links lead to {root!r} twice: its images would count more than once")
        seen.add(os.path.realpath(root))
        yield root, names


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def _is_grey(picture: Any) -> bool:
    return picture.mode in GREY


def _item(files: list[_File], mode: str, number: int) -> Item:
    file = files[number]
    return Item(file.name, _look(file, partial(in_eight_bits, mode=mode)), file.label)


def _look(file: _File, see: Callable[[Any], Seen]) -> Seen:
    """What is seen in the picture of a file; an error names the file."""
    try:
        with opened(file.path) as picture:
            return see(picture)
    except ValueError as error:
        raise ValueError(f"{file.name}: {error}") from None
