"""The values of a growing graph."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


class Refused(Exception):  # noqa: N818 (it is an answer, not a malfunction)
    """The runtime does not run a node."""


@dataclass
class Known:
    """A value of the growing graph, for two inputs of which one row differs."""

    name: str
    value: np.ndarray
    moved: np.ndarray
    constant: bool = False
    depth: int = 0
    rows: int | None = None
    """The axis on which the rows really lie; None for constants, −1 where rows are mixed or folded."""
    folded: int | None = None
    """The axis on which the rows lie together with something else."""

    @property
    def lies(self) -> int | None:
        """The axis of the rows, alone or folded."""
        return self.folded if self.rows is None or self.rows < 0 else self.rows

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def rank(self) -> int:
        return self.value.ndim

    @property
    def type(self) -> str:
        return type_of(self.value)


def type_of(value: np.ndarray) -> str:
    """As the schemas write it."""
    names = {"float32": "float", "float64": "double"}
    return f"tensor({names.get(value.dtype.name, value.dtype.name)})"


@dataclass
class Call:
    """One use of an operator."""

    operands: Sequence[Known | None]
    attributes: dict[str, object] = field(default_factory=dict)
    outputs: int = 1
