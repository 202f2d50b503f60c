"""One call in an exported torch graph as the rules see it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .values import Results, Unproved, Value


@dataclass(frozen=True)
class Call(Results):
    """An ATen operator, its arguments by name, and the shapes of its results."""

    operator: str
    arguments: Mapping[str, Any]
    """Tensors as Values, everything else as it is written in the graph, or was seen."""

    def tensor(self, name: str) -> Value:
        value: Value = self.arguments[name]
        return value

    def tensors(self) -> list[Value]:
        """All tensors among the arguments, those in lists too."""
        return _tensors(list(self.arguments.values()))

    def parameters(self, *names: str) -> None:
        """Unproved unless these arguments are absent, or tensors that do not come from the batch."""
        if any(isinstance(value := self.arguments[name], Value) and value.axis is not None for name in names):
            raise Unproved("a parameter (weights, bias, scale …) is computed from the batch")

    def integer(self, name: str) -> int:
        value: int = self.arguments[name]
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of integers, or one of them."""
        value = self.arguments[name]
        return tuple(value) if isinstance(value, Sequence) else (value,)

    def axes(self, name: str) -> tuple[int, ...]:
        """The axes that are named; none means all of them, which is never what rows survive."""
        if self.arguments[name] in (None, [], ()):
            raise Unproved("it works along all axes, so rows see each other")
        return self.integers(name)


def _tensors(value: Any) -> list[Value]:
    if isinstance(value, list | tuple):
        return [tensor for entry in value for tensor in _tensors(entry)]
    return [value] if isinstance(value, Value) else []
