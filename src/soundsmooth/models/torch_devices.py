"""Devices of torch: which one is meant, what kind it is, and what else decides which kernels run there."""

from typing import TYPE_CHECKING

from ..core.machine import processor

if TYPE_CHECKING:
    import torch


def device_named(name: str) -> "torch.device":
    """`cuda` alone means the first GPU; which one must not change when somebody selects another."""
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device must be cpu, cuda or cuda:1 and so on, not {name!r}") from None
    return torch.device("cuda", 0) if device.type == "cuda" and device.index is None else device


def device_of(module: "torch.nn.Module") -> "torch.device":
    import torch

    parameter = next(module.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def device_kind(device: "torch.device") -> str:
    """As a promise has it: cpu, or the name of the GPU."""
    import torch

    return f"cuda {torch.cuda.get_device_name(device)}" if device.type == "cuda" else device.type


def check_no_kernel_is_timed(device: "torch.device") -> None:
    """A ValueError if torch's TunableOp is on: it chooses kernels by timing in each process, and no flag says which."""
    import torch

    if device.type == "cuda" and torch.cuda.tunable.is_enabled():
        raise ValueError(
            "torch's TunableOp is on, and would choose the model's kernels by timing in each process: switch it off "
            "(PYTORCH_TUNABLEOP_ENABLED=0); compile tuned chooses them once"
        )


def machine_text(device: "torch.device") -> str:
    """What decides which compiled kernels can run: the kind of processor or GPU, and the software that compiles.

    The number of a GPU is written into compiled code, so that of every GPU but the first is named too.
    """
    import torch

    if device.type != "cuda":
        return f"{processor()}, torch {torch.__version__}"
    import triton

    name, number = torch.cuda.get_device_name(device), f" as {device}" if device.index else ""
    return f"{name}{number}, torch {torch.__version__}, CUDA {torch.version.cuda}, Triton {triton.__version__}"
