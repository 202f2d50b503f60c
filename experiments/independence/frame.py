"""From a grown graph to a file: which nodes stay, how constants are written, and what a file may hold beside a plain
graph (functions, subgraphs, names given twice, constants that are inputs)."""

from dataclasses import dataclass

import numpy as np
import onnx
from growth import Growth
from known import Known
from onnx import helper, numpy_helper

#: Where the optimizer keeps operators of its own.
INTERNAL = "com.microsoft.nchwc"


@dataclass(frozen=True)
class Graph:
    """A finished graph."""

    model: bytes
    batch: int
    mixes: bool
    """Whether the output of one row was seen to change with another."""
    optimize: bool
    """Whether the optimizer should see it before the inspector does."""
    operators: tuple[str, ...] = ()


def framed(growth: Growth, output: Known, odd: float) -> Graph:
    """The file for one output of a grown graph; `odd` is how often it holds something that a plain graph does not."""
    outputs = [output]
    if growth.draw.random() < 0.08:
        outputs += [known for known in growth.draw.sample(growth.pool, 1) if known.depth and known is not output]
    nodes = _needed(growth, {known.name for known in outputs})
    nodes, constants = _constants(growth, nodes)
    model = _model(growth, nodes, constants, outputs)
    if growth.draw.random() < odd:
        growth.draw.choice(ODDITIES)(growth, model)
    operators = tuple(f"{n.domain}.{n.op_type}" if n.domain else n.op_type for n in model.graph.node)
    optimize = (
        growth.stacked or growth.draw.random() < 0.15 or any(node.domain == INTERNAL for node in model.graph.node)
    )
    return Graph(model.SerializeToString(), growth.batch, output.rows != 0, optimize, operators)


def _needed(growth: Growth, wanted: set[str]) -> list[onnx.NodeProto]:
    """The nodes that the outputs are computed from; sometimes all."""
    if growth.draw.random() < 0.08:
        return list(growth.nodes)
    found = []
    for node in reversed(growth.nodes):
        if wanted & set(node.output):
            found.append(node)
            wanted |= set(node.input)
    return found[::-1]


def _constants(growth: Growth, nodes: list[onnx.NodeProto]) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Constants as initializers, or as nodes."""
    used = {name for node in nodes for name in node.input}
    tensors = [tensor for name, tensor in growth.constants.items() if name in used]
    chance = growth.draw.choice([0, 0, 0.3])
    made, kept = [], []
    for tensor in tensors:
        if growth.draw.random() < chance:
            made.append(helper.make_node("Constant", [], [tensor.name], value=tensor))
        else:
            kept.append(tensor)
    return [*made, *nodes], kept


def _model(
    growth: Growth, nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], outputs: list[Known]
) -> onnx.ModelProto:
    """One input; the outputs' shapes are not told, the batch size may be."""
    first = "batch" if growth.symbolic else growth.batch
    entry = helper.make_tensor_value_info("x", growth.elem_type, [first, *growth.sizes])
    results = [
        helper.make_tensor_value_info(known.name, helper.np_dtype_to_tensor_dtype(known.value.dtype), None)
        for known in outputs
    ]
    return growth._model(helper.make_graph(nodes, "random", [entry], results, constants))


# What a file may hold beside a plain graph. -----------------------------------------------------------------------


def _function(growth: Growth, model: onnx.ModelProto) -> None:
    """One node becomes a call of a function: in a domain of its own, or in the place of the operator."""
    node = growth.draw.choice(model.graph.node)
    inside = onnx.NodeProto()
    inside.CopyFrom(node)
    domain, name = growth.draw.choice([("local", "F"), ("local", node.op_type), ("", node.op_type)])
    inputs = list(dict.fromkeys(name for name in node.input if name))
    model.functions.append(
        helper.make_function(domain, name, inputs, list(node.output), [inside], list(model.opset_import))
    )
    node.op_type, node.domain = name, domain
    del node.input[:], node.attribute[:]
    node.input.extend(inputs)
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))


