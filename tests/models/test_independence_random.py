"""Random graphs: whatever is proved treats its rows alike and apart when it runs.

A graph grows node by node from operators with axes, permutations, shapes and operands chosen at random, good and bad
ones; a node that onnxruntime refuses is dropped. Every value of the graph is then inspected as if it were the output.
"""

import random
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from proofs import BATCH, prove_graph
from rows import Run, violation

SHAPE = (2, 3, 4)
SIZES = (1, 2, 3, 4)
FLOAT = TensorProto.FLOAT


class Growing:
    """A graph from `x` [batch, 2, 3, 4] that grows; values with their shapes for a batch of 4."""

    def __init__(self, draw: random.Random, batch: int | str = "batch", opset: int = 18) -> None:
        self.draw, self.batch, self.opset = draw, batch, opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {"x": (max(SIZES), *SHAPE)}

    def model(self, outputs: list[str]) -> onnx.ModelProto:
        infos = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
        graph = helper.make_graph(
            self.needed(outputs),
            "random",
            [helper.make_tensor_value_info("x", FLOAT, [self.batch, *SHAPE])],
            infos,
            self.constants,
        )
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def needed(self, outputs: list[str]) -> list[onnx.NodeProto]:
        """The nodes that the outputs are computed from, in order."""
        wanted, found = set(outputs), []
        for node in reversed(self.nodes):
            if wanted & set(node.output):
                found.append(node)
                wanted |= set(node.input)
        return found[::-1]

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def value(self) -> str:
        """An old value or, more often, a new one."""
        names = list(self.shapes)
        return self.draw.choice(names[-3:] if self.draw.random() < 0.75 else names)

    def axis(self, name: str) -> int:
        """Any axis, from the front or from the back; the first one less often."""
        rank = max(len(self.shapes[name]), 1)
        axis = self.draw.randrange(rank)
        axis = self.draw.randrange(rank) if axis == 0 else axis
        return axis - rank if self.draw.random() < 0.3 else axis

    def add(self, operator: str, inputs: list[str], outputs: int = 1, **attributes: object) -> str:
        names = [f"v{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names[0]

    def grow(self) -> None:
        """One more operator, if it runs."""
        nodes, constants = len(self.nodes), len(self.constants)
        try:
            name = self.draw.choice(OPERATORS)(self)
            session = session_of(self.model([name]))
            shape = session.run(None, {"x": np.ones((max(SIZES), *SHAPE), np.float32)})[0].shape
        except Exception:  # no such axis, or onnxruntime refuses it: its exceptions share no public base class
            name, shape = "", (0,)
        if 0 < np.prod(shape, dtype=int) <= 4000 and len(shape) <= 6:
            self.shapes[name] = shape
        else:
            del self.nodes[nodes:], self.constants[constants:]


def session_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def unary(g: Growing) -> str:
    return g.add(g.draw.choice(["Relu", "Tanh", "Sigmoid", "Neg", "Abs", "Cos", "Identity"]), [g.value()])


def binary(g: Growing) -> str:
    return g.add(g.draw.choice(["Add", "Sub", "Mul", "Max"]), [g.value(), g.value()])


def with_constant(g: Growing) -> str:
    """A constant that may have any extent along any axis."""
    name = g.value()
    shape = [size if g.draw.random() < 0.4 else 1 for size in g.shapes[name]]
    shape = shape[g.draw.randrange(len(shape) + 1) :]
    inputs = [name, g.constant(np.cos(np.arange(np.prod(shape, dtype=int))).reshape(shape).astype(np.float32))]
    return g.add(g.draw.choice(["Add", "Mul"]), inputs if g.draw.random() < 0.5 else inputs[::-1])


def transpose(g: Growing) -> str:
    name = g.value()
    order = list(range(len(g.shapes[name])))
    g.draw.shuffle(order)
    return g.add("Transpose", [name], perm=order) if g.draw.random() < 0.9 else g.add("Transpose", [name])


def reshape(g: Growing) -> str:
    """To any factors in any order, with −1 and 0; often by way of the batch size."""
    name = g.value()
    sizes = list(g.shapes[name])
    for _ in range(g.draw.randrange(1, 4)):
        if g.draw.random() < 0.5 and len(sizes) > 1:
            at = g.draw.randrange(len(sizes) - 1)
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        else:
            at = g.draw.randrange(len(sizes) or 1)
            factors = [f for f in (1, 2, 3, 4) if sizes and sizes[at] % f == 0]
            if factors:
                factor = g.draw.choice(factors)
                sizes[at : at + 1] = g.draw.choice([[factor, sizes[at] // factor], [sizes[at] // factor, factor]])
    if g.draw.random() < 0.2:
        g.draw.shuffle(sizes)
    if g.draw.random() < 0.4 and sizes:
        return g.add(
            "Reshape",
            [name, g.integers(*(-1 if i == g.draw.randrange(len(sizes)) else s for i, s in enumerate(sizes)))],
        )
    start = g.add("Shape", ["x"], start=0, end=1)
    parts = [start if size == max(SIZES) and g.draw.random() < 0.8 else g.integers(size) for size in sizes]
    if g.draw.random() < 0.3 and parts:
        parts[g.draw.randrange(len(parts))] = g.integers(g.draw.choice([-1, 0]))
    return g.add("Reshape", [name, g.add("Concat", parts, axis=0)])


def row_first(g: Growing) -> str:
    """A reshape that should be proved."""
    name = g.value()
    return g.add("Reshape", [name, g.integers(0, -1)]) if g.draw.random() < 0.5 else g.add("Flatten", [name])


def reduce(g: Growing) -> str:
    name = g.value()
    kind = g.draw.choice(["ReduceMean", "ReduceSum", "ReduceMax"])
    if g.draw.random() < 0.05:
        return g.add(kind, [name], keepdims=g.draw.randrange(2))
    return g.add(kind, [name, g.integers(g.axis(name))], keepdims=g.draw.randrange(2))


def along(g: Growing) -> str:
    name = g.value()
    kind = g.draw.choice(["Softmax", "LogSoftmax", "LpNormalization", "CumSum", "LayerNormalization"])
    if kind == "CumSum":
        return g.add(kind, [name, g.constant(np.array(g.axis(name)))])
    if kind == "LayerNormalization":
        return g.add(kind, [name, g.constant(np.ones(1, np.float32))], axis=g.axis(name))
    return g.add(kind, [name], axis=g.axis(name))


def concat(g: Growing) -> str:
    name, other = g.value(), g.value()
    return g.add("Concat", [name, other if g.shapes[other] == g.shapes[name] else name], axis=g.axis(name))


def cut(g: Growing) -> str:
    name = g.value()
    bounds = [g.integers(g.draw.randrange(-2, 3)), g.integers(g.draw.choice([-1, 1, 2, 3, 2**31, 2**63 - 1]))]
    return g.add("Slice", [name, *bounds, g.integers(g.axis(name)), g.integers(g.draw.choice([1, 1, 2, -1]))])


def whole_slice(g: Growing) -> str:
    return g.add("Slice", [g.value(), g.integers(0), g.integers(2**63 - 1), g.integers(0)])


def split(g: Growing) -> str:
    name = g.value()
    return g.add("Split", [name], 2, axis=g.axis(name), num_outputs=2)


def gather(g: Growing) -> str:
    name = g.value()
    indices = g.draw.choice([np.array(0), np.array([1, 0]), np.array([[0], [-1]])]).astype(np.int64)
    return g.add("Gather", [name, g.constant(indices)], axis=g.axis(name))


def axes(g: Growing) -> str:
    name = g.value()
    return g.add(g.draw.choice(["Squeeze", "Unsqueeze"]), [name, g.integers(g.axis(name))])


def pad(g: Growing) -> str:
    name = g.value()
    rank = len(g.shapes[name])
    pads = [0] * (2 * rank)
    at = g.axis(name) % max(rank, 1)
    pads[at], pads[at + rank] = g.draw.choice([(1, -1), (1, 0), (0, 1)])
    return g.add("Pad", [name, g.integers(*pads)], mode=g.draw.choice(["constant", "edge"]))


def tile(g: Growing) -> str:
    name = g.value()
    repeats = [1] * len(g.shapes[name])
    repeats[g.axis(name)] = 2
    return g.add("Tile", [name, g.integers(*repeats)])


def expand(g: Growing) -> str:
    """A constant for each row, or a value along another axis of the batch's size."""
    start = g.add("Shape", ["x"], start=0, end=1)
    name = g.value() if g.draw.random() < 0.4 else g.constant(np.array([[[0.5, 2.0]]], np.float32))
    rest = [g.integers(1)] * g.draw.randrange(4)
    rest.insert(g.draw.randrange(len(rest) + 1), start)
    return g.add("Expand", [name, g.add("Concat", rest, axis=0)])


def products(g: Growing) -> str:
    one, other = g.value(), g.value()
    choice = g.draw.random()
    if choice < 0.4:
        width = g.shapes[one][-1] if g.shapes[one] else 1
        return g.add("MatMul", [one, g.constant(np.cos(np.arange(width * 3)).reshape(width, 3).astype(np.float32))])
    if choice < 0.5:
        height = g.shapes[one][-2] if len(g.shapes[one]) > 1 else 1
        return g.add("MatMul", [g.constant(np.cos(np.arange(height * 2)).reshape(2, height).astype(np.float32)), one])
    order = list(range(len(g.shapes[other])))
    turned = g.add("Transpose", [other], perm=[*order[:-2], *order[-2:][::-1]])
    if choice < 0.8:
        return g.add("MatMul", [one, turned])
    flags = {flag: g.draw.randrange(2) for flag in ("transA", "transB")}
    if choice < 0.85:
        return g.add("Gemm", [one, other], **flags)
    moved = {flag: g.draw.randrange(2) for flag in ("transBatchA", "transBatchB")}
    return g.add("FusedMatMul", [one, other], domain="com.microsoft", **flags, **moved)


def einsum(g: Growing) -> str:
    one, other = g.value(), g.value()
    letters = [g.draw.sample("abcdef", len(g.shapes[name])) for name in (one, other) if len(g.shapes[name]) <= 6]
    if len(letters) < 2 or not letters[0] + letters[1]:
        return unary(g)
    used = sorted(set(letters[0]) | set(letters[1]))
    kept = g.draw.sample(used, g.draw.randrange(1, len(used) + 1))
    return g.add("Einsum", [one, other], equation=f"{''.join(letters[0])},{''.join(letters[1])}->{''.join(kept)}")


def images(g: Growing) -> str:
    """Operators for which axis 0 is the batch and axis 1 the channels."""
    name = g.value()
    shape = g.shapes[name]
    channels = shape[1] if len(shape) > 1 else 1
    kind = g.draw.choice(["Conv", "BatchNormalization", "InstanceNormalization", "GlobalAveragePool", "MaxPool", "LRN"])
    if kind == "Conv":
        weights = np.cos(np.arange(2 * channels * 2 ** max(len(shape) - 2, 0))).astype(np.float32)
        return g.add(kind, [name, g.constant(weights.reshape(2, channels, *[2] * (len(shape) - 2)))])
    if kind == "MaxPool":
        return g.add(kind, [name], kernel_shape=[2] * max(len(shape) - 2, 1), ceil_mode=g.draw.randrange(2))
    if kind == "LRN":
        return g.add(kind, [name], size=3, alpha=5.0)
    parameters = [g.constant(np.linspace(0.5, 2, channels, dtype=np.float32)) for _ in range(4)]
    count = {"BatchNormalization": 4, "InstanceNormalization": 2, "GlobalAveragePool": 0}[kind]
    return g.add(kind, [name, *parameters[:count]])


def positions(g: Growing) -> str:
    """Entries of the flat tensor at scale · b + offset."""
    name = g.value()
    size = int(np.prod(g.shapes[name])) // max(SIZES)
    scale = g.draw.choice([size, size, size, 1, size - 1, 0])
    offsets = np.arange(2) + g.draw.choice([0, 0, 0, 1, -1, size - 2, size - 1])
    count = g.add("Squeeze", [g.add("Shape", ["x"], start=0, end=1)])
    numbers = g.add("Range", [g.constant(np.array(0)), count, g.constant(np.array(1))])
    column = g.add("Unsqueeze", [g.add("Mul", [numbers, g.constant(np.array(scale))]), g.integers(1)])
    indices = g.add("Add", [column, g.constant(offsets[None])])
    return g.add("Gather", [g.add("Reshape", [name, g.integers(-1)]), indices], axis=0)


def sizes(g: Growing) -> str:
    """The batch size as data: never to be proved."""
    size = g.add("Cast", [g.add("Shape", [g.value()], start=0, end=1)], to=FLOAT)
    return g.add("Mul", [g.value(), size])


def where(g: Growing) -> str:
    return g.add("Where", [g.add("Greater", [g.value(), g.value()]), g.value(), g.value()])


OPERATORS: list[Callable[[Growing], str]] = [
    *[unary] * 2, *[binary] * 3, *[with_constant] * 2, *[transpose] * 3, *[reshape] * 4, *[row_first] * 2,
    *[reduce] * 2, *[along] * 2, concat, cut, whole_slice, split, gather, *[axes] * 2, pad, tile, *[expand] * 2,
    *[products] * 3, einsum, *[images] * 3, *[positions] * 2, sizes, where,
]  # fmt: skip


def grown(seed: int, steps: int) -> Growing:
    draw = random.Random(seed)
    batch = max(SIZES) if draw.random() < 0.3 else "batch"
    graph = Growing(draw, batch, draw.choice([18, 20]))
    for _ in range(steps):
        graph.grow()
    return graph


def proved_values(graph: Growing) -> list[str]:
    return [
        name for name in graph.shapes if name != "x" and prove_graph(graph.model([name]).SerializeToString()).proved
    ]


def check(graph: Growing) -> tuple[int, int]:
    """How many values there are and how many are proved; an AssertionError if one of these is not what was proved."""
    names = proved_values(graph)
    for name in names:
        run = run_of(session_of(graph.model([name])))
        found = violation(run, SHAPE, running_sizes(graph, run))
        assert found is None, f"{name}: {found}\n{onnx.printer.to_text(graph.model([name]))}"
    return len(graph.shapes) - 1, len(names)


def running_sizes(graph: Growing, run: Run) -> tuple[int, ...]:
    """The batch size that is claimed something of, if the graph runs there."""
    return tuple(size for size in (BATCH,) if runs(run, size))


def runs(run: Run, size: int) -> bool:
    try:
        run(np.ones((size, *SHAPE), np.float32))
    except Exception:  # onnxruntime's exceptions share no public base class
        return False
    return True


def run_of(session: onnxruntime.InferenceSession) -> Run:
    return lambda batch: np.asarray(session.run(None, {"x": batch})[0])


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_what_is_proved_holds_when_it_runs(seed: int) -> None:
    check(grown(seed, 10))


def test_the_random_graphs_are_worth_running() -> None:
    """Among the values of fixed random graphs many are proved, many are not, and many of those do mix rows."""
    proved = mixing = values = 0
    for seed in range(25):
        graph = grown(seed, 10)
        names = set(proved_values(graph))
        values += len(graph.shapes) - 1
        proved += len(names)
        for name in set(graph.shapes) - names - {"x"}:
            run = run_of(session_of(graph.model([name])))
            mixing += violation(run, SHAPE, running_sizes(graph, run)) is not None
    assert proved > 0.2 * values
    assert mixing > 0.1 * values
