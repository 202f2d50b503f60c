"""Nodes against ONNX's own operator schemas: what is malformed is never handed to the runtime, which may die on it."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import onnx


class Schema(NamedTuple):
    """What an operator takes and gives, at one opset."""

    operands: tuple[int, int]
    """The smallest and the largest number."""
    optional: frozenset[int]
    """The operands that may be left out by an empty name."""
    outputs: tuple[int, int]
    attributes: Mapping[str, int]
    """The type of each, as AttributeProto numbers them."""
    required: frozenset[str]


def malformed(model: "onnx.ModelProto") -> str | None:
    """The first node of a model, of its subgraphs and functions, that does not fit its schema; None if all do.

    Operators that ONNX does not define at the model's opset are left alone: runtimes have their own.
    """
    opsets = _opsets(model.opset_import)
    found = (_misfit(node, opsets) for node in _nodes(model.graph.node))
    inside = (_misfit(node, _opsets(each.opset_import)) for each in model.functions for node in _nodes(each.node))
    return next((text for text in (*found, *inside) if text is not None), None)


def misfit(node: "onnx.NodeProto", opset: int) -> str | None:
    """How a node of the default domain differs from its schema; also if it has none."""
    schema = _schema(node.op_type, opset)
    if schema is None:
        return f"opset {opset} has no such operator"
    return _difference(node, schema)


def suspicious(model: "onnx.ModelProto") -> bool:
    """Whether a model should be tried out in another process first: onnxruntime was seen to die on such ones.

    It dies when it divides the smallest integer by −1, of some equations without an arrow, and of some functions.
    """
    kinds = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    return bool(model.functions) or any(_may_kill(node, kinds) for node in model.graph.node)


#: The types of results that do not follow from the operands: int64 and bool.
RESULTS = {"Shape": 7, "Size": 7, "NonZero": 7, "ArgMax": 7, "ArgMin": 7, "Equal": 9, "Less": 9, "Greater": 9}
FLOATS = frozenset({1, 10, 11, 16})


def _may_kill(node: "onnx.NodeProto", kinds: dict[str, int]) -> bool:
    """Notes the type of the node's results by the way; a type that is not known counts as an integer."""
    given = {attribute.name: attribute for attribute in node.attribute}
    kind = RESULTS.get(node.op_type) or next((kinds[name] for name in node.input if name in kinds), 1)
    if node.op_type == "Cast":
        kind = given["to"].i if "to" in given else 0
    elif node.op_type in ("Constant", "ConstantOfShape"):
        kind = given["value"].t.data_type if "value" in given else 0
    kinds.update(dict.fromkeys(node.output, kind))
    if node.op_type == "Einsum":
        return "equation" not in given or b"->" not in given["equation"].s
    return node.op_type in ("Div", "Mod") and kind not in FLOATS


def _opsets(imports: "list[onnx.OperatorSetIdProto]") -> int | None:
    """The opset of the default domain."""
    return next((entry.version for entry in imports if entry.domain in ("", "ai.onnx")), None)


def _nodes(nodes: "list[onnx.NodeProto]") -> "Iterator[onnx.NodeProto]":
    left = list(nodes)
    while left:
        node = left.pop()
        yield node
        for attribute in node.attribute:
            left += [*attribute.g.node, *(inner for graph in attribute.graphs for inner in graph.node)]


def _misfit(node: "onnx.NodeProto", opset: int | None) -> str | None:
    if node.domain not in ("", "ai.onnx") or opset is None:
        return None
    schema = _schema(node.op_type, opset)
    problem = None if schema is None else _difference(node, schema)
    name = node.name or next((output for output in node.output if output), "")
    return None if problem is None else f"{node.op_type} {name!r}: {problem}"


def _difference(node: "onnx.NodeProto", schema: Schema) -> str | None:
    least, most = schema.operands
    if not least <= len(node.input) <= most:
        return f"it has {len(node.input)} operands; its definition takes {_between(least, most)}"
    missing = next((n for n, name in enumerate(node.input) if not name and n not in schema.optional), None)
    if missing is not None:
        return f"its operand {missing} is left out"
    if not schema.outputs[0] <= len(node.output) <= schema.outputs[1]:
        return f"it has {len(node.output)} outputs; its definition gives {_between(*schema.outputs)}"
    return _attributes(node, schema) or _parts(node)


def _between(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} or more" if most > 1 << 20 else f"{least} to {most}"


def _attributes(node: "onnx.NodeProto", schema: Schema) -> str | None:
    names = [attribute.name for attribute in node.attribute]
    if len(set(names)) != len(names):
        return "an attribute is given twice"
    for attribute in node.attribute:
        wanted = schema.attributes.get(attribute.name)
        if wanted is None:
            return f"its definition has no attribute {attribute.name!r}"
        if attribute.type != wanted and not attribute.ref_attr_name:
            return f"its attribute {attribute.name!r} is of another type than its definition's"
    lacking = sorted(schema.required - set(names))
    return f"its attribute {lacking[0]!r} is missing" if lacking else None


def _parts(node: "onnx.NodeProto") -> str | None:
    """Split, which the schemas say least of: as many outputs as parts. The runtime dies on others."""
    if node.op_type == "Split":
        for attribute in node.attribute:
            parts = {"num_outputs": attribute.i, "split": len(attribute.ints)}.get(attribute.name, len(node.output))
            if parts != len(node.output):
                return f"it has {len(node.output)} outputs for {parts} parts"
    return None


def _number(kind: object) -> int:
    """An attribute's type as AttributeProto numbers it."""
    return int(getattr(kind, "value", 0))


@cache
def _schema(operator: str, opset: int) -> Schema | None:
    from onnx import defs

    try:
        found = defs.get_schema(operator, opset, "")
    except Exception:  # SchemaError is of no public class; a version beyond 32 bits is a TypeError
        return None
    kinds = [each.option for each in found.inputs]
    optional = {number for number, kind in enumerate(kinds) if kind == defs.OpSchema.FormalParameterOption.Optional}
    return Schema(
        (found.min_input, found.max_input),
        frozenset(optional),
        (found.min_output, found.max_output),
        {name: _number(each.type) for name, each in found.attributes.items()},
        frozenset(name for name, each in found.attributes.items() if each.required),
    )
