"""ONNX graphs: from bytes to a report.

The walk is an induction over the nodes in their order. A value that is not proved does no harm until the first output
is computed from it. A node without a rule ends the proof wherever it stands: it could do more than compute its
outputs.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .extents import BATCH, ONE, Extent, unknown
from .flow import data
from .onnx_node import Attribute, Node, Rule
from .onnx_rules import FIRST_OPSET, LAST_OPSET, NUMBERS, RULES
from .onnx_runtime import MICROSOFT, NCHWC
from .onnx_sizes import sizes
from .report import Report, not_proved, proved
from .values import Unproved, Value, constant

if TYPE_CHECKING:
    import onnx

DOMAINS: dict[str, dict[str, Rule]] = {"": RULES, "com.microsoft": MICROSOFT, "com.microsoft.nchwc": NCHWC}
#: The operators that onnxruntime keeps to itself: its optimizer makes them, and trusts itself to use them well.
INTERNAL = "com.microsoft.nchwc"
#: Operators that draw at random, in any domain.
RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial", "Sampling")
)
#: What a node may be made of.
FIELDS = frozenset(("input", "output", "name", "op_type", "domain", "attribute", "doc_string", "metadata_props"))
#: Constants with more entries are not looked into.
MOST_ENTRIES = 1 << 14

Found = Value | Unproved


def inspect_onnx(model: bytes, *, internal: bool = False) -> Report:
    """Whether every output row of an ONNX graph is the same function of its own input row.

    `internal` admits operators that only onnxruntime's own optimizer may write; for what it has written.

    Guarantee: see `Report`. What is not understood is not proved.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.load_model_from_string(model)
    except DecodeError:
        return not_proved("this is not an ONNX model, or a broken one")
    operators = Counter(_title(node) for node in proto.graph.node)
    batch = None
    try:
        opset = _check_model(proto)
        name, image = _only_input(proto.graph)
        batch = image.batch
        found = _walk(proto.graph, opset, name, image, internal)
        _check_output(proto.graph, found)
    except Unproved as reason:
        return not_proved(str(reason), batch, operators)
    return proved(batch, operators)


def draws_or_hides(model: bytes) -> str | None:
    """Why a file may not count as proved, whatever the optimizer makes of it: a random or an internal operator."""
    import onnx

    proto = onnx.load_model_from_string(model)
    for node in _all_nodes(proto):
        if node.op_type in RANDOM:
            return f"{_called(node)}: it draws at random"
        if node.domain == INTERNAL:
            return f"{_called(node)}: an operator that onnxruntime keeps to itself"
    return None


