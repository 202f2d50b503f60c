"""One image as an array: of NumPy, from tensors wherever they are, from pictures, from whatever becomes an array."""

import sys
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
    return tensor_values(image) if is_tensor(image) else unmasked(image)


def is_tensor(image: object) -> bool:
    """Whether it is a tensor of torch, which is not imported for the answer."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(image, torch.Tensor)


def is_whole_array(source: object) -> bool:
    """Whether it is one array, or one tensor, with an axis for the images: of NumPy, torch, JAX, TensorFlow."""
    return is_tensor(source) or (hasattr(source, "__array__") and hasattr(source, "shape") and hasattr(source, "dtype"))


def tensor_values(tensor: Any) -> npt.NDArray[np.generic]:
    """A tensor's numbers, from any device; a ValueError for those that NumPy cannot hold."""
    try:
        values: npt.NDArray[np.generic] = tensor.detach().cpu().resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"a tensor of {tensor.dtype} ({tensor.layout}) is no plain array: {error}") from None
    return values


def describe(image: object) -> str:
    """What it is, in a few words: "an array of shape [3, 2]", "a Potato"."""
    shape = getattr(image, "shape", None)
    if shape is None:
        return f"of type {type(image).__name__}"
    return f"{type(image).__name__} of shape {[int(size) for size in shape]}"
