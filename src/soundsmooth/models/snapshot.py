"""A torch module as it was, to be compared with what it is now, bit for bit and where it lies."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import Fetched, concatenate, private_copy

if TYPE_CHECKING:
    import torch

#: A tensor with so many elements is compared alone, since gathering it would take longer than a launch.
LARGE = 1 << 19


class Snapshot:
    """A module as it was, as printed and with all parameters and buffers, to be compared bit for bit.

    Hashing them would keep a GPU waiting. This compares them where they are and is as exact; a tensor that was
    replaced by another one counts as changed.
    """

    def __init__(self, module: "torch.nn.Module") -> None:
        self._module = module
        self._outside = self._look()
        self._dense, self._scattered = _memory(module)
        self._bits = [private_copy(bits) for bits in self._read()]

    def compare(self) -> Callable[[], bool]:
        """Look now, and say later whether something has changed."""
        if self._look() != self._outside:
            return lambda: True
        differ = [(now != then).any().reshape(1) for now, then in zip(self._read(), self._bits, strict=True)]
        answer = Fetched(concatenate(differ)) if differ else None
        return lambda: answer is not None and any(answer.get())

    def _look(self) -> tuple[object, ...]:
        """The architecture, and what each tensor is called, where it lies and how it is read.

        Where that is as it was, the tensors are the memory that this holds: nothing else can lie there meanwhile.
        """
        named = [*self._module.named_parameters(), *self._module.named_buffers()]
        places = [
            (name, each.data_ptr(), each.dtype, each.shape, each.stride(), each.is_conj(), each.is_neg())
            for name, each in named
        ]
        return repr(self._module), places

    def _read(self) -> list[Any]:
        """What is in memory now. A comparison is a launch: small tensors become one array for each size of a number."""
        dense = [[_present(bits) for bits in parts] for parts in self._dense]
        together = [parts[0] if len(parts) == 1 else concatenate(parts) for parts in dense]
        return together + [_present(_bits(tensor.reshape(-1))) for tensor in self._scattered]


def _memory(module: "torch.nn.Module") -> tuple[list[list[Any]], list["torch.Tensor"]]:
    """Where all tensors lie: those without gaps as bits, large ones alone and small ones together; and the others."""
    large: list[list[Any]] = []
    small: dict[Any, list[Any]] = {}
    scattered: list[torch.Tensor] = []
    for tensor in (each.detach() for each in (*module.parameters(), *module.buffers())):
        span = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
        if tensor.numel() == 0 or span != tensor.numel():
            scattered.append(tensor)
            continue
        bits = _bits(tensor.as_strided((span,), (1,)))
        shown = bits.numpy() if _on_cpu(bits) else bits
        if span >= LARGE:
            large.append([shown])
        else:
            small.setdefault(bits.dtype, []).append(shown)
    return large + list(small.values()), scattered


def _bits(flat: "torch.Tensor") -> "torch.Tensor":
    """Numbers as bits, as which NaN equals itself."""
    import torch

    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return flat.view(kinds.get(flat.element_size(), torch.uint8))


def _on_cpu(bits: "torch.Tensor") -> bool:
    """Whether NumPy sees them where they are."""
    return bits.device.type == "cpu"


def _present(bits: Any) -> Any:
    """What is there now, in NumPy or on a GPU; from other devices it is copied each time."""
    return bits if isinstance(bits, np.ndarray) or bits.is_cuda else bits.cpu().numpy()
