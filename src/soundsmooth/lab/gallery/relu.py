"""H_A(x) = max_a min_i [(x_i ⊖ a_i) ⊕ a_i = x_i] as a network of linear layers and ReLU, with the same answers.

A linear layer may add its products in any order, in blocks, with or without fused multiplication. None of that matters
here: every weight is 0, ±1 or a power of two, so products are exact, and in every dot product of the first four layers
at most two terms (the bias is one) are not zero. Their sum is rounded once, and so are x ⊖ a and then ⊕ a. The fifth
layer adds zeros and ones. A signed value v passes a ReLU as the two halves max(v, 0) and max(−v, 0), of which one is 0.

The arithmetic must really be that of float32 or float64: TF32 or bfloat16 products would cut x short. Inputs must be
finite and below 2¹⁹, and a difference of less than 2⁻¹⁰⁰ is not seen; x = a ⊕ ε has none.
"""

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .certifiers import Array, values

if TYPE_CHECKING:
    import onnx
    import torch

#: Makes every difference that can occur at least 1; a power of two, so that nothing is rounded.
SCALE = 2.0**100


class Layer(NamedTuple):
    """x ↦ weight · x + bias; between two layers there is a ReLU."""

    weight: Array
    bias: Array


def layers(members: Array, dtype: npt.DTypeLike = "float32") -> list[Layer]:
    """The six layers of H_A for images [M, …] of levels; they expect flat inputs [B, D].

    A test is a member with one of its pixels that are not black: a black one passes every test.
    """
    flat = members.reshape(len(members), -1)
    owner, pixel = np.nonzero(flat)
    used, place = np.unique(pixel, return_inverse=True)
    a = values(flat[owner, pixel], np.dtype(dtype))

    def unit(size: int) -> Array:
        return np.eye(size, dtype=dtype)

    tests, zeros = unit(len(a)), np.zeros(len(used), dtype)
    differences = np.hstack([-unit(len(used))[place], tests])
    belongs = np.equal.outer(np.arange(len(flat)), owner)
    steps = [
        _both_halves(unit(flat.shape[1])[np.append(used, pixel)], np.append(zeros, -a)),  # x, and x ⊖ a
        _both_halves(_whole(unit(len(used) + len(a))), np.append(zeros, a)),  # x, and (x ⊖ a) ⊕ a
        _both_halves(_whole(SCALE * differences), 0 * a),  # how far they differ, enlarged
        Layer(-np.hstack([tests, tests]), np.ones(len(a))),  # 1 where they do not, else 0 or less
        Layer(belongs, 1 - belongs.sum(axis=1)),  # 1 for a member all of whose tests are passed, else 0 or less
        Layer(np.array([[0], [1]]).repeat(len(flat), axis=1), np.array([0.5, 0])),  # is there such a member?
    ]
    return [Layer(step.weight.astype(dtype, copy=False), step.bias.astype(dtype, copy=False)) for step in steps]


def _both_halves(weight: Array, bias: Array) -> Layer:
    """After the ReLU: max(v, 0) for all v, then max(−v, 0) for all v."""
    return Layer(np.vstack([weight, -weight]), np.append(bias, -bias))


def _whole(weight: Array) -> Array:
    """The same weights for inputs that come as two halves."""
    return np.hstack([weight, -weight])


def weights(members: Array) -> int:
    """How many weights the second layer, the largest, will have."""
    flat = members.reshape(len(members), -1) > 0
    return int((2 * (flat.any(axis=0).sum() + flat.sum())) ** 2)


def network(steps: list[Layer]) -> "torch.nn.Sequential":
    """The layers as a torch module: nn.Linear and nn.ReLU, nothing else."""
    import torch

    def linear(step: Layer) -> torch.nn.Linear:
        rows, columns = step.weight.shape
        made = torch.nn.Linear(columns, rows, device="meta")  # the weights follow
        made.weight = torch.nn.Parameter(torch.from_numpy(step.weight), requires_grad=False)
        made.bias = torch.nn.Parameter(torch.from_numpy(step.bias), requires_grad=False)
        return made

    parts = chain.from_iterable((torch.nn.ReLU(), linear(step)) for step in steps)
    return torch.nn.Sequential(*list(parts)[1:]).eval()


def graph(steps: list[Layer]) -> "onnx.ModelProto":
    """The layers as an ONNX graph: Gemm and Relu, nothing else."""
    from onnx import helper, numpy_helper

    nodes, tensors = [], []
    for number, step in enumerate(steps):
        source = f"relu{number}" if number else "image"
        if number:
            nodes.append(helper.make_node("Relu", [f"linear{number}"], [source]))
        names = [f"weight{number}", f"bias{number}"]
        tensors += [numpy_helper.from_array(array, name) for array, name in zip(step, names, strict=True)]
        target = f"linear{number + 1}" if number + 1 < len(steps) else "scores"
        nodes.append(helper.make_node("Gemm", [source, *names], [target], transB=1))
    kind = helper.np_dtype_to_tensor_dtype(steps[0].weight.dtype)
    ends = [("image", steps[0].weight.shape[1]), ("scores", len(steps[-1].bias))]
    given, found = ([helper.make_tensor_value_info(name, kind, ["batch", size])] for name, size in ends)
    made = helper.make_graph(nodes, "memory", given, found, tensors)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def session(steps: list[Layer]) -> Any:
    """The ONNX graph in onnxruntime, on the processor."""
    import onnxruntime

    return onnxruntime.InferenceSession(graph(steps).SerializeToString(), providers=["CPUExecutionProvider"])
