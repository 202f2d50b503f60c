"""Networks that are proved, changed at random: whatever is still proved keeps its rows apart when it runs.

The graphs are those that onnxruntime's full optimisation writes, with its fused operators.
"""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, helper, numpy_helper
from torch import nn

from architectures import Attention, MultiHead, ViT, convnext, exported_module
from proofs import BATCH, prove_graph
from row_mixing import Run, runner, violation

SHAPE = (3, 8, 8)


class Mixer(nn.Module):
    """Convolution, pooling, group norm and a product over pixels: operators that the others lack."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.mix = nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.silu(self.norm(nn.functional.max_pool2d(self.conv(x), 2)))
        x = x + self.mix(x.flatten(2)).unflatten(2, (4, 4))
        return torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1).log_softmax(1)


NETWORKS = {
    "vit": lambda: ViT(8, 4, 8, 1, 2, 3, Attention),
    "vit-multihead": lambda: ViT(8, 4, 8, 1, 2, 3, MultiHead),
    "convnext": lambda: convnext((4, 8), (1, 1), 3),
    "mixer": Mixer,
}


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Name → the optimized graph."""
    return {name: optimized(name, tmp_path_factory.mktemp(name)) for name in NETWORKS}


def optimized(name: str, folder: Path) -> bytes:
    path = exported_module(NETWORKS[name](), SHAPE, folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return Path(options.optimized_model_filepath).read_bytes()


def change_attribute(model: ModelProto, draw: random.Random) -> None:
    """An axis, a permutation or a flag. Not in blocks of channels: their kernels trust the optimizer."""
    nodes = [node for node in model.graph.node if node.domain != "com.microsoft.nchwc" and node.attribute]
    attribute = draw.choice(draw.choice(nodes).attribute)
    if attribute.name in ("perm", "axes"):
        draw.shuffle(values := list(attribute.ints))
        attribute.ints[:] = values
    elif attribute.name in ("axis", "start", "end"):
        attribute.i = draw.randrange(-4, 4)
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = 1 - attribute.i


def change_constant(model: ModelProto, draw: random.Random) -> None:
    """A target of a reshape, an axis, the bound of a slice."""
    tensors = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT64]
    tensor = draw.choice(tensors)
    values = numpy_helper.to_array(tensor).copy()
    flat = values.reshape(-1)
    if draw.random() < 0.5:
        draw.shuffle(entries := flat.tolist())
        flat[:] = entries
    else:
        flat[draw.randrange(len(flat))] = draw.choice([-2, -1, 0, 1, 2, 3, 4, 8, 16])
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def change_operand(model: ModelProto, draw: random.Random) -> None:
    """Another value that is computed before."""
    nodes = model.graph.node
    at = draw.randrange(1, len(nodes))
    before = [output for node in nodes[:at] for output in node.output] + [t.name for t in model.graph.initializer]
    nodes[at].input[draw.randrange(len(nodes[at].input))] = draw.choice(before)


def insert(model: ModelProto, draw: random.Random) -> None:
    """An operator between a value and one that uses it."""
    nodes = list(model.graph.node)
    at = draw.randrange(1, len(nodes))
    user = nodes[at]
    number = draw.randrange(len(user.input))
    rank = draw.randrange(2, 5)
    order = list(range(rank))
    draw.shuffle(order)
    name = user.input[number]
    new = [
        ("Transpose", [name], {"perm": order}),
        ("Softmax", [name], {"axis": draw.randrange(-3, 3)}),
        ("ReduceMean", [name, "new_axes"], {"keepdims": draw.randrange(2)}),
        ("ReduceMax", [name], {"keepdims": 1}),
        ("CumSum", [name, "new_axis"], {}),
        ("Flatten", [name], {"axis": draw.randrange(0, 3)}),
        ("Reshape", [name, "new_shape"], {}),
        ("Tanh", [name], {}),
    ]
    operator, inputs, attributes = draw.choice(new)
    axis = draw.randrange(-3, 3)
    shape = draw.choice([[-1, 8], [0, -1], [-1, 4], [2, -1], [0, -1, 4], [4, -1, 4], [-1]])
    for title, value in (("new_axes", [axis]), ("new_axis", axis), ("new_shape", shape)):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), title))
    user.input[number] = "new"
    nodes.insert(at, helper.make_node(operator, inputs, ["new"], **attributes))
    replace_nodes(model, nodes)


def replace_nodes(model: ModelProto, nodes: list[NodeProto]) -> None:
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def mutated(content: bytes, draw: random.Random) -> ModelProto:
    model = onnx.load_model_from_string(content)
    for _ in range(draw.choice([1, 1, 2])):
        change = draw.choice([change_attribute, change_attribute, change_constant, change_operand, insert])
        if change is not insert or "new" not in {output for node in model.graph.node for output in node.output}:
            change(model, draw)
    for information in (model.graph.value_info, model.graph.output[0].type.tensor_type.shape.dim):
        del information[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def verdict(content: bytes, seed: int) -> str:
    """refused (it does not run), not proved, or proved; an AssertionError if it is proved and rows mix."""
    model = mutated(content, random.Random(seed))
    report = prove_graph(model.SerializeToString(), internal=True)
    try:
        run = runner(model, optimize=False)
        sizes = tuple(size for size in (BATCH,) if runs(run, size))
    except Exception:  # onnxruntime's exceptions share no public base class
        return "refused"
    if not sizes:
        return "refused"
    found = violation(run, SHAPE, sizes)
    if report.proved:
        assert found is None, f"{found}\n{onnx.printer.to_text(model.graph)}"
        return "proved"
    return "not proved" if found is None else "mixes"


def runs(run: Run, size: int) -> bool:
    try:
        run(np.ones((size, *SHAPE), np.float32))
    except Exception:
        return False
    return True


@settings(max_examples=300)
@given(st.sampled_from(list(NETWORKS)), st.integers(0, 2**32))
@pytest.mark.slow("exports networks, and proves mutants")
def test_what_is_still_proved_keeps_rows_apart(networks: dict[str, bytes], name: str, seed: int) -> None:
    verdict(networks[name], seed)


@pytest.mark.slow("proves many mutants")
def test_the_mutations_are_worth_running(networks: dict[str, bytes]) -> None:
    """The networks themselves are proved; of fixed mutants some are proved, and some mix rows, none of them proved."""
    assert all(prove_graph(content, internal=True).proved for content in networks.values())
    found = Counter(verdict(content, seed) for content in networks.values() for seed in range(150))
    assert found["proved"] >= 50
    assert found["mixes"] >= 20
