"""ONNX graphs: from bytes to what is known of every value, at one batch size.

The walk is an induction over the nodes in their order. Shapes, and the entries of constants, are those that the runtime
was seen to compute (`onnx_seen`). A value that is not proved does no harm until the first output is computed from it. A
node without a rule ends the proof wherever it stands: it could do more than compute its outputs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .onnx_dialect import DOUBLE, NUMBERS, check, odd_flag
from .onnx_node import Attribute, Node, Rule
from .onnx_rules import FIRST_OPSET, LAST_OPSET, RULES
from .onnx_runtime import MICROSOFT, NCHWC
from .onnx_seen import Seen
from .values import Shape, Unproved, Value

if TYPE_CHECKING:
    import onnx

DOMAINS: dict[str, dict[str, Rule]] = {"": RULES, "com.microsoft": MICROSOFT, "com.microsoft.nchwc": NCHWC}
#: The operators that onnxruntime keeps to itself: its optimizer makes them, and trusts itself to use them well.
INTERNAL = "com.microsoft.nchwc"
#: Operators that draw at random, in any domain.
RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial", "Sampling")
)
#: What these compute is a constant also for rows: no shape depends on data.
SHAPES = frozenset(("Shape", "Size"))
#: Operators that draw at random, or write over their parameters, in training mode, which only their rule rules out.
MAY_TRAIN = frozenset(("Dropout", "BatchNormalization"))
#: What a node may be made of.
FIELDS = frozenset(("input", "output", "name", "op_type", "domain", "attribute", "doc_string", "metadata_props"))

Found = Value | Unproved


class OnnxGraph:
    """A plain graph: one input, nodes with rules, one first output that votes.

    `internal` admits operators that only onnxruntime's own optimizer may write; for what it has written.
    """

    def __init__(self, model: bytes, internal: bool = False) -> None:
        """Unproved if the file holds anything else."""
        self.proto = parsed(model)
        self.opset = _opset(self.proto)
        self.image, self.declared = _only_input(self.proto.graph)
        self.rules = [_rule(node, internal) for node in self.proto.graph.node]
        self.operators = Counter(_title(node) for node in self.proto.graph.node)
        if not self.proto.graph.output:
            raise Unproved("the graph has no output")
        self.output = self.proto.graph.output[0].name
        _check_names(self.proto.graph)

    @cached_property
    def constants(self) -> frozenset[str]:
        """The names of all values that are the same in every run at one batch size."""
        found = {tensor.name for tensor in self.proto.graph.initializer}
        for node in self.proto.graph.node:
            fixed = all(name in found for name in node.input if name) and node.op_type not in MAY_TRAIN
            if node.op_type in SHAPES or fixed:
                found |= set(node.output)
        return frozenset(found)

    @cached_property
    def _doubles(self) -> frozenset[str]:
        """The constants of the file in double precision."""
        return frozenset(tensor.name for tensor in self.proto.graph.initializer if tensor.data_type == DOUBLE)

    def walk(self, batch: int, seen: Seen) -> dict[str, Found]:
        """What is known of every value, by name, given what was seen at this batch size.

        Unproved if a node is outside the dialect, wherever it stands: it may do more than compute its outputs (batch
        normalisation in training mode writes over its own parameters), or give its outputs a shape made of data.
        """
        found: dict[str, Found] = {self.image: Value(seen.shape(self.image), 0)}
        for name in self.constants - {""}:
            entries = seen.entries.get(name)
            double = name in self._doubles if entries is None else entries.dtype == np.float64
            found[name] = Value(seen.shape(name), entries=entries, double=bool(double))
        for proto, rule in zip(self.proto.graph.node, self.rules, strict=True):
            results = self._results(proto, rule, found, batch, seen)
            new = zip(proto.output, results, strict=True)
            found.update((name, value) for name, value in new if name and name not in self.constants)
        return found

    def _results(
        self, proto: "onnx.NodeProto", rule: Rule, found: Mapping[str, Found], batch: int, seen: Seen
    ) -> Sequence[Found]:
        """What is known of the outputs of a node."""
        broken = next((each for name in proto.input if isinstance(each := found.get(name), Unproved)), None)
        try:
            shapes = [seen.shape(name) if name else None for name in proto.output]
            operands = [_operand(found[name], seen.shape(name)) if name else None for name in proto.input]
            node = Node(shapes, batch, proto.op_type, self.opset, _attributes(proto), operands)
            check(node, rule, proto)
        except Unproved as reason:
            raise Unproved(f"{_called(proto)}: {reason}") from None
        if broken is not None:
            return [broken] * len(proto.output)
        if self.constants.issuperset(proto.output):
            return [found.get(name, Unproved("")) for name in proto.output]
        try:
            results = _apply(rule, node)
        except Unproved as reason:
            return [type(reason)(f"{_called(proto)}: {reason}")] * len(proto.output)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # nothing is concluded from nonsense
            return [Unproved(f"{_called(proto)}: it is malformed ({error})")] * len(proto.output)
        uncovered = Unproved(f"{_called(proto)}: this output of it is not covered by the proof")
        padded = [*results, *[None] * len(proto.output)][: len(proto.output)]
        return [uncovered if value is None else value for value in padded]

    def check_output(self, found: Mapping[str, Found], batch: int) -> None:
        """The first output votes: its rows must be the batch's rows, in their order."""
        value = found.get(self.output, Unproved(f"the output {self.output!r} is never computed"))
        if isinstance(value, Unproved):
            raise value
        if value.axis != 0 or value.shape[0] != batch:
            raise Unproved(f"the output {self.output!r} is [{value}], not one row for each row of the input")


