"""Proofs that the rows of a batch do not see each other: each output row is the same function of its own input row.

`prove_onnx` proves it of an ONNX graph, `prove_torch` of a torch module that was exported as a graph. Both walk over
the graph and keep, for each value, where the rows lie in it (`values`, `flow`). Then the graph runs, and a `witness`
compares. torch is imported only when a module is exported.
"""

from .onnx_proof import prove_onnx
from .report import ProofReport
from .torch_export import Exported, export_module
from .torch_faster import without_detours
from .torch_folded import with_folded_norms
from .torch_proof import prove_torch

__all__ = [
    "Exported",
    "ProofReport",
    "export_module",
    "prove_onnx",
    "prove_torch",
    "with_folded_norms",
    "without_detours",
]
