"""Arrays in files: .npz with names, of which one is the images and one the labels, and .npy."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.plain_files import plain_file
from ..core.warn import warn_user
from .arrays import is_whole_array
from .items import DataSource, rows_of
from .rows import Keys

#: The usual names of images, with those of their labels. One of them counts, or the only array with three axes or more.
USUAL = {"x": "y", "images": "labels", "x_test": "y_test", "data": "labels"}
LABELS = ("y", "labels", "label", "y_test", "targets", "target")
Array = npt.NDArray[Any]


def npz_source(path: Path, keys: Keys) -> DataSource:
    """The images of an .npz and, if it has any, their labels."""
    with plain_file(path, "data file") as file:
        with _plainly(repr(str(path)), "an .npz of plain arrays"):
            held = np.load(file, allow_pickle=False)
        if not isinstance(held, np.lib.npyio.NpzFile):
            raise ValueError(f"{str(path)!r} is one array and no .npz: give it the name of an .npy")
        with held:
            names = _Names(str(path), held.files, partial(_dimensions, path, held))
            x = names.images(keys.x)
            y = names.labels(x, keys.y)
            images, labels = _array(path, held, x), None if y is None else _array(path, held, y)
    return _checked(path.name, images, labels, x, y)


def npy_source(path: Path) -> DataSource:
    """The images of an .npy, which stay in the file until they are needed."""
    with plain_file(path, "data file") as file, _plainly(repr(str(path)), "an .npy of plain numbers"):
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = header(file)
        if dtype.hasobject:
            raise ValueError("pickled objects")
        images = np.memmap(file, dtype, "r", file.tell(), shape, "F" if fortran else "C")
    return _checked(path.name, images, None, "x", None)


def mapping_source(held: Mapping[str, Any], keys: Keys) -> DataSource:
    """Arrays by name, as np.load gives them; a ValueError for a mapping of anything else."""
    if not held or not all(is_whole_array(each) for each in held.values()):
        some = ", ".join(map(repr, list(held)[:8]))
        raise ValueError(f"this holds {some or 'nothing'}: pass one data set, such as data['test']")
    dimensions = {name: len(each.shape) for name, each in held.items()}
    names = _Names("the mapping", list(held), dimensions.__getitem__)
    x = names.images(keys.x)
    y = names.labels(x, keys.y)
    return _checked("the mapping", held[x], None if y is None else held[y], x, y)


class _Names:
    """Which of some arrays are the images, and which the labels."""

    def __init__(self, where: str, names: list[str], dimensions: Callable[[str], int]) -> None:
        self._where, self._names, self._dimensions = where, names, dimensions

    def images(self, given: str | None) -> str:
        """The name that was given, a usual one, or that of the only array with three axes or more."""
        if given is not None:
            return self._there(given, "x_key")
        usual = [name for name in USUAL if name in self._names]
        if "x" in usual or len(usual) == 1:
            return usual[0]
        found = usual or [name for name in dict.fromkeys(self._names) if self._dimensions(name) >= 3]
        if len(found) == 1:
            return found[0]
        raise ValueError(
            f'{self._where!r} must be an .npz with the images as "x" (and the labels as "y"){self._instead()}; '
            'or name them: x_key="…" and y_key="…" in Python, or --x-key and --y-key'
        )

    def labels(self, images: str, given: str | None) -> str | None:
        """The name that was given, that which goes with the images, or the only usual one; None if there is none. Where
        there is an `x_test`, `y_test` goes with that alone.
        """
        if given is not None:
            return self._there(given, "y_key")
        partner = USUAL.get(images)
        if partner in self._names:
            return partner
        theirs = "y_test" if "x_test" in self._names else None
        found = [name for name in LABELS if name in self._names and name != theirs]
        if len(found) > 1:
            raise ValueError(f"which of {', '.join(map(repr, found))} are the labels? Name them: y_key={found[0]!r}")
        if not found:
            self._remark_others(images)
        return found[0] if found else None

    def _remark_others(self, images: str) -> None:
        """Labels under another name would be left out silently."""
        others = [name for name in self._names if name != images and self._dimensions(name) in (1, 2)]
        if others:
            said = f"{', '.join(map(repr, others[:5]))} may hold them: y_key={others[0]!r}, or --y-key {others[0]}"
            warn_user(f"{self._where!r} is read without labels, since none has a usual name; {said}")

    def _there(self, name: str, option: str) -> str:
        if name not in self._names:
            raise ValueError(f"{self._where!r} has no {name!r}{self._instead()}: name another with {option}")
        return name

    def _instead(self) -> str:
        return f", not as {', '.join(map(repr, self._names[:5]))}" if self._names else ""


def _checked(where: str, images: Any, labels: Any, x: str, y: str | None) -> DataSource:
    """The rows of the images and labels; a ValueError unless there is one label for each image."""
    if len(images.shape) < 2 or 0 in images.shape:
        raise ValueError(f'"{x}" in {where} must be [images, …], not of shape {list(images.shape)}')
    if labels is not None:
        flat = tuple(labels.shape) in ((len(images),), (len(images), 1))
        if not flat or (isinstance(labels, np.ndarray) and labels.dtype.kind not in "iu"):
            raise ValueError(
                f'"{y}" in {where} must hold one integer label for each of the {len(images)} images, not '
                f"{labels.dtype} of shape {list(labels.shape)}; if it is one-hot, store y.argmax(axis=1)"
            )
    return rows_of(images, labels, f"{where}, ")


def _dimensions(path: Path, held: np.lib.npyio.NpzFile, name: str) -> int:
    """How many axes an array of the file has."""
    return _array(path, held, name).ndim


def _array(path: Path, held: np.lib.npyio.NpzFile, name: str) -> Array:
    """One array of the file; a ValueError names it if it is damaged, or if there are two of that name."""
    if held.files.count(name) > 1:
        raise ValueError(f'{str(path)!r} holds "{name}" more than once; store it once: np.savez("new.npz", x=x, y=y)')
    with _plainly(f'"{name}" in {str(path)!r}', "a plain array"):
        found = held[name]
    if not isinstance(found, np.ndarray):  # NumPy hands out the bytes of what is no array
        raise ValueError(f'"{name}" in {str(path)!r} cannot be read: it is no array; write it with np.savez')
    return found


@contextmanager
def _plainly(what: str, wanted: str) -> Iterator[None]:
    """Whatever goes wrong with a file that anybody may have written becomes a ValueError of one line."""
    try:
        yield
    except MemoryError:
        raise ValueError(f"{what} cannot be read: it is damaged, or needs more memory than there is") from None
    except Exception:  # of zip and zlib, of NumPy, and of Python's tokenizer, with which NumPy reads headers
        raise ValueError(f"{what} cannot be read: it is damaged, or not {wanted} without pickled objects") from None
