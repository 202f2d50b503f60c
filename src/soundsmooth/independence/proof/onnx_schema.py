"""An ONNX file against the definitions of its operators, before any runtime reads it.

A runtime takes some malformed nodes on trust, and ends the whole process by a signal: a Split with more outputs than it
says, a Max with an operand that is not there. What the definitions rule out is found here, in one pass over the nodes.
"""

from collections import ChainMap, Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

#: Two names of one set of operators, the only one whose definitions are looked up.
DEFAULT = ("", "ai.onnx")
#: From here on a Split says how many outputs it has, or how long they are.
SAYS_HOW_MANY = 18
#: No file of this version or later has attributes without a type.
LAST_IR = 10
#: By name, how long the lists are that are known beforehand; those of a subgraph before those around it.
Lengths = ChainMap[str, int]


def malformed(proto: "onnx.ModelProto") -> str | None:
    """What is malformed, in one line that names the node; None if nothing is.

    Guarantee: if it returns None, then every node of the default operators, in the graph, its subgraphs and its local
    functions, has as many operands, outputs and attributes as the definition of its operator in the file's own opset
    allows. No operand or output is left out that the definition does not call optional. Each attribute is known, of its
    type and there once. A Split has as many outputs as it says. Operators without a definition in that opset are not
    judged: runtimes have their own.
    """
    own = {(function.domain, function.name) for function in proto.functions}
    parts = [(proto.graph.node, proto.opset_import, ChainMap(_lists(proto.graph)))]
    parts += [(function.node, function.opset_import, ChainMap()) for function in proto.functions]
    for nodes, imports, lengths in parts:
        versions = {each.version for each in imports if each.domain in DEFAULT}
        if len(versions) > 1:
            return f"the default operators are imported in {len(versions)} versions at once"
        for opset in versions:
            found = next(_wrong(nodes, opset, own, lengths, proto.ir_version), None)
            if found is not None:
                return found
    return None


def misfit(node: "onnx.NodeProto", opset: int) -> str | None:
    """How a node of the default operators differs from its definition in an opset; also if it has none there."""
    wanted = _definition(node.op_type, opset)
    return f"opset {opset} has no such operator" if wanted is None else _fault(node, wanted, LAST_IR)


def suspicious(model: "onnx.ModelProto") -> bool:
    """Whether a model should be tried out in another process first: onnxruntime was seen to die on such ones.

    It dies when it divides the smallest integer by −1, of some equations, of some functions, and of a layer
    normalisation whose bias is left out by an empty name.
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
    if node.op_type == "Einsum" or (node.op_type == "LayerNormalization" and "" in node.input):
        return True
    return node.op_type in ("Div", "Mod") and kind not in FLOATS


def _wrong(
    nodes: "Sequence[onnx.NodeProto]", opset: int, own: set[tuple[str, str]], around: Lengths, ir: int
) -> Iterator[str]:
    """What is wrong with the nodes and those inside them."""
    lengths = around.new_child(_constants(nodes))
    for number, node in enumerate(nodes):
        if node.domain in DEFAULT and (node.domain, node.op_type) not in own:
            wanted = _definition(node.op_type, opset)
            fault = None if wanted is None else _fault(node, wanted, ir) or _split(node, opset, lengths)
            if fault is not None:
                yield f"node {number} ({node.op_type}, {node.name!r:.80}): {fault}"
        for attribute in node.attribute:
            for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _wrong(graph.node, opset, own, lengths.new_child(_lists(graph)), ir)


@lru_cache(maxsize=4096)
def _definition(operator: str, opset: int) -> "onnx.defs.OpSchema | None":
    """The operator's definition in an opset; None if there is none, or only a later one."""
    from onnx import defs

    try:
        if opset > defs.onnx_opset_version():  # where it may have another one that is not known here
            return None
        schema = defs.get_schema(operator, max_inclusive_version=opset, domain="")
    except Exception:  # of its own kind where there is no definition, and of others for odd names and numbers
        return None
    return None if schema.deprecated else schema


