"""The one place that knows how soundsmooth is asked for a proof."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from soundsmooth.independence.proof import ProofReport, export_module, prove_torch
from soundsmooth.models.onnx_file import OnnxModel

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Proof:
    """What was proved, and what votes in the network's place."""

    report: ProofReport
    scores: Callable[[Tensor], Tensor]


def proved_module(module: nn.Module, shape: Shape, batch: int) -> Proof:
    """The module as an exported graph, for batches of this size and inputs of this shape."""
    example = torch.rand(batch, *shape)
    made = export_module(module, example)
    return Proof(prove_torch(made, example), made.graph or module)


def proved_file(path: Path, shape: Shape, batch: int) -> Proof:
    """The graph that onnxruntime makes of the file, for batches of this size and inputs of this shape."""
    model = OnnxModel(path, threads=1)
    model.prepare(shape, batch)
    assert model.report is not None
    return Proof(model.report, lambda images: torch.from_numpy(model.scores(images.numpy())))
