"""One node of an ONNX graph as the rules see it, and what a rule is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from .values import Unproved, Value, integers

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | Value


@dataclass(frozen=True)
class Node:
    """An operator, its attributes as they are written in the file, and what is known of its operands."""

    operator: str
    opset: int
    attributes: Mapping[str, Attribute]
    inputs: Sequence[Value | None]
    outputs: int
    batch: int | None
    """The batch size, where the graph has a fixed one."""

    def input(self, number: int) -> Value:
        """An operand that must be there."""
        value = self.optional(number)
        if value is None:
            raise Unproved(f"operand {number} is missing")
        return value

    def optional(self, number: int) -> Value | None:
        return self.inputs[number] if number < len(self.inputs) else None

    def all(self) -> list[Value]:
        """All operands that are there."""
        return [value for value in self.inputs if value is not None]

    def most_inputs(self, number: int) -> None:
        if len(self.inputs) > number:
            raise Unproved(f"it has {len(self.inputs)} operands, of which only {number} are known")

    def parameters(self, first: int) -> list[Value]:
        """The operands from number `first` on, which must not come from the batch."""
        found = [value for value in self.inputs[first:] if value is not None]
        if any(value.axis is not None for value in found):
            raise Unproved("a parameter (weights, bias, scale …) is computed from the batch")
        return found

    def integer(self, name: str, default: int) -> int:
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise Unproved(f"its attribute {name} is not an integer")
        return value

    def text(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise Unproved(f"its attribute {name} is not a string")
        return value

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of integers, or None."""
        value = self.attributes.get(name)
        if value is None:
            return None
        if not isinstance(value, tuple) or not all(isinstance(entry, int) for entry in value):
            raise Unproved(f"its attribute {name} is not a list of integers")
        return tuple(int(entry) for entry in value)

    def listed(self, name: str, number: int, since: int) -> tuple[int, ...] | None:
        """Integers that were an attribute before opset `since` and are operand `number` from then on."""
        written, given = name in self.attributes, self.optional(number) is not None
        if (written and self.opset >= since) or (given and self.opset < since):
            raise Unproved(f"{name} is given in a way that opset {self.opset} does not have")
        return integers(self.input(number), name) if given else self.numbers(name)

    def only(self, name: str, *allowed: int | str) -> None:
        """An attribute that must be absent or have one of these values; the first is the default."""
        if self.attributes.get(name, allowed[0]) not in allowed:
            raise Unproved(f"its attribute {name} is {self.attributes[name]}")

    def on(self, *values: Value) -> "Node":
        """The same node with other operands."""
        return replace(self, inputs=values)


@dataclass(frozen=True)
class Rule:
    """What an operator does with rows: from what is known of its operands to what is known of its outputs.

    Outputs that `flow` does not return, or returns as None, are not covered. An attribute outside `attributes` makes
    the node unproved.
    """

    flow: Callable[[Node], Sequence[Value | None]]
    attributes: frozenset[str] = frozenset()
    since: int = 7
    """The first opset in which the operator is as the rule assumes."""
    sizes: frozenset[int] = frozenset()
    """The operands that may hold the batch size or a row's position; what they may do there is the rule's affair."""
    most: int | None = None
    """The largest number of operands that the rule knows."""


def rule(
    flow: Callable[[Node], Sequence[Value | None]],
    attributes: str = "",
    since: int = 7,
    sizes: tuple[int, ...] = (),
    most: int | None = None,
) -> Rule:
    return Rule(flow, frozenset(attributes.split()), since, frozenset(sizes), most)