def _branch(growth: Growth, model: onnx.ModelProto) -> None:
    """One node becomes the branch of an If."""
    node = growth.draw.choice(model.graph.node)
    inside = onnx.NodeProto()
    inside.CopyFrom(node)
    for number, name in enumerate(node.output):
        inside.output[number] = f"{name}_inside"
    branch = helper.make_graph([inside], "branch", [], [onnx.ValueInfoProto(name=name) for name in inside.output])
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "always"))
    node.op_type, node.domain = "If", ""
    del node.input[:], node.attribute[:]
    node.input.append("always")
    node.attribute.extend(helper.make_attribute(key, branch) for key in ("then_branch", "else_branch"))


def _twice(growth: Growth, model: onnx.ModelProto) -> None:
    """One name is given twice."""
    names = [name for node in model.graph.node for name in node.output if name]
    names += [tensor.name for tensor in model.graph.initializer]
    node = growth.draw.choice(model.graph.node)
    node.output[0] = growth.draw.choice([*names, "x"])


def _replaceable(growth: Growth, model: onnx.ModelProto) -> None:
    """A constant is an input too."""
    for tensor in list(model.graph.initializer)[:1]:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))


def _disorder(growth: Growth, model: onnx.ModelProto) -> None:
    """Nodes stand before what they need."""
    nodes = list(model.graph.node)
    growth.draw.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _declared(growth: Growth, model: onnx.ModelProto) -> None:
    """The input's shape is told in another way: no sizes, or not at all."""
    kind = model.graph.input[0].type.tensor_type
    if growth.draw.random() < 0.3:
        kind.ClearField("shape")
        return
    for dim in list(kind.shape.dim)[1:]:
        if growth.draw.random() < 0.5:
            dim.dim_param = growth.draw.choice(["n", "batch", "m"])


def _noted(growth: Growth, model: onnx.ModelProto) -> None:
    """Shapes of values are written down; wrongly, sometimes."""
    for known in growth.draw.sample(growth.pool, min(2, len(growth.pool))):
        shape = [growth.draw.choice([size, "batch", 1, 7]) for size in known.shape]
        kind = helper.np_dtype_to_tensor_dtype(known.value.dtype)
        model.graph.value_info.append(helper.make_tensor_value_info(known.name, kind, shape))


def _sparse(growth: Growth, model: onnx.ModelProto) -> None:
    """A constant is written as a sparse tensor."""
    tensors = [one for one in model.graph.initializer if one.data_type == 1 and one.dims]
    for tensor in growth.draw.sample(tensors, min(1, len(tensors))):
        value = numpy_helper.to_array(tensor)
        places = numpy_helper.from_array(np.arange(value.size), f"{tensor.name}_places")
        entries = numpy_helper.from_array(value.ravel(), tensor.name)
        model.graph.initializer.remove(tensor)
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(entries, places, list(tensor.dims)))


def _more_inputs(growth: Growth, model: onnx.ModelProto) -> None:
    """A second input; before the first one, sometimes."""
    second = helper.make_tensor_value_info("second", 1, ["batch", 1])
    model.graph.input.insert(growth.draw.randrange(2), second)


def _imports(growth: Growth, model: onnx.ModelProto) -> None:
    """Another opset than the graph was made for, the same one by its other name, two, or none."""
    way = growth.draw.randrange(5)
    if way == 0:
        model.opset_import[0].domain = "ai.onnx"
    elif way == 4:
        del model.opset_import[0]
    elif way == 1:
        model.opset_import.append(helper.make_opsetid("ai.onnx", growth.draw.choice([7, 13, 18, growth.opset])))
    else:
        model.opset_import[0].version = growth.draw.choice([1, 5, 6, 26, 27])


