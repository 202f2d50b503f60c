"""One image as an array: of NumPy, from tensors wherever they are, from pictures, from whatever becomes an array."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.grid import unmasked
from .pictures import Pictures, is_picture


def array_of(image: Any, pictures: Pictures) -> npt.NDArray[np.generic]:
    """The same numbers in NumPy. No mask is lost, no gradient is needed, and no number is rounded."""
    if is_picture(image):
        return pictures.array(image)
    if pictures.words:
        raise ValueError(
            f"{' and '.join(pictures.words)} are for image files and Pillow's images; this is "
            f"{describe(image)}: resize it before"
        )
    return unmasked(image)


def is_whole_array(source: object) -> bool:
    """Whether it is one array, or one tensor, with an axis for the images: of NumPy, torch, JAX, TensorFlow."""
    return all(hasattr(source, name) for name in ("__array__", "shape", "dtype"))


def describe(image: object) -> str:
    """What it is, in a few words: "an array of shape [3, 2]", "a Potato"."""
    shape = getattr(image, "shape", None)
    if shape is None:
        return f"of type {type(image).__name__}"
    return f"{type(image).__name__} of shape {[int(size) for size in shape]}"