def _all_nodes(proto: "onnx.ModelProto") -> "list[onnx.NodeProto]":
    """Every node: of the graph, of its subgraphs and of its functions."""
    found: list[onnx.NodeProto] = []
    left = [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    while left:
        node = left.pop()
        found.append(node)
        for attribute in node.attribute:
            left += [*attribute.g.node, *(inner for graph in attribute.graphs for inner in graph.node)]
    return found


def _check_model(proto: "onnx.ModelProto") -> int:
    """The opset of the default domain; Unproved if the file holds more than one plain graph."""
    if proto.functions:
        raise Unproved(f"the file defines functions ({proto.functions[0].name}); only a plain graph can be proved")
    if proto.training_info or proto.graph.sparse_initializer:
        raise Unproved("the file holds training graphs or sparse tensors")
    opsets = [entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")]
    if len(opsets) != 1 or not FIRST_OPSET <= opsets[0] <= LAST_OPSET:
        raise Unproved(f"opset {opsets}: the rules were checked for opsets {FIRST_OPSET} to {LAST_OPSET}")
    for message in (proto, proto.graph, *proto.graph.node):
        _check_fields(message)
    return int(opsets[0])


def _check_fields(message: "onnx.ModelProto | onnx.GraphProto | onnx.NodeProto") -> None:
    """Unproved if the message holds fields that this version of onnx does not know: the runtime might."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    if len(UnknownFieldSet(message)):
        raise Unproved("the file holds fields that the installed onnx does not know")


class _Image:
    """The graph's input: rows on axis 0."""

    def __init__(self, shape: Sequence[int | None]) -> None:
        self.batch = shape[0]
        self.value = Value((BATCH, *(unknown() if size is None else Extent(size) for size in shape[1:])), 0)


def _only_input(graph: "onnx.GraphProto") -> tuple[str, _Image]:
    constants = {tensor.name for tensor in graph.initializer}
    for entry in graph.input:
        if entry.name in constants:
            raise Unproved(f"the constant {entry.name!r} is an input too: the caller could replace it")
    if len(graph.input) != 1:
        raise Unproved(f"the graph has {len(graph.input)} inputs, not one")
    entry = graph.input[0]
    if entry.type.WhichOneof("value") != "tensor_type" or entry.type.tensor_type.elem_type not in NUMBERS:
        raise Unproved("the graph's input is not a tensor of numbers")
    if not entry.type.tensor_type.HasField("shape") or len(entry.type.tensor_type.shape.dim) < 2:
        raise Unproved("the graph's input does not declare a shape [batch, …]")
    return entry.name, _Image([size.dim_value or None for size in entry.type.tensor_type.shape.dim])


def _walk(graph: "onnx.GraphProto", opset: int, name: str, image: _Image, internal: bool) -> dict[str, Found]:
    """What is known of every value, by name."""
    found: dict[str, Found] = {name: image.value}
    for tensor in graph.initializer:
        _define(found, tensor.name, _tensor(tensor))
    for proto in graph.node:
        outputs = _outputs(proto, opset, found, image.batch, internal)
        for output, value in zip(proto.output, outputs, strict=True):
            if output:
                _define(found, output, value)
    return found


def _define(found: dict[str, Found], name: str, value: Found) -> None:
    if not name or name in found:
        raise Unproved(f"the name {name!r} is given twice, or missing")
    found[name] = value


def _outputs(
    proto: "onnx.NodeProto", opset: int, found: dict[str, Found], batch: int | None, internal: bool
) -> Sequence[Found]:
    """What is known of a node's outputs."""
    rule = _rule(proto, internal)
    missing = next((name for name in proto.input if name and name not in found), None)
    if missing is not None:
        raise Unproved(f"{_called(proto)}: its operand {missing!r} is not computed before it")
    operands = [found[name] if name else None for name in proto.input]
    broken = next((operand for operand in operands if isinstance(operand, Unproved)), None)
    if broken is not None:
        return [broken] * len(proto.output)
    values = [operand for operand in operands if not isinstance(operand, Unproved)]
    try:
        results = _apply(rule, _node(proto, rule, opset, values, batch))
    except Unproved as reason:
        return [Unproved(f"{_called(proto)}: {reason}")] * len(proto.output)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # nothing is concluded from nonsense
        return [Unproved(f"{_called(proto)}: it is malformed ({error})")] * len(proto.output)
    uncovered = Unproved(f"{_called(proto)}: this output of it is not covered by the proof")
    padded = [*results, *[None] * len(proto.output)][: len(proto.output)]
    return [uncovered if value is None else value for value in padded]


def _rule(proto: "onnx.NodeProto", internal: bool) -> Rule:
    """The rule for a node's operator; nodes without one end the proof, wherever they stand."""
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    if proto.op_type in RANDOM:
        raise Unproved(f"{_called(proto)}: it draws at random")
    extra = {field.name for field, _ in proto.ListFields()} - FIELDS
    if extra:
        raise Unproved(f"{_called(proto)}: it has {', '.join(sorted(extra))}, which is not understood")
    if domain == INTERNAL and not internal:
        raise Unproved(f"{_called(proto)}: an operator that onnxruntime keeps to itself")
    rule = DOMAINS.get(domain, {}).get(proto.op_type)
    if rule is None:
        raise Unproved(f"{_called(proto)}: there is no rule for this operator")
    return rule


def _node(proto: "onnx.NodeProto", rule: Rule, opset: int, operands: Sequence[Value | None], batch: int | None) -> Node:
    """The node as the rules see it."""
    if opset < rule.since:
        raise Unproved(f"opset {opset} has no such operator, or another one")
    attributes: dict[str, Attribute] = {}
    for attribute in proto.attribute:
        if attribute.name not in rule.attributes or attribute.name in attributes or attribute.ref_attr_name:
            raise Unproved(f"its attribute {attribute.name} is not understood")
        attributes[attribute.name] = _attribute(attribute)
    return Node(proto.op_type, opset, attributes, operands, len(proto.output), batch)


def _apply(rule: Rule, node: Node) -> Sequence[Value | None]:
    if rule.most is not None:
        node.most_inputs(rule.most)
    found = sizes(node)
    if found is not None:
        return found
    for number, value in enumerate(node.inputs):
        if value is not None and number not in rule.sizes:
            data(value)
    return rule.flow(node)


def _attribute(proto: "onnx.AttributeProto") -> Attribute:
    import onnx

    kinds = onnx.AttributeProto
    if proto.type == kinds.INT:
        return int(proto.i)
    if proto.type == kinds.FLOAT:
        return float(proto.f)
    if proto.type == kinds.STRING:
        return proto.s.decode("utf-8", "replace")
    if proto.type == kinds.INTS:
        return tuple(proto.ints)
    if proto.type == kinds.FLOATS:
        return tuple(proto.floats)
    if proto.type == kinds.TENSOR:
        return _tensor(proto.t)
    raise Unproved(f"its attribute {proto.name} is a graph, or something else that is not understood")


def _tensor(proto: "onnx.TensorProto") -> Value:
    """A constant; its entries if there are few and they are integers of 32 or 64 bits, truth values or floats."""
    import onnx
    from onnx import numpy_helper

    if proto.data_type not in NUMBERS or proto.HasField("segment"):
        raise Unproved(f"the constant {proto.name!r} is not made of numbers")
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        raise Unproved(f"the constant {proto.name!r} lies outside the file")
    shape = tuple(proto.dims)
    if int(np.prod(shape, dtype=object)) > MOST_ENTRIES or proto.data_type not in (
        onnx.TensorProto.INT32,
        onnx.TensorProto.INT64,
        onnx.TensorProto.BOOL,
    ):
        return constant(shape)
    return constant(shape, tuple(Extent(int(entry)) for entry in numpy_helper.to_array(proto).ravel().tolist()))


def _check_output(graph: "onnx.GraphProto", found: dict[str, Found]) -> None:
    """The first output is the one that votes: its rows must be the batch's rows, in their order."""
    if not graph.output:
        raise Unproved("the graph has no output")
    value = found.get(graph.output[0].name, Unproved(f"the output {graph.output[0].name!r} is never computed"))
    if isinstance(value, Unproved):
        raise value
    data(value)
    if value.axis != 0 or value.outer != ONE or value.shape[0] != BATCH:
        raise Unproved(f"the output {graph.output[0].name!r} is [{value}], not one row for each row of the input")


def _title(proto: "onnx.NodeProto") -> str:
    return f"{proto.domain}.{proto.op_type}" if proto.domain else proto.op_type


def _called(proto: "onnx.NodeProto") -> str:
    """A node, for people: its operator and a name to find it by."""
    name = proto.name or next((output for output in proto.output if output), "")
    return f"{_title(proto)} {name!r}"
