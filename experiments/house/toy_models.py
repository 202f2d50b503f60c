"""Small classifiers of grey 4 × 4 images: graphs that are written on the fly, functions, and factories.

Both sides import this module by the same name, so that the digests of its classes and functions agree.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SHAPE = (1, 4, 4)
CLASSES = 3
OPSET = 17


def write_graphs(folder: Path) -> dict[str, str]:
    """Write every graph into the folder; returns their paths by name."""
    paths = {}
    for name, (nodes, batch) in GRAPHS.items():
        path = folder / f"{name}.onnx"
        path.write_bytes(_graph(name, nodes, batch))
        paths[name] = str(path)
    return paths


def _weights() -> np.ndarray:
    """Fixed: dark images are class 0, bright ones class 1, and an uneven left and right is class 2."""
    dark, side = -np.ones(16), np.tile([1.0, 1.0, -1.0, -1.0], 4)
    return np.stack([dark, -dark, side], axis=1).astype(np.float32) / 4


def _bias() -> np.ndarray:
    return np.array([2.0, -2.0, -0.5], np.float32)


def _graph(name: str, nodes: list[Any], batch: int | str) -> bytes:
    head = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weights", "bias"], ["linear"]),
    ]
    constants = [
        numpy_helper.from_array(_weights(), "weights"),
        numpy_helper.from_array(_bias(), "bias"),
        numpy_helper.from_array(np.array([2.0], np.float32), "two"),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, *SHAPE])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, CLASSES])
    graph = helper.make_graph([*head, *nodes], name, [image], [scores], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    return model.SerializeToString()


def _node(kind: str, inputs: list[str], output: str = "scores", **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, [output], **attributes)


#: The nodes after the linear layer, and the batch axis.
GRAPHS: dict[str, tuple[list[Any], int | str]] = {
    "plain": ([_node("Relu", ["linear"])], "batch"),
    "ties": ([_node("Floor", ["linear"])], "batch"),
    "nan": ([_node("Add", ["linear", "two"], "moved"), _node("Sqrt", ["moved"])], "batch"),
    "fixed": ([_node("Tanh", ["linear"])], 8),
    "crowd": (
        [_node("ReduceMean", ["linear"], "mean", axes=[0], keepdims=1), _node("Sub", ["linear", "mean"])],
        "batch",
    ),
}


def linear(batch: np.ndarray) -> np.ndarray:
    """The linear layer of the graphs, in float64."""
    return batch.reshape(len(batch), -1).astype(np.float64) @ _weights().astype(np.float64) + _bias()


def coarse(batch: np.ndarray) -> np.ndarray:
    """Ties everywhere, and NaN in rows that are very dark."""
    scores = np.round(linear(batch))
    scores[scores[:, 0] > 4] = np.nan
    return scores


def grumpy(batch: np.ndarray) -> np.ndarray:
    """Raises an error for batches with a very bright row: always the same ones."""
    if (batch.reshape(len(batch), -1).mean(axis=1) > 0.98).any():
        raise RuntimeError("too bright")
    return linear(batch)


def make_linear() -> Callable[[np.ndarray], np.ndarray]:
    return linear


def make_coarse() -> Callable[[np.ndarray], np.ndarray]:
    return coarse


def make_grumpy() -> Callable[[np.ndarray], np.ndarray]:
    return grumpy


def make_torch() -> Any:
    """A convolution and a linear layer, with weights that are the same everywhere."""
    import torch

    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, CLASSES)
    )
    random = np.random.default_rng(19)
    with torch.no_grad():
        for parameter in network.parameters():
            values = random.normal(size=tuple(parameter.shape)) / 2
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))
    return network.eval()
