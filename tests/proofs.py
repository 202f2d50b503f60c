"""Proofs of small graphs and modules, as they are, without a model around them."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import ModelProto

from soundsmooth.independence.proof import ProofReport, export_module, prove_onnx
from soundsmooth.independence.proof.torch_proof import prove_torch

#: The batch size of a proof, where the graph leaves it open.
BATCH = 4


def session(model: bytes) -> onnxruntime.InferenceSession:
    """Exactly these nodes, on one thread."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ValueError(str(error)) from None


def probe(model: bytes, outputs: Sequence[str]) -> Callable[[np.ndarray], list[np.ndarray]]:
    made = session(model)
    name = made.get_inputs()[0].name

    def run(batch: np.ndarray) -> list[np.ndarray]:
        try:
            return made.run(list(outputs), {name: batch})
        except Exception as error:
            raise ValueError(str(error)) from None

    return run


def prove_graph(
    model: ModelProto | bytes, *, internal: bool = False, witness: bool = False, batch: int = BATCH
) -> ProofReport:
    """What is proved of a graph as it is written; by the argument alone, unless a witness is asked for."""
    content = model if isinstance(model, bytes) else model.SerializeToString()
    first, *sizes = _declared(content)
    shape = tuple(size or 3 for size in sizes)

    def votes(values: np.ndarray) -> np.ndarray:
        output = onnx.load_model_from_string(content).graph.output[0].name
        (scores,) = probe(content, [output])(values)
        return scores

    return prove_onnx(content, probe, votes, shape, first or batch, internal=internal, witness=witness)


def _declared(content: bytes) -> list[int | None]:
    (image, *_) = onnx.load_model_from_string(content).graph.input
    return [size.dim_value or None for size in image.type.tensor_type.shape.dim] or [None]


def prove_module(module: torch.nn.Module, example: torch.Tensor) -> tuple[torch.nn.Module, ProofReport]:
    """The graph that is proved, or the module itself, and what is proved, in batches like the example."""
    made = export_module(module, example)
    report = prove_torch(made, example)
    return made.graph if report.proved and made.graph is not None else module, report
