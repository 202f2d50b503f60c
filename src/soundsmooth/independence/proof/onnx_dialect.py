"""The dialect: which nodes the rules speak of. Everything else is not proved.

A runtime does something with every node that it does not refuse, also with those that no exporter writes: a flag of 2,
an axis named twice, a list of another length. The rules say what an operator does with rows for the values listed here,
where ONNX defines it and onnxruntime was seen to agree; they say nothing of the rest.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, cast

from .onnx_node import Attribute, Form, Node, Rule
from .onnx_schema import misfit
from .values import Unproved

if TYPE_CHECKING:
    import onnx

#: TensorProto's number types: float, the integers, bool, float16, double, bfloat16.
NUMBERS = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16})
DOUBLE = 11
#: Window sizes, pads and the like are below this.
MOST = 1 << 20


def check(node: Node, rule: Rule, proto: "onnx.NodeProto") -> None:
    """Unproved unless the node is in the dialect of its rule."""
    problem = misfit(proto, node.opset) if rule.operands is None else _miscounted(node, *rule.operands)
    if problem is not None:
        raise Unproved(problem)
    if rule.outputs is not None and len(node.shapes) > rule.outputs:
        raise Unproved(f"it has {len(node.shapes)} outputs; the rule is for {rule.outputs}")
    operands = enumerate(node.inputs)
    if any(number in rule.constants and value is not None and value.axis is not None for number, value in operands):
        raise Unproved("a parameter (weights, bias, axes, sizes …) is computed from the batch")
    for name, value in node.attributes.items():
        form = rule.attributes.get(name)
        if form is None:
            raise Unproved(f"its attribute {name} is not understood")
        if not form.fits(value, node):
            raise Unproved(f"its attribute {name} is {_shown(value)}; the rule is for {form.text}")


def _miscounted(node: Node, least: int, most: int) -> str | None:
    """Of an operator without a schema: the number of operands; the first `least` are there, and the first output."""
    there = [value is not None for value in node.inputs]
    if not least <= len(there) <= most or not all(there[:least]):
        return f"it has {sum(there)} operands; the rule is for {least} to {most}"
    if all(shape is None for shape in node.shapes[:1]):
        return "its first output has no name"
    return None


def odd_flag(proto: "onnx.NodeProto", rule: Rule | None) -> str | None:
    """A flag that is neither 0 nor 1, of a node that the optimizer may fold before anybody looks at it."""
    forms = {} if rule is None else rule.attributes
    for attribute in proto.attribute:
        flag = any(forms.get(attribute.name) is form for form in (FLAG, OFF, ONE))
        if flag and attribute.i not in (0, 1):
            return f"its attribute {attribute.name} is {attribute.i}; the rule is for 0 or 1"
    return None


def _shown(value: Attribute) -> str:
    return "a tensor" if value is None else str(list(value) if isinstance(value, tuple) else value)[:60]


# Forms of attributes. Of operators with a schema the type is known; of the runtime's own the forms ask for it. -------


def _integers(text: str, length: Callable[[Node], int], least: int) -> Form:
    """A list with as many integers as the rank asks for."""

    def fits(value: Attribute, node: Node) -> bool:
        whole = isinstance(value, tuple) and all(isinstance(entry, int) and least <= entry < MOST for entry in value)
        return whole and len(value) == length(node)  # type: ignore[arg-type]

    return Form(text, fits)


def _integer(text: str, *allowed: int) -> Form:
    return Form(text, lambda value, _: isinstance(value, int) and value in allowed)


def _word(*allowed: str) -> Form:
    return Form(" or ".join(word or "(empty)" for word in allowed), lambda value, _: value in allowed)


def anything(value: Attribute, node: Node) -> bool:
    """All values of its type."""
    return True


def _rank(node: Node) -> int:
    return node.input(0).rank


def _is_axis(value: Attribute, node: Node) -> bool:
    return isinstance(value, int) and -_rank(node) <= value < _rank(node)


def _axes(text: str, rank: Callable[[Node, Sequence[int]], int]) -> Form:
    """Axes of something with this rank: one at least, and each but once."""

    def fits(value: Attribute, node: Node) -> bool:
        axes = cast(tuple[int, ...], value)
        most = rank(node, axes)
        return all(-most <= axis < most for axis in axes) and 0 < len({axis % most for axis in axes}) == len(axes)

    return Form(text, fits)


def _is_order(value: Attribute, node: Node) -> bool:
    return sorted(cast(tuple[int, ...], value)) == list(range(_rank(node)))


FLAG = _integer("0 or 1", 0, 1)
OFF = _integer("0", 0)
ONE = _integer("1", 1)
NUMBER = Form("a finite number", lambda value, _: isinstance(value, float) and isfinite(value))
NUMBERS_LISTED = Form(
    "finite numbers",
    lambda value, _: isinstance(value, tuple) and all(isinstance(one, float) and isfinite(one) for one in value),
)
COUNT = Form(f"1 to {MOST - 1}", lambda value, _: isinstance(value, int) and 1 <= value < MOST)
TYPE = Form("a type of numbers, not double", lambda value, _: value in NUMBERS - {DOUBLE})
INTEGER = Form("an integer", anything)
TENSOR = Form("a tensor, or numbers", anything)
TEXT = Form("a string", anything)
LISTED = Form("integers", anything)
AXIS = Form("an axis of the first operand", _is_axis)
CUT = Form(
    "an axis of the first operand, or its rank", lambda value, node: _is_axis(value, node) or value == _rank(node)
)
AXES = _axes("axes of the first operand, each once", lambda node, _: _rank(node))
NEW_AXES = _axes("axes of the result, each once", lambda node, axes: _rank(node) + len(axes))
SIZES = _integers("a positive integer for each axis from 2 on", lambda node: _rank(node) - 2, 1)
PADS = _integers("two integers ≥ 0 for each axis from 2 on", lambda node: 2 * (_rank(node) - 2), 0)
ALL_PADS = _integers("two integers for each axis", lambda node: 2 * _rank(node), 1 - MOST)
PERMUTATION = Form("a permutation of the axes", _is_order)
PARTS = _integers("a length for each output", lambda node: len(node.shapes), 1)
PADDING = _word("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
EDGES = _word("constant", "reflect", "edge")
GELU = _word("none", "tanh")
ACTIVATION = _word("", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid", "HardSwish", "Elu", "Gelu")
