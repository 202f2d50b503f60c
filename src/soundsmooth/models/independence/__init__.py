"""Proofs that the rows of a batch do not see each other: each output row is the same function of its own input row."""

from .onnx_graph import inspect_onnx
from .report import Report

__all__ = ["Report", "inspect_onnx"]