def _unknown(growth: Growth, model: onnx.ModelProto) -> None:
    """A field that no version of the format has: number 99, a varint."""
    places = [model, model.graph, *model.graph.node]
    growth.draw.choice(places).MergeFromString(b"\x98\x06\x01")


def _attributes(growth: Growth, model: onnx.ModelProto) -> None:
    """An attribute comes twice, has another name's value, or is one that the operator does not have."""
    node = growth.draw.choice(model.graph.node)
    way = growth.draw.randrange(3)
    if way == 0 and node.attribute:
        node.attribute.append(growth.draw.choice(node.attribute))
    elif way == 1 and node.attribute:
        growth.draw.choice(node.attribute).ref_attr_name = "other"
    else:
        node.attribute.append(helper.make_attribute("unheard_of", 1))


def _training(growth: Growth, model: onnx.ModelProto) -> None:
    """A graph for training stands beside the graph."""
    model.training_info.add().algorithm.CopyFrom(model.graph)


def _ends(growth: Growth, model: onnx.ModelProto) -> None:
    """No output; or one that is an input, a constant, any value, or is never computed."""
    way = growth.draw.randrange(9)
    if way == 0:
        del model.graph.output[:]
    else:
        names = ["x", *(tensor.name for tensor in model.graph.initializer), "nothing"]
        computed = [name for node in model.graph.node for name in node.output if name]
        del model.graph.output[1:]
        model.graph.output[0].CopyFrom(onnx.ValueInfoProto(name=growth.draw.choice([*names, *computed])))


def _outside(growth: Growth, model: onnx.ModelProto) -> None:
    """A constant lies outside the file; or is no number."""
    for tensor in growth.draw.sample(list(model.graph.initializer), min(1, len(model.graph.initializer))):
        if growth.draw.random() < 0.5:
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="elsewhere")
        else:
            tensor.CopyFrom(helper.make_tensor(tensor.name, onnx.TensorProto.STRING, [1], [b"text"]))


def _exchanged(growth: Growth, model: onnx.ModelProto) -> None:
    """An operator that changes no shape becomes another one: of another domain, one that draws, or overloaded."""
    nodes = [node for node in model.graph.node if len(node.input) == 1 and not node.attribute and not node.domain]
    for node in growth.draw.sample(nodes, min(1, len(nodes))):
        way = growth.draw.randrange(4)
        if way == 0:
            node.op_type = growth.draw.choice(["RandomUniformLike", "RandomNormalLike", "Bernoulli"])
        elif way == 1:
            node.domain = growth.draw.choice(["ai.onnx", "com.microsoft", INTERNAL, "ai.onnx.ml"])
        elif way == 2:
            node.overload = "other"
        else:
            node.op_type, node.domain = growth.draw.choice(["ReorderInput", "GlobalMaxPool"]), INTERNAL
            model.opset_import.append(helper.make_opsetid(INTERNAL, 1))


def _internal(growth: Growth, model: onnx.ModelProto) -> None:
    """An operator becomes the one of the same name that the optimizer alone should use, for channels in blocks."""
    names = ("Conv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")
    nodes = [node for node in model.graph.node if not node.domain and node.op_type in names]
    for node in growth.draw.sample(nodes, min(1, len(nodes))):
        node.domain = INTERNAL
        model.opset_import.append(helper.make_opsetid(INTERNAL, 1))


def _empty(growth: Growth, model: onnx.ModelProto) -> None:
    """A name is left out: of an operand, an output or a constant."""
    node = growth.draw.choice(model.graph.node)
    names = growth.draw.choice([node.input, node.output])
    if names:
        names[growth.draw.randrange(len(names))] = ""


ODDITIES = (
    _function,
    _branch,
    _twice,
    _replaceable,
    _disorder,
    _declared,
    _noted,
    _sparse,
    _more_inputs,
    _imports,
    _unknown,
    _attributes,
    _training,
    _ends,
    _outside,
    _exchanged,
    _internal,
    _empty,
)
