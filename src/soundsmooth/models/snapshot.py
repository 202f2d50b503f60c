"""A torch module as it was, to be compared with what it is now, bit for bit and where it lies."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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
        self._bits = [private_copy(bits) for bits in self._read()]

    def compare(self) -> Callable[[], bool]:
        """Look now, and say later whether something has changed."""
        if self._look() != self._outside:
            return lambda: True
        differ = [(now != then).any().reshape(1) for now, then in zip(self._read(), self._bits, strict=True)]
        answer = Fetched(concatenate(differ)) if differ else None
        return lambda: answer is not None and any(answer.get())

    def _look(self) -> tuple[object, ...]:
        """The architecture, and what each tensor is called, where it lies and how it is read."""
        named = [*self._module.named_parameters(), *self._module.named_buffers()]
        places = [(name, each.data_ptr(), each.dtype, each.shape, each.stride()) for name, each in named]
        return repr(self._module), places

    def _read(self) -> list[Any]:
        """Large tensors as they are, small ones as one array for each size of a number: a comparison is a launch."""
        large: list[Any] = []
        small: dict[Any, list[Any]] = {}
        for tensor in (*self._module.parameters(), *self._module.buffers()):
            flat = _flat(tensor)
            alike = large if len(flat) >= LARGE else small.setdefault(flat.dtype, [])
            alike.append(flat if flat.is_cuda else flat.cpu().numpy())
        return large + [concatenate(parts) for parts in small.values()]


def _flat(tensor: "torch.Tensor") -> "torch.Tensor":
    """A tensor's numbers as bits (as which NaN equals itself), in whatever order they lie in memory."""
    import torch

    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(tensor.element_size(), torch.uint8)
    span = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    dense = tensor.numel() > 0 and span == tensor.numel()  # then no copy is needed
    flat = tensor.detach().as_strided((span,), (1,)) if dense else tensor.detach().reshape(-1)
    return flat.view(bits)
