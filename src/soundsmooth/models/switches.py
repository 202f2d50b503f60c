"""torch's global switches, carried to another process: they choose between kernels with different roundings."""

import sys
from collections.abc import Mapping
from typing import Any


def switches() -> dict[str, Any]:
    """The switches of this process as they are now; none where torch was never imported."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    backends = torch.backends
    return {
        "matmul": torch.get_float32_matmul_precision(),
        "tf32": backends.cudnn.allow_tf32,
        "benchmark": backends.cudnn.benchmark,
        "deterministic cudnn": backends.cudnn.deterministic,
        "bf16": backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
        "fp16": backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def set_switches(wanted: Mapping[str, Any]) -> None:
    """Set them as they were elsewhere. Whether that has succeeded is seen in the model's identity."""
    if not wanted:
        return
    import torch

    torch.set_float32_matmul_precision(wanted["matmul"])
    torch.backends.cudnn.allow_tf32 = wanted["tf32"]
    torch.backends.cudnn.benchmark = wanted["benchmark"]
    torch.backends.cudnn.deterministic = wanted["deterministic cudnn"]
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = wanted["bf16"]
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = wanted["fp16"]
    torch.use_deterministic_algorithms(wanted["deterministic"])
