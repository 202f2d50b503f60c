"""Proofs that the rows of a batch do not see each other: each output row is the same function of its own input row.

`prove_onnx` proves it of an ONNX graph, `prove_torch` of a torch module that was exported as a graph. Both walk over
the graph and keep, for each value, where the rows lie in it (`values`, `flow`). Then the graph runs, and a `witness`
compares.
"""

from typing import TYPE_CHECKING

from .onnx_proof import prove_onnx
from .report import Report

if TYPE_CHECKING:
    import torch

    from .torch_export import Exported

__all__ = ["Report", "exported", "prove_onnx", "prove_torch"]


def exported(module: "torch.nn.Module", example: "torch.Tensor") -> "Exported":
    """The module as a plain graph. See `torch_export`."""
    from .torch_export import exported as export  # torch is imported only when it is used

    return export(module, example)


def prove_torch(made: "Exported", example: "torch.Tensor") -> Report:
    """What is proved of an exported graph, in batches like the example. See `torch_proof`."""
    from .torch_proof import prove_torch as prove

    return prove(made, example)