def _fault(node: "onnx.NodeProto", wanted: "onnx.defs.OpSchema", ir: int) -> str | None:
    """Where a node is not as its operator is defined."""
    operands = _names("operand", node.input, wanted.min_input, wanted.max_input, wanted.inputs)
    outputs = _names("output", node.output, wanted.min_output, wanted.max_output, wanted.outputs)
    return operands or outputs or _attributes(node, wanted, ir)


def _names(
    word: str, names: Sequence[str], least: int, most: int, formal: "Sequence[onnx.defs.OpSchema.FormalParameter]"
) -> str | None:
    """What is wrong with operands or outputs; the last formal one stands for all that follow."""
    from onnx.defs import OpSchema

    if len(names) < least:
        return f"it has {len(names)} {word}s, but must have {least} at least"
    if len(names) > most:
        return f"it has {len(names)} {word}s, but must have {most} at most"
    for place, name in enumerate(names):
        if not name and formal[min(place, len(formal) - 1)].option != OpSchema.FormalParameterOption.Optional:
            return f"{word} {place} is left out, which is not optional"
    return None


def _attributes(node: "onnx.NodeProto", definition: "onnx.defs.OpSchema", ir: int) -> str | None:
    names = Counter(attribute.name for attribute in node.attribute)
    formal: Any = definition.attributes
    for attribute in node.attribute:
        wanted = int(formal[attribute.name].type) if attribute.name in formal else None
        if names[attribute.name] > 1:
            return f"the attribute {attribute.name!r:.80} is there {names[attribute.name]} times"
        if wanted is None and not attribute.name.startswith("__"):  # notes of tools to themselves
            return f"the attribute {attribute.name!r:.80} is not known"
        unsaid = not attribute.type and (ir < 2 or attribute.ref_attr_name)  # the first files had no types
        if wanted is not None and attribute.type != wanted and not unsaid:
            return f"the attribute {attribute.name!r} is of type {_type(attribute.type)}, not {_type(wanted)}"
    missing = [name for name, each in formal.items() if each.required and name not in names]
    return f"the attribute {missing[0]!r} is missing" if missing else None


def _type(number: int) -> str:
    from onnx import AttributeProto

    return next((name for name, value in AttributeProto.AttributeType.items() if value == number), str(number))


def _split(node: "onnx.NodeProto", opset: int, lengths: Lengths) -> str | None:
    """A Split must have as many outputs as it says, where that is known beforehand."""
    if node.op_type != "Split":
        return None
    held = {attribute.name: attribute for attribute in node.attribute}
    sizes = node.input[1] if len(node.input) > 1 else ""
    said = [held["num_outputs"].i] if "num_outputs" in held and not held["num_outputs"].ref_attr_name else []
    said += [len(held["split"].ints)] if "split" in held and not held["split"].ref_attr_name else []
    said += [lengths[sizes]] if sizes in lengths else []
    for count in said:
        if count != len(node.output):
            return f"it has {len(node.output)} outputs, but says that it has {count}"
    if opset >= SAYS_HOW_MANY and not sizes and "num_outputs" not in held:
        return "it says neither how many outputs it has nor how long they are"
    return None


def _lists(graph: "onnx.GraphProto") -> dict[str, int]:
    """Of a graph's constants that are lists, the lengths. (One that is also an input may be given anew.)"""
    given = {each.name for each in graph.input}
    return {each.name: each.dims[0] for each in graph.initializer if len(each.dims) == 1 and each.name not in given}


def _constants(nodes: "Sequence[onnx.NodeProto]") -> dict[str, int]:
    """The same, of nodes that are constants."""
    found = {}
    for node in nodes:
        if node.op_type == "Constant" and node.output:
            for attribute in node.attribute:
                if attribute.name == "value_ints":
                    found[node.output[0]] = len(attribute.ints)
                elif attribute.name == "value" and len(attribute.t.dims) == 1:
                    found[node.output[0]] = attribute.t.dims[0]
    return found
