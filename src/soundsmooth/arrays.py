"""The few operations that counting votes needs, for NumPy arrays and for tensors on a GPU alike."""

from typing import Any

import numpy as np
import numpy.typing as npt

from .models import NOBODY


def private_copy(values: Any) -> Any:
    """The same values in memory that nothing else refers to."""
    return values.copy() if isinstance(values, np.ndarray) else values.clone()


def concatenate(parts: list[Any]) -> Any:
    """Rows of labels one after the other, where they are."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import torch

    return torch.cat(parts)


def at_home(labels: Any) -> npt.NDArray[np.int64]:
    """The labels in NumPy; if a GPU is still at work on them, this waits for it."""
    here: npt.NDArray[np.int64] = labels if isinstance(labels, np.ndarray) else labels.cpu().numpy()
    return here


def histogram(labels: Any, classes: int) -> Any:
    """How many labels are NOBODY, 0, 1, …, classes − 1. On a GPU this is queued: nothing waits for it."""
    if isinstance(labels, np.ndarray):
        return np.bincount(labels - NOBODY, minlength=classes + 1)
    import torch

    counts = torch.zeros(classes + 1, dtype=torch.int64, device=labels.device)
    return counts.scatter_add_(0, labels - NOBODY, torch.ones_like(labels))
