"""torch's global flags: they choose between kernels with different roundings. So they are promised, and travel to
other processes.
"""

import sys
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, NamedTuple

BOOLEAN = ("True", "False")


class TorchFlag(NamedTuple):
    """Where torch keeps a flag: an attribute; or a function that reads it, and the name of one that sets it."""

    where: str
    setter: str | None = None
    values: tuple[str, ...] = BOOLEAN
    """What a promise may say of it."""

    def read(self, torch: Any) -> Any:
        found = attrgetter(self.where)(torch)
        return found if self.setter is None else found()

    def write(self, torch: Any, value: Any) -> None:
        if self.setter is not None:
            getattr(torch, self.setter)(value)
            return
        holder, _, attribute = self.where.rpartition(".")
        setattr(attrgetter(holder)(torch), attribute, value)


#: By the names that a promise has for them, in the order in which they are set.
FLAGS = {
    "matmul": TorchFlag(
        "get_float32_matmul_precision", "set_float32_matmul_precision", values=("highest", "high", "medium")
    ),
    "cudnn.tf32": TorchFlag("backends.cudnn.allow_tf32"),
    "cudnn.benchmark": TorchFlag("backends.cudnn.benchmark"),
    "cudnn.deterministic": TorchFlag("backends.cudnn.deterministic"),
    "reduced.bf16": TorchFlag("backends.cuda.matmul.allow_bf16_reduced_precision_reduction"),
    "reduced.fp16": TorchFlag("backends.cuda.matmul.allow_fp16_reduced_precision_reduction"),
    "deterministic": TorchFlag("are_deterministic_algorithms_enabled", "use_deterministic_algorithms"),
}


def torch_flags() -> dict[str, Any]:
    """The flags of this process as they are now; none where torch was never imported."""
    torch = sys.modules.get("torch")
    return {} if torch is None else {name: flag.read(torch) for name, flag in FLAGS.items()}


def set_torch_flags(wanted: Mapping[str, Any]) -> None:
    """Set them as they were elsewhere. Whether that has succeeded is seen in the model's identity.

    A flag that has its value is left alone: to set the last one, torch imports its compiler, which takes seconds.
    """
    if not wanted:
        return
    import torch

    for name, flag in FLAGS.items():
        if flag.read(torch) != wanted[name]:
            flag.write(torch, wanted[name])
