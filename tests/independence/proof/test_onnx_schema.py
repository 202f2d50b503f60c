"""An ONNX file against the definitions of its operators: what is malformed is said, and what torch writes is not."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, defs, helper

from architectures import each_architecture
from soundsmooth import embedded
from soundsmooth.independence.proof import onnx_schema
from soundsmooth.independence.proof.onnx_schema import malformed
from soundsmooth.models.onnx_session import frozen_session

node = helper.make_node


def graph(
    *nodes: NodeProto, lists: dict[str, Sequence[int]] | None = None, inputs: Sequence[str] = ("x",)
) -> GraphProto:
    made = [helper.make_tensor(name, TensorProto.INT64, [len(held)], held) for name, held in (lists or {}).items()]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in inputs]
    return helper.make_graph(nodes, "g", values, [], made)


def model(*nodes: NodeProto, opset: int = 18, domain: str = "", **more: object) -> ModelProto:
    made = helper.make_model(graph(*nodes, **more), opset_imports=[helper.make_opsetid(domain, opset)])
    made.ir_version = 8
    return made


def with_attribute(made: NodeProto, **fields: object) -> NodeProto:
    made.attribute.append(AttributeProto(**fields))
    return made


# What crashes a runtime


LEFT_OUT = "is left out, which is not optional"
CRASHES = {
    "Split, num_outputs": (node("Split", ["x"], ["a", "b", "c"], num_outputs=2), "3 outputs, but says that it has 2"),
    "Split, left out": (node("Split", ["x"], ["a", ""], num_outputs=2), f"output 1 {LEFT_OUT}"),
    "Loop, left out": (node("Loop", ["m", "", "x"], ["", "a"], body=graph()), f"output 0 {LEFT_OUT}"),
    "Einsum": (node("Einsum", ["x", ""], ["a"], equation="ij,jk->ik"), f"operand 1 {LEFT_OUT}"),
    "Max": (node("Max", ["x", ""], ["a"]), f"node 0 (Max, ''): operand 1 {LEFT_OUT}"),
    "Min": (node("Min", ["x", "", "x"], ["a"]), f"node 0 (Min, ''): operand 1 {LEFT_OUT}"),
    "Sum": (node("Sum", ["x", "x", ""], ["a"]), f"node 0 (Sum, ''): operand 2 {LEFT_OUT}"),
    "Mean": (node("Mean", ["", "x"], ["a"]), f"node 0 (Mean, ''): operand 0 {LEFT_OUT}"),
}


@pytest.mark.parametrize("name", CRASHES)
def test_what_ends_the_process_by_a_signal(name: str) -> None:
    made, text = CRASHES[name]
    said = malformed(model(made))
    assert said is not None
    assert text in said
    assert len(said.splitlines()) == 1


# Operands, outputs and attributes


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (node("Relu", [], ["a"]), "it has 0 operands, but must have 1 at least"),
        (node("Relu", ["x", "x"], ["a"]), "it has 2 operands, but must have 1 at most"),
        (node("Relu", ["x"], []), "it has 0 outputs, but must have 1 at least"),
        (node("Relu", ["x"], ["a", "b"]), "it has 2 outputs, but must have 1 at most"),
        (node("Constant", ["x"], ["a"], value_int=1), "it has 1 operands, but must have 0 at most"),
        (node("Add", ["x", ""], ["a"]), "operand 1 is left out, which is not optional"),
        (node("Clip", ["", "x"], ["a"]), "operand 0 is left out, which is not optional"),
        (node("Concat", ["x", "", "x"], ["a"], axis=0), "operand 1 is left out, which is not optional"),
        (node("TopK", ["x", "k"], ["", "a"]), "output 0 is left out, which is not optional"),
        (node("Concat", ["x", "x"], ["a"]), "the attribute 'axis' is missing"),
        (node("Softmax", ["x"], ["a"], axes=1), "the attribute 'axes' is not known"),
        (node("Softmax", ["x"], ["a"], axis=[1]), "the attribute 'axis' is of type INTS, not INT"),
        (node("Softmax", ["x"], ["a"], axis="1"), "the attribute 'axis' is of type STRING, not INT"),
        (with_attribute(node("Softmax", ["x"], ["a"]), name="axis", i=1), "is of type UNDEFINED, not INT"),
        (with_attribute(node("Softmax", ["x"], ["a"], axis=1), name="axis", type=2), "'axis' is there 2 times"),
        (node("Relu", ["x"], ["a"], name="n" * 1000), None),
        (node("Clip", ["x", "", ""], ["a"]), None),
        (node("Dropout", ["x"], ["a", ""]), None),
        (node("Sum", ["x"] * 50, ["a"]), None),
        (node("Softmax", ["x"], ["a"], __of_a_tool=1), None),
    ],
)  # fmt: skip
def test_a_node_and_its_definition(made: NodeProto, text: str | None) -> None:
    for each in (model(made), model(made, domain="ai.onnx")):
        said = malformed(each)
        assert said == (text and said)
        assert text is None or (said is not None and text in said)


def test_names_that_are_long_or_have_many_lines_stay_one_short_line() -> None:
    said = malformed(model(node("Softmax", ["x"], ["a"], **{"b\nc" * 1000: 1}, name="a\n" * 1000)))
    assert said is not None
    assert len(said.splitlines()) == 1
    assert len(said) < 300


@pytest.mark.parametrize(
    ("made", "opset", "lists", "says"),
    [
        (node("Split", ["x"], ["a", "b"], num_outputs=2), 18, {}, None),
        (node("Split", ["x"], ["a", "b"], num_outputs=3), 18, {}, 3),
        (node("Split", ["x", "s"], ["a", "b"]), 18, {"s": [1, 2]}, None),
        (node("Split", ["x", "s"], ["a", "b"]), 18, {"s": [1, 2, 3]}, 3),
        (node("Split", ["x", "s"], ["a", "b"], num_outputs=2), 18, {"s": [1, 2, 3]}, 3),
        (node("Split", ["x", "s"], ["a", "b"]), 13, {"s": [1]}, 1),
        (node("Split", ["x"], ["a", "b"]), 13, {}, None),
        (node("Split", ["x", ""], ["a", "b"]), 13, {}, None),
        (node("Split", ["x", "computed"], ["a", "b"]), 18, {}, None),
        (node("Split", ["x"], ["a", "b"], split=[1, 2]), 11, {}, None),
        (node("Split", ["x"], ["a", "b"], split=[1, 2, 3]), 11, {}, 3),
        (node("Split", ["x"], ["a", "b"]), 11, {}, None),
    ],
)
def test_a_split_has_as_many_outputs_as_it_says(
    made: NodeProto, opset: int, lists: dict[str, list[int]], says: int | None
) -> None:
    said = malformed(model(made, opset=opset, lists=lists))
    assert said == (says and f"node 0 (Split, ''): it has 2 outputs, but says that it has {says}")


def test_a_split_that_says_nothing() -> None:
    said = malformed(model(node("Split", ["x"], ["a", "b"], axis=1)))
    assert said is not None
    assert "neither how many outputs" in said


def test_lists_that_are_nodes_or_can_be_given_anew() -> None:
    split = node("Split", ["x", "s"], ["a", "b"])
    for constant in (
        node("Constant", [], ["s"], value_ints=[1, 2, 3]),
        node("Constant", [], ["s"], value=helper.make_tensor("", TensorProto.INT64, [3], [1, 2, 3])),
    ):
        assert "says that it has 3" in (malformed(model(constant, split)) or "")
    assert malformed(model(split, lists={"s": [1, 2, 3]}, inputs=("x", "s"))) is None


# Subgraphs and functions


def test_subgraphs_are_looked_at_too() -> None:
    bad = graph(node("Relu", ["x"], ["y"]), node("Max", ["x", ""], ["a"], name="deep"))
    split = graph(node("Split", ["x", "s"], ["a", "b"]))
    for inner, text in ((bad, "node 1 (Max, 'deep'): operand 1 is left out"), (split, "says that it has 3")):
        middle = graph(node("If", ["c"], ["a"], then_branch=graph(), else_branch=inner))
        outer = node("If", ["c"], ["a"], then_branch=graph(), else_branch=middle)
        assert text in (malformed(model(outer, lists={"s": [1, 2, 3]})) or "")
    foreign = node("Strange", ["x"], ["a"], domain="some.where", body=bad)
    assert "operand 1" in (malformed(model(foreign)) or "")


def function(name: str, *nodes: NodeProto, domain: str = "mine", opset: int = 18) -> onnx.FunctionProto:
    return helper.make_function(domain, name, ["x"], ["a"], nodes, [helper.make_opsetid("", opset)], ["n"])


def test_local_functions_are_looked_at_in_their_own_opset() -> None:
    made = model(node("f", ["x"], ["a"], domain="mine"), opset=13)
    made.functions.append(function("f", node("Split", ["x"], ["a", "b", "c"], num_outputs=2)))
    assert "says that it has 2" in (malformed(made) or "")
    made.functions[0].node[0].attribute[0].CopyFrom(
        AttributeProto(name="num_outputs", ref_attr_name="n", type=AttributeProto.INT)
    )
    assert malformed(made) is None
    made.functions[0].opset_import[0].version = 13  # where there is no such attribute
    assert "'num_outputs' is not known" in (malformed(made) or "")


def test_a_function_with_the_name_of_an_operator_has_no_other_definition() -> None:
    made = model(node("Relu", ["x", "y", "z"], ["a", "b"], own=1))
    assert malformed(made) is not None
    made.functions.append(function("Relu", domain=""))
    assert malformed(made) is None


# What is not judged


@pytest.mark.parametrize(
    "made",
    [
        model(node("OfSomeRuntime", ["", ""], ["", ""], what="ever")),
        model(node("Gelu", ["", ""], ["a"], domain="com.microsoft")),
        model(node("LayerNormalization", ["x", "s"], ["a", "b", "c", "d"], own=1), opset=11),  # defined from 17 on
        model(node("Upsample", ["x"], ["a"]), opset=13),  # deprecated
        model(node("Max", ["x", ""], ["a"]), opset=defs.onnx_opset_version() + 1),
        model(node("Max", ["x", ""], ["a"]), opset=1 << 62),
        model(node("Max", ["x", ""], ["a"]), opset=0),
        model(node("Max", ["x", ""], ["a"]), opset=-5),
        model(node("Max", ["x", ""], ["a"]), opset=18, domain="some.where"),
        model(node("Max\0", ["x", ""], ["a"])),
        model(node("", ["x", ""], ["a"])),
        model(),
        ModelProto(),
    ],
)
def test_what_has_no_definition_is_left_alone(made: ModelProto) -> None:
    assert malformed(made) is None


def test_two_versions_at_once_are_malformed() -> None:
    made = model(node("Relu", ["x"], ["a"]))
    made.opset_import.append(helper.make_opsetid("", 18))
    assert malformed(made) is None
    made.opset_import.append(helper.make_opsetid("ai.onnx", 11))
    assert "imported in 2 versions at once" in (malformed(made) or "")


def test_definitions_that_cannot_be_looked_up_are_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no definitions today")

    onnx_schema._definition.cache_clear()
    monkeypatch.setattr(defs, "get_schema", fails)
    assert malformed(model(CRASHES["Max"][0])) is None
    onnx_schema._definition.cache_clear()


# What others write


@each_architecture
@pytest.mark.slow("exports networks")
def test_what_torch_and_the_optimizer_write_is_well_formed(name: str, architecture_file: Callable[[str], Path]) -> None:
    _check_written(architecture_file(name).read_bytes())


@pytest.mark.parametrize("path", embedded.MODELS.values(), ids=lambda path: path.stem)
def test_the_embedded_models_are_well_formed(path: Path) -> None:
    _check_written(path.read_bytes())


def _check_written(content: bytes) -> None:
    assert malformed(onnx.load_model_from_string(content)) is None
    for level in ("basic", "extended", "all"):
        _, ran = frozen_session(content, "cpu", "", 1, level)
        assert malformed(onnx.load_model_from_string(ran)) is None


def test_the_optimizers_layer_norm_in_an_old_opset_is_left_alone(tmp_path: Path) -> None:
    """It makes one node of nine, of an operator that this opset does not have."""
    nodes = [
        node("ReduceMean", ["x"], ["mean"], axes=[-1]),
        node("Sub", ["x", "mean"], ["d"]),
        node("Pow", ["d", "two"], ["square"]),
        node("ReduceMean", ["square"], ["var"], axes=[-1]),
        node("Add", ["var", "eps"], ["more"]),
        node("Sqrt", ["more"], ["std"]),
        node("Div", ["d", "std"], ["unit"]),
        node("Mul", ["unit", "scale"], ["scaled"]),
        node("Add", ["scaled", "bias"], ["y"]),
    ]
    numbers = {"two": [2.0], "eps": [1e-5], "scale": [1.5] * 4, "bias": [0.5] * 4}
    constants = [
        helper.make_tensor(name, TensorProto.FLOAT, [4] if len(held) > 1 else [], held)
        for name, held in numbers.items()
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy")
    made = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], constants), opset_imports=[helper.make_opsetid("", 11)], ir_version=7
    )
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    optimized = onnx.load(tmp_path / "optimized.onnx")
    assert "LayerNormalization" in [each.op_type for each in optimized.graph.node]
    assert malformed(made) is None
    assert malformed(optimized) is None


def test_it_is_quick() -> None:
    """A thousand nodes with many attributes, in less than 50 milliseconds of this process's own time."""
    pads = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [1, 1], "dilations": [1, 1], "group": 1}
    nodes = [node("Conv", ["x", "w", "b"], [f"c{i}"], f"n{i}", **pads) for i in range(500)]
    made = model(*nodes, *(node("Sum", ["x", f"c{i}"], [f"s{i}"]) for i in range(500)))
    spent = []
    for _ in range(5):
        began = time.process_time()
        assert malformed(made) is None
        spent.append(time.process_time() - began)
    assert min(spent) < 0.05