def _operand(found: Found, shape: Shape) -> Value:
    """An operand as the dialect sees it: what is not proved counts as rows, wherever they lie."""
    return Value(shape, 0) if isinstance(found, Unproved) else found


def _apply(rule: Rule, node: Node) -> Sequence[Value | None]:
    """The rule's word on a node in its dialect. With one row there is nothing to mix: any node will do."""
    if all(value.axis is None for value in node.all()):
        raise Unproved("it works on constants alone")
    if any(value.double for value in node.all()):  # then no rows are: only a cast could make them so
        raise Unproved("it computes in double precision, where neighbours were seen to change the last digits of a row")
    if node.batch == 1:
        return [None if shape is None else Value(shape, 0 if shape else None) for shape in node.shapes]
    if any(0 in value.shape for value in node.all()) or any(0 in (shape or ()) for shape in node.shapes):
        raise Unproved("a tensor has no entries")
    return rule.flow(node)


def parsed(model: bytes) -> "onnx.ModelProto":
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return onnx.load_model_from_string(model)
    except DecodeError:
        raise Unproved("this is not an ONNX model, or a broken one") from None


def hopeless(model: "onnx.ModelProto") -> str | None:
    """Why a file may not count as proved, whatever the optimizer makes of it: an operator draws at random or is the
    runtime's own, or a flag outside the dialect.
    """
    for node in _all_nodes(model):
        if node.op_type in RANDOM:
            return f"{_called(node)}: it draws at random"
        if node.domain == INTERNAL:
            return f"{_called(node)}: an operator that onnxruntime keeps to itself"
        problem = odd_flag(node, DOMAINS.get(_domain(node), {}).get(node.op_type))
        if problem is not None:
            return f"{_called(node)}: {problem}"
    return None


def draws_at_random(model: "onnx.ModelProto") -> bool:
    """Whether an operator of a file draws, or would if its flag for training said so."""
    return any(
        node.op_type in RANDOM or ("Dropout" in node.op_type and any(node.input[2:])) for node in _all_nodes(model)
    )


def _domain(proto: "onnx.NodeProto") -> str:
    return "" if proto.domain == "ai.onnx" else proto.domain


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


def _opset(proto: "onnx.ModelProto") -> int:
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


def _only_input(graph: "onnx.GraphProto") -> tuple[str, tuple[int | None, ...]]:
    """Name and declared shape of the input; None stands for an axis without a fixed size."""
    if len(graph.input) != 1:
        raise Unproved(f"the graph has {len(graph.input)} inputs, not one; constants that are inputs could be replaced")
    entry = graph.input[0]
    if entry.type.tensor_type.elem_type not in NUMBERS:  # 0 if it is no tensor
        raise Unproved("the graph's input is not a tensor of numbers")
    return entry.name, tuple(size.dim_value or None for size in entry.type.tensor_type.shape.dim)


def _check_names(graph: "onnx.GraphProto") -> None:
    """Unproved unless every value has one name, and is computed before it is used."""
    import onnx

    defined = {graph.input[0].name}
    for tensor in graph.initializer:
        if tensor.data_type not in NUMBERS or tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise Unproved(f"the constant {tensor.name!r} is not made of numbers, or lies outside the file")
        _define(defined, tensor.name)
    for node in graph.node:
        missing = next((name for name in node.input if name and name not in defined), None)
        if missing is not None:
            raise Unproved(f"{_called(node)}: its operand {missing!r} is not computed before it")
        for name in node.output:
            if name:
                _define(defined, name)


def _define(defined: set[str], name: str) -> None:
    if not name or name in defined:
        raise Unproved(f"the name {name!r} is given twice, or missing")
    defined.add(name)


def _rule(proto: "onnx.NodeProto", internal: bool) -> Rule:
    """The rule for a node's operator; nodes without one end the proof, wherever they stand."""
    domain = _domain(proto)
    extra = {field.name for field, _ in proto.ListFields()} - FIELDS
    if extra:
        raise Unproved(f"{_called(proto)}: it has {', '.join(sorted(extra))}, which is not understood")
    if domain == INTERNAL and not internal:
        raise Unproved(f"{_called(proto)}: an operator that onnxruntime keeps to itself")
    rule = DOMAINS.get(domain, {}).get(proto.op_type)
    if rule is None:
        raise Unproved(f"{_called(proto)}: there is no rule for this operator")
    return rule


def _attributes(proto: "onnx.NodeProto") -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {}
    for attribute in proto.attribute:
        if attribute.name in attributes or attribute.ref_attr_name:
            raise Unproved(f"its attribute {attribute.name} is given twice, or by another name")
        attributes[attribute.name] = _attribute(attribute)
    return attributes


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
    return None


def inputs_fit(declared: Sequence[int | None], shape: Shape) -> bool:
    """Whether batches of this shape are those that the graph declares."""
    return len(declared) == len(shape) and all(
        size in (None, given) for size, given in zip(declared, shape, strict=False)
    )


def _title(proto: "onnx.NodeProto") -> str:
    return f"{proto.domain}.{proto.op_type}" if proto.domain else proto.op_type


def _called(proto: "onnx.NodeProto") -> str:
    """A node, for people: its operator and a name to find it by."""
    name = proto.name or next((output for output in proto.output if output), "")
    return f"{_title(proto)} {name!r}"
