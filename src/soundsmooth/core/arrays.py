"""The few operations that counting votes needs, for NumPy arrays and for tensors on a GPU alike."""

from typing import Any

import numpy as np
import numpy.typing as npt


class Fetched:
    """Integers on their way from where they are to the CPU. On a GPU the copy is queued behind what makes them, and
    asking for them waits for that, not for what was queued later.
    """

    def __init__(self, numbers: Any) -> None:
        self._numbers, self._arrived = numbers, None
        if not isinstance(numbers, np.ndarray) and numbers.is_cuda:
            import torch

            self._numbers = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
            self._numbers.copy_(numbers, non_blocking=True)
            self._arrived = torch.cuda.current_stream(numbers.device).record_event()

    def array(self) -> npt.NDArray[Any]:
        if self._arrived is not None:
            self._arrived.synchronize()
        return np.asarray(self._numbers)

    def get(self) -> list[int]:
        numbers: list[int] = self.array().tolist()
        return numbers


def private_copy(values: Any) -> Any:
    """The same values in memory that nothing else refers to."""
    return values.copy() if isinstance(values, np.ndarray) else values.clone()


def concatenate(parts: list[Any]) -> Any:
    """Rows of labels one after the other, where they are."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import torch

    return torch.cat(parts)
