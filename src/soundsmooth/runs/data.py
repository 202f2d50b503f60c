"""Data sets: images as integer levels, with their numbers and, if known, their labels."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from ..certification.promise import Inputs
from ..core.grid import Grid, Snapped
from ..core.integers import integer
from ..core.plain_files import plain_file

LAYOUTS = {"as-is": None, "nhwc-to-nchw": (0, 3, 1, 2), "nchw-to-nhwc": (0, 2, 3, 1)}


def read_npz(path: Path, grid: Grid, layout: str = "as-is", skip: int = 1, limit: int | None = None) -> Inputs:
    """Every skip-th image of an .npz with `x` (levels or their floats, images first) and, optionally, `y` (labels).

    At most `limit` images are taken. Each keeps the number it has in the whole file.
    """
    if skip < 1:
        raise ValueError(f"skip must be at least 1 (every image), not {skip}")
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    images, labels = _arrays(path)
    images = _laid_out(images, layout)
    chosen = range(0, len(images), skip)[:limit]
    found = [_snapped(path, grid, images, i) for i in chosen]
    truths = tuple(None if labels is None else int(labels[i]) for i in chosen)
    return Inputs(tuple(chosen), [each.levels for each in found], truths, [each.rounded for each in found])


def inputs_of(grid: Grid, images: Iterable[npt.NDArray[np.generic]], labels: Iterable[SupportsIndex] | None) -> Inputs:
    """Images of a user, numbered from 0, as levels of the grid; a ValueError for what is not on it, or no label."""
    found = [grid.snap(image) for image in images]
    truths = [None] * len(found) if labels is None else [integer(label, "label") for label in labels]
    return Inputs(range(len(found)), [each.levels for each in found], truths, [each.rounded for each in found])


def _snapped(path: Path, grid: Grid, images: npt.NDArray[np.generic], i: int) -> Snapped:
    try:
        return grid.snap(images[i])
    except ValueError as error:
        raise ValueError(f"{path.name}, image {i}: {error}") from None


def _arrays(path: Path) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.integer] | None]:
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; the data is one .npz file")
    held, names = _load(path)
    if "x" not in held:
        instead = f", not as {', '.join(map(repr, names[:5]))}" if names else ""
        raise ValueError(f'{str(path)!r} must be an .npz with the images as "x" (and the labels as "y"){instead}')
    images, labels = held["x"], held.get("y")
    if images.ndim < 2 or not images.size:
        raise ValueError(f'"x" in {path.name} must be [images, …], not of shape {list(images.shape)}')
    if labels is not None and (labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) != len(images)):
        raise ValueError(f'"y" in {path.name} must hold one integer label for each of the {len(images)} images')
    return images, labels


def _load(path: Path) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    """The arrays x and y of the file, those that are there, and the names of all that are."""
    with plain_file(path, "data file") as file:
        with _plainly(repr(str(path)), "an .npz of plain arrays"):
            held = np.load(file, allow_pickle=False)
        if not isinstance(held, np.lib.npyio.NpzFile):
            return {}, []
        with held:
            return {name: _array(path, held, name) for name in ("x", "y") if name in held.files}, held.files


def _array(path: Path, held: np.lib.npyio.NpzFile, name: str) -> npt.NDArray[Any]:
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


def _laid_out(images: npt.NDArray[np.generic], layout: str) -> npt.NDArray[np.generic]:
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")
    axes = LAYOUTS[layout]
    if axes is None:
        return images
    if images.ndim != 4:
        raise ValueError(f"layout {layout} is for images with four axes, not {list(images.shape)}")
    return images.transpose(axes)
