"""Graphs that vote by the mean over the batch and were once called proved: rule and runtime disagree about an operator.

Each takes an operator outside the values that exporters write. The runtime makes another shape of it than its
definition says; the extent is read through `Shape` and becomes an axis, which is the batch axis only for the runtime.
Integers are computed from the batch size, so that the optimizer cannot fold them.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from proofs import BATCH, probe, prove_graph
from row_mixing import runner, violation
from soundsmooth.independence.proof.values import Unproved, Value
from soundsmooth.independence.proof.witness import Subject, disagreement
from soundsmooth.models.onnx_file import OnnxModel

MOST = (1 << 63) - 1
SHAPE = (3,)
node = helper.make_node


def graph(nodes: Sequence[NodeProto], shape: tuple[int, ...] = SHAPE, opset: int = 18) -> ModelProto:
    """From `x` to `y`; `one` is the list [1], computed as the batch size over itself, and small integers have names."""
    ones = [node("Shape", ["x"], ["rows"], start=0, end=1), node("Div", ["rows", "rows"], ["one"])]
    constants = [numpy_helper.from_array(np.array([number]), f"n{number}") for number in range(9)]
    constants += [numpy_helper.from_array(np.array([MOST]), "most"), numpy_helper.from_array(np.array(1), "scalar")]
    made = helper.make_graph(
        [*ones, *nodes],
        "attack",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        constants,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def mean_along(axis: str) -> list[NodeProto]:
    """The mean along an axis that is read from a tensor, in the place of the scores."""
    return [
        node("ReduceMean", ["x", axis], ["mean"], keepdims=1),
        node("Mul", ["x", "n0f"], ["nothing"]),
        node("Add", ["nothing", "mean"], ["y"]),
    ]


def nothing() -> NodeProto:
    return node("Cast", ["n0"], ["n0f"], to=TensorProto.FLOAT)


def extent_of(name: str) -> NodeProto:
    return node("Shape", [name], ["extent"], start=1, end=2)


def noop_flag_of_two() -> ModelProto:
    """Believed: the identity. Seen: all axes are reduced, the batch too."""
    return graph([node("ReduceMean", ["x"], ["mean"], noop_with_empty_axes=2), node("Sub", ["mean", "x"], ["y"])])


def keepdims_of_two() -> ModelProto:
    """Believed: [B, 1, 3], of which axis −2 has extent 1. Seen: [B, 3], of which axis −2 is the batch."""
    nodes = [
        node("ReduceMean", ["x", "n1"], ["kept"], keepdims=2),
        node("Sub", ["n0", "n2"], ["last_but_one"]),
        node("ReduceMean", ["kept", "last_but_one"], ["mean"], keepdims=1),
        node("Sub", ["mean", "x"], ["wide"]),
        node("Flatten", ["wide"], ["y"]),
    ]
    return graph(nodes, (1, 3))


def where_with_a_longer_condition() -> ModelProto:
    """Believed: a scalar, which takes an axis away. Seen: a list, which leaves it with extent 1."""
    nodes = [
        nothing(),
        node("Equal", ["rows", "rows"], ["sure"]),
        node("Where", ["sure", "scalar", "scalar"], ["index"]),
        node("Unsqueeze", ["x", "n1"], ["wide"]),
        node("Concat", ["wide", "wide"], ["two"], axis=1),
        node("Gather", ["two", "index"], ["picked"], axis=1),
        extent_of("picked"),  # 4 or 1
        node("Sub", ["extent", "n3"], ["axis"]),  # 1 or −2
    ]
    return graph([*nodes, *mean_along("axis")], (4,))


def pad_with_an_axis_named_twice() -> ModelProto:
    """Believed: pads add up, to an extent of 6. Seen: the last one counts, and it stays 3."""
    nodes = [
        nothing(),
        node("Concat", ["one", "one"], ["axes"], axis=0),
        node("Concat", ["n3", "n0", "n0", "n0"], ["pads"], axis=0),
        node("Pad", ["x", "pads", "", "axes"], ["padded"]),
        extent_of("padded"),
        node("Sub", ["extent", "n5"], ["axis"]),  # 1 or −2
    ]
    return graph([*nodes, *mean_along("axis")])


def slice_backwards_to_the_largest_end() -> ModelProto:
    """Believed: empty. Seen: it runs to the beginning, 3 entries."""
    nodes = [
        nothing(),
        node("Mul", ["one", "n2"], ["start"]),
        node("Sub", ["n0", "one"], ["step"]),
        node("Slice", ["x", "start", "most", "one", "step"], ["cut"]),
        extent_of("cut"),
        node("Sub", ["n1", "extent"], ["axis"]),  # 1 or −2
    ]
    return graph([*nodes, *mean_along("axis")])


def slice_backwards_from_far_below() -> ModelProto:
    """Believed: empty. Seen: the start is clamped, one entry."""
    nodes = [
        nothing(),
        node("Sub", ["one", "n8"], ["start"]),
        node("Sub", ["one", "n8"], ["end"]),
        node("Sub", ["end", "n8"], ["before"]),
        node("Sub", ["n0", "one"], ["step"]),
        node("Slice", ["x", "start", "before", "one", "step"], ["cut"]),
        extent_of("cut"),
        node("Mul", ["extent", "n3"], ["times"]),
        node("Sub", ["n1", "times"], ["axis"]),  # 1 or −2
    ]
    return graph([*nodes, *mean_along("axis")])


ATTACKS: dict[str, tuple[Callable[[], ModelProto], tuple[int, ...]]] = {
    build.__name__: (build, shape)
    for build, shape in [
        (noop_flag_of_two, SHAPE),
        (keepdims_of_two, (1, 3)),
        (where_with_a_longer_condition, (4,)),
        (pad_with_an_axis_named_twice, SHAPE),
        (slice_backwards_to_the_largest_end, SHAPE),
        (slice_backwards_from_far_below, SHAPE),
    ]
}


def dead_training() -> ModelProto:
    """A node that nobody reads trains: it writes over the constants that the scores are computed from."""
    numbers = {name: np.ones(3, np.float32) for name in ("scale", "bias", "mean", "var")}
    made = helper.make_graph(
        [
            node("BatchNormalization", ["x", "scale", "bias", "mean", "var"], ["n", "m", "v"], training_mode=1),
            node("Add", ["x", "mean"], ["y"]),
        ],
        "attack",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in numbers.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def dead_training_on_mixed_rows() -> ModelProto:
    """The same on something that is not proved itself, which nobody reads either."""
    made = dead_training()
    made.graph.node.insert(0, node("Softmax", ["x"], ["mixed"], axis=0))
    made.graph.node[1].input[0] = "mixed"
    return made


def uninitialised_cast() -> ModelProto:
    """A cast with a flag of 2 writes nothing: a "constant" made of whatever lay in memory."""
    nodes = [
        node("Shape", ["x"], ["sizes"]),
        node("ConstantOfShape", ["sizes"], ["zeros"]),
        node("Cast", ["zeros"], ["half"], to=TensorProto.FLOAT16, saturate=2),
        node("Cast", ["half"], ["junk"], to=TensorProto.FLOAT),
        node("Add", ["x", "junk"], ["y"]),
    ]
    return graph(nodes, opset=19)


ATTACKS["dead_training"] = (dead_training, SHAPE)
ATTACKS["dead_training_on_mixed_rows"] = (dead_training_on_mixed_rows, SHAPE)


def test_a_cast_that_writes_nothing_is_refused() -> None:
    """Not shown by a run: memory may happen to hold the same twice."""
    report = prove_graph(uninitialised_cast())
    assert not report.proved
    assert "saturate is 2" in report.reason


@pytest.mark.parametrize("name", ATTACKS)
def test_the_attack_is_real(name: str) -> None:
    build, shape = ATTACKS[name]
    assert violation(runner(build(), optimize=False), shape, (BATCH,)) is not None


@pytest.mark.parametrize("name", ATTACKS)
def test_the_argument_alone_refuses_it(name: str) -> None:
    report = prove_graph(ATTACKS[name][0]())
    assert not report.proved
    assert not report.contradiction


@pytest.mark.parametrize("name", ATTACKS)
def test_the_witness_alone_refuses_it(name: str) -> None:
    """Without any rule: the only claim is that the output's rows are the input's rows."""
    build, shape = ATTACKS[name]
    run = probe(build().SerializeToString(), ["y"])

    def votes(batch: np.ndarray) -> np.ndarray:
        return np.asarray(run(batch)[0])

    def claims(batch: int) -> dict[str, Value]:
        return {"y": Value(votes(np.full((batch, *shape), 0.5, np.float32)).shape, 0)}

    subject = Subject(claims, lambda batch, parts: {"y": parts["y"](votes(batch))}, votes, "y")
    with pytest.raises(Unproved, match="the witness disagrees"):
        disagreement(subject, shape, BATCH, fixed=False)


@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_not_proved_as_it_runs(name: str, tmp_path: Path) -> None:
    build, shape = ATTACKS[name]
    path = tmp_path / "attack.onnx"
    path.write_bytes(build().SerializeToString())
    model = OnnxModel(path, threads=1)
    model.prepare(shape, BATCH)
    assert model.report is not None
    assert not model.report.proved
    assert model.identity().independence.text == "measured m=1000"
