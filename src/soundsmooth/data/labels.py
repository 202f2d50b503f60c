"""Labels: the numbers of classes, as they come with the images or apart from them."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arrays import as_array
from ..core.integers import integer
from .arrays import is_whole_array

ONE_HOT = "labels are numbers of classes, and these look one-hot: give y.argmax(axis=1)"


def label_of(label: Any) -> int | None:
    """The number of a class, or None where there is none; a ValueError for anything else."""
    if label is None:
        return None
    if not isinstance(label, int | np.integer) and is_whole_array(label):
        held = _plain(label)
        if held.size != 1:
            raise ValueError(ONE_HOT)
        label = held.reshape(-1)[0]
    number = integer(label, "label")
    if not 0 <= number < 1 << 63:
        raise ValueError(f"label {number} is no class: labels are the numbers of classes, 0, 1, 2, …")
    return number


def labels_together(labels: Any, count: int) -> Sequence[int | None]:
    """The numbers of the classes of so many images."""
    if labels is None:
        return [None] * count
    if type(labels) is not np.ndarray or labels.dtype.kind not in "iu" or labels.size != count:
        return [label_of(each) for each in labels]
    for extreme in (labels.min(), labels.max()):
        label_of(extreme)
    numbers: list[int] = labels.reshape(count).tolist()
    return numbers


def labels_of(labels: Any, count: int | None) -> list[Any] | npt.NDArray[Any] | None:
    """All labels that were given apart, one for each image: [N], or [N, 1]."""
    if labels is None:
        return None
    if is_whole_array(labels):
        labels = _plain(labels)
    if isinstance(labels, np.ndarray) and labels.ndim > 1 and labels.size != len(labels):
        raise ValueError(ONE_HOT)
    unordered = isinstance(labels, str | bytes | Mapping | Set) or not hasattr(labels, "__len__")
    if unordered or (isinstance(labels, np.ndarray) and not labels.ndim):
        raise ValueError(f"labels must be numbers of classes, one for each image, not {labels!r}")
    check_count(count, labels)
    return labels if type(labels) is np.ndarray else list(labels)


def _plain(labels: Any) -> npt.NDArray[Any]:
    """Labels as an array; a ValueError for masked ones: what lies under a mask is no label."""
    if isinstance(labels, np.ma.MaskedArray):
        raise ValueError("labels are masked: leave out the images without one, and give plain labels")
    return as_array(labels)


def check_count(count: int | None, labels: Any) -> None:
    """A ValueError unless there are as many labels as images, if it is known how many images there are."""
    if count is not None and len(labels) != count:
        raise ValueError(f"{count} images and {len(labels)} labels do not match: give one label for each image")
