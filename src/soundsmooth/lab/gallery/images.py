"""The images that entries are tried on: the embedded ones, an .npz, or CIFAR-10's usual python batches."""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import embedded
from ...core.grid import IMAGES
from ...data.npz import read_npz

Images = npt.NDArray[np.int16]
Labels = npt.NDArray[np.int64]


def load_images(data: Path | None) -> tuple[Images, Labels]:
    """All test images as levels [N, …] with their labels.

    `data` is an .npz, a folder with a test.npz or with CIFAR-10's python batches, or the word cifar10 for such a folder
    of that name, here or in ~/.cache.
    """
    if data == Path("cifar10") and not data.exists():
        data = Path.home() / ".cache" / "cifar10"
    if data is not None and (data / "test.npz").is_file():
        data = data / "test.npz"
    elif data is not None and not data.suffix:
        return _cifar_batches(data)
    inputs = read_npz(data or embedded.IMAGES, IMAGES)
    if any(label is None for label in inputs.labels):
        raise ValueError(f'{data} must hold labels as "y"')
    return np.stack(inputs.levels), np.array(inputs.labels, np.int64)


class _ArraysOnly(pickle.Unpickler):
    """Reads the python batches of CIFAR-10 and refuses everything else: nothing but NumPy arrays may be made."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ARRAY_PARTS:
            raise ValueError(f"the batch wants to load {module}.{name}, which no data set needs; this is refused")
        return _ARRAY_PARTS[module, name]


_RECONSTRUCT = np.empty(0).__reduce__()[0]  # NumPy's own, wherever this version keeps it
_ARRAY_PARTS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


def _cifar_batches(folder: Path) -> tuple[Images, Labels]:
    """The test set in the folder of the python version: a dictionary with `data` [10000, 3072] and `labels`."""
    places = (folder / "test_batch", folder / "cifar-10-batches-py" / "test_batch")
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise ValueError(f"there is neither a test.npz nor a test_batch of CIFAR-10 in {str(folder)!r}")
    try:
        held = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        images, labels = held[b"data"].reshape(-1, 3, 32, 32), np.array(held[b"labels"], np.int64)
    except (pickle.UnpicklingError, EOFError, KeyError, AttributeError, TypeError, IndexError) as error:
        raise ValueError(f"{str(path)!r} is not a python batch of CIFAR-10: {error!r}") from error
    return IMAGES.on_grid(images), labels
