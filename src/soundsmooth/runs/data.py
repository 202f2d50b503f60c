"""Data sets: images as integer levels, with their numbers and, if known, their labels."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..grid import Grid, Levels
from ..promise import Inputs

LAYOUTS = {"as-is": None, "nhwc-to-nchw": (0, 3, 1, 2), "nchw-to-nhwc": (0, 2, 3, 1)}


def read_npz(path: Path, grid: Grid, layout: str = "as-is", skip: int = 1, limit: int | None = None) -> Inputs:
    """Every skip-th image of an .npz with `x` (integer levels, images first) and, optionally, `y` (labels).

    At most `limit` images are taken. Each keeps the number it has in the whole file.
    """
    if skip < 1:
        raise ValueError(f"skip must be at least 1 (every image), not {skip}")
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    images, labels = _arrays(path)
    images = _laid_out(images, layout)
    if images.dtype.kind == "f":
        grid.levels_of_floats(images[0])  # names the pixel if one is off the grid
        raise ValueError(
            f'"x" in {path.name} is {images.dtype}; store levels instead: np.savez("new.npz", x=ss.levels(x), y=y)'
        )
    chosen = range(0, len(images), skip)[:limit]
    levels = tuple(_levels(path, grid, images, i) for i in chosen)
    return Inputs(tuple(chosen), levels, tuple(None if labels is None else int(labels[i]) for i in chosen))


def _levels(path: Path, grid: Grid, images: npt.NDArray[np.generic], i: int) -> Levels:
    try:
        return grid.fixed(images[i])
    except ValueError as error:
        raise ValueError(f"{path.name}, image {i}: {error}") from None


def _arrays(path: Path) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.integer] | None]:
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; the data is one .npz file")
    if not path.is_file():
        raise ValueError(f"there is no data file {str(path)!r}")
    held, names = _load(path)
    if "x" not in held:
        instead = f", not as {', '.join(map(repr, names[:5]))}" if names else ""
        raise ValueError(f'{str(path)!r} must be an .npz with the images as "x" (and the labels as "y"){instead}')
    images, labels = held["x"], held.get("y")
    if images.ndim < 2 or not len(images):
        raise ValueError(f'"x" in {path.name} must be [images, …], not of shape {list(images.shape)}')
    if labels is not None and (labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) != len(images)):
        raise ValueError(f'"y" in {path.name} must hold one integer label for each of the {len(images)} images')
    return images, labels


def _load(path: Path) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    """The arrays x and y of the file, those that are there, and the names of all that are."""
    try:
        held = np.load(path, allow_pickle=False)
        if not isinstance(held, np.lib.npyio.NpzFile):
            return {}, []
        with held:
            return {name: held[name] for name in ("x", "y") if name in held}, held.files
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError):  # ValueError: pickled objects
        reason = "it must be an .npz of plain arrays, without pickled objects"
        raise ValueError(f"{str(path)!r} cannot be read: {reason}") from None


def _laid_out(images: npt.NDArray[np.generic], layout: str) -> npt.NDArray[np.generic]:
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")
    axes = LAYOUTS[layout]
    if axes is None:
        return images
    if images.ndim != 4:
        raise ValueError(f"layout {layout} is for images with four axes, not {list(images.shape)}")
    return images.transpose(axes)
