"""One node of an ONNX graph as the rules see it, and what a rule is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .values import Results, Value, axis_of, integers

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | None


@dataclass(frozen=True)
class Node(Results):
    """An operator, its attributes as they are written in the file, its operands, and the shapes of its results."""

    operator: str
    opset: int
    attributes: Mapping[str, Attribute]
    """None stands for an attribute that no rule reads: a tensor."""
    inputs: Sequence[Value | None]

    def input(self, number: int) -> Value:
        """An operand that must be there: the dialect has seen to it, and to the types of attributes."""
        value = self.inputs[number]
        assert value is not None
        return value

    def optional(self, number: int) -> Value | None:
        return self.inputs[number] if number < len(self.inputs) else None

    def all(self) -> list[Value]:
        """All operands that are there."""
        return [value for value in self.inputs if value is not None]

    def integer(self, name: str, default: int) -> int:
        value = self.attributes.get(name, default)
        assert isinstance(value, int)
        return value

    def text(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default)
        assert isinstance(value, str)
        return value

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of integers, or None."""
        value = self.attributes.get(name)
        assert value is None or isinstance(value, tuple)
        return None if value is None else tuple(int(entry) for entry in value)

    def listed(self, name: str, number: int, since: int) -> tuple[int, ...] | None:
        """Integers that were an attribute before opset `since` and are operand `number` from then on."""
        if self.opset < since:
            return self.numbers(name)
        value = self.optional(number)
        return None if value is None else integers(value, name)

    def axis(self, default: int) -> int:
        """The attribute `axis`, counted from the front of the first operand."""
        return axis_of(self.integer("axis", default), self.input(0).rank)


@dataclass(frozen=True)
class Form:
    """The values of an attribute for which the rules are the definition."""

    text: str
    fits: Callable[[Attribute, Node], bool]


@dataclass(frozen=True)
class Rule:
    """What an operator does with rows: from what is known of its operands to what is known of its outputs.

    A node outside the dialect (other attributes or operands than these) is unproved. Outputs that `flow` does not
    return, or returns as None, are not covered.
    """

    flow: Callable[[Node], Sequence[Value | None]]
    attributes: Mapping[str, Form] = field(default_factory=dict)
    constants: range = range(0)
    """The operands that must be constants: parameters, and what decides the shape of the result."""
    outputs: int | None = None
    """The largest number of outputs, where more would make it another operator."""
    operands: tuple[int, int] | None = None
    """The smallest and the largest number of operands of an operator that is the runtime's own; else as its schema
    says."""
