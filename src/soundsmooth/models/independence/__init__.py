"""Proofs that the rows of a batch do not see each other: each output row is the same function of its own input row.

`inspect_onnx` proves it of an ONNX graph, `export_and_inspect` of a torch module as a graph. Both walk over the graph
once and keep, for each value, where the rows lie in it (`values`, `flow`).
"""

from typing import TYPE_CHECKING

from .onnx_graph import inspect_onnx
from .report import Report

if TYPE_CHECKING:
    import torch

__all__ = ["Report", "export_and_inspect", "inspect_onnx"]


def export_and_inspect(module: "torch.nn.Module", example: "torch.Tensor") -> "tuple[torch.nn.Module, Report]":
    """The module as a plain graph, and what is proved of it; run what is returned. See `torch_graph`."""
    from .torch_graph import export_and_inspect as export  # torch is imported only when it is used

    return export(module, example)
