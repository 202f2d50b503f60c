"""The images that entries are tried on: the embedded ones, an .npz, or CIFAR-10's usual python batches."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ... import embedded
from ...data.load import load

Images = npt.NDArray[np.int16]
Labels = npt.NDArray[np.int64]


def load_images(data: Path | None) -> tuple[Images, Labels]:
    """All test images as levels [N, …] with their labels.

    `data` is whatever `load` takes, or a folder with a test.npz. The word cifar10 stands for a folder of that name,
    here or in ~/.cache.
    """
    if data == Path("cifar10") and not data.exists():
        data = Path.home() / ".cache" / "cifar10"
    if data is not None and (data / "test.npz").is_file():
        data = data / "test.npz"
    inputs = load(data or embedded.IMAGES)
    if any(label is None for label in inputs.labels):
        raise ValueError(f'{data} must hold labels as "y"')
    return np.stack(inputs.levels), np.array(inputs.labels, np.int64)
