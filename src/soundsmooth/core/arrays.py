"""The few operations that reading images and counting votes need, for NumPy arrays and for tensors on a GPU alike."""

from collections.abc import Sequence
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

            self._numbers = torch.empty(numbers.shape, dtype=numbers.dtype, device="cpu", pin_memory=True)
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
    """Rows one after the other, where they are."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import torch

    return torch.cat(parts)


def repeated_uniform(shape: Sequence[int], seed: int) -> Any:
    """A tensor on the CPU with numbers between 0 and 1 in 32 bits: the same ones for a seed, whatever a user has set in
    torch.
    """
    import torch

    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.rand(tuple(shape), generator=generator, dtype=torch.float32, device="cpu")


def as_array(values: Any) -> npt.NDArray[Any]:
    """What a user gives, as an array: tensors too, wherever they are and whether they require a gradient or not; and
    lists of such. A ValueError for what no array can hold, and for bfloat16.
    """
    if isinstance(values, list | tuple) and any(map(_is_tensor, values)):
        return np.stack([as_array(each) for each in values])
    name = str(getattr(values, "dtype", "")).removeprefix("torch.")
    if name == "bfloat16":
        raise ValueError(
            "bfloat16 is too coarse for levels: rounding may have made one level of another. Give the image as "
            "integers, or as float32, before it is cast"
        )
    if not _is_tensor(values):
        return np.asarray(values)
    try:
        return np.asarray(values.detach().cpu().resolve_conj().resolve_neg())
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"the tensor ({name}) cannot be read as an array: {str(error).splitlines()[0]}") from None


def _is_tensor(values: object) -> bool:
    return all(hasattr(values, name) for name in ("detach", "cpu", "resolve_conj", "resolve_neg"))
