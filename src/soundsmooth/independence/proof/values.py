"""What is known of one tensor in a graph, at one batch size B: the abstract domain of the proof.

The invariant, for a tensor made of rows: its extent on the batch axis is outer · B · inner, and the entries whose index
there is (o · B + b) · inner + i, over all o and i and all indices on the other axes, are the same function of input
row b for every position b. A tensor without a batch axis is a constant: it is the same in every run with this batch
size. All shapes, and the entries of constants, are what the runtime was seen to compute; none is inferred here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

#: The reason why rows may not be cast from floats to integers.
UNDEFINED = "it casts to integers, and the result for numbers out of range may depend on the row's position"

Shape = tuple[int, ...]


class Unproved(Exception):  # noqa: N818 (it is a verdict, not a malfunction)
    """The invariant could not be shown for a value; the text says why."""


class Contradiction(Unproved):
    """A rule expected another shape than the runtime was seen to give: rule and runtime disagree about an operator."""


@dataclass(frozen=True)
class Value:
    """One tensor: its shape, where the rows lie in it, and, of a constant, its entries if they were looked at."""

    shape: Shape
    axis: int | None = None
    """The batch axis; None for a constant."""
    outer: int = 1
    """The number of blocks on the batch axis, each of which holds all rows."""
    entries: npt.NDArray[Any] | None = None
    double: bool = False
    """A constant in double precision."""

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return ", ".join(map(str, self.shape))


@dataclass(frozen=True)
class Results:
    """What the runtime was seen to make of one operator's operands."""

    shapes: Sequence[Shape | None]
    """Of all results; None for one without a name."""
    batch: int

    def shape(self, number: int = 0) -> Shape:
        """Of a result that has a name, as the first one always has."""
        found = self.shapes[number]
        assert found is not None
        return found

    def result(self, axis: int | None, outer: int = 1, number: int = 0) -> Value:
        """A result with the shape that was seen, and its rows on the given axis."""
        shape = self.shape(number)
        if axis is None or axis >= len(shape) or shape[axis] % (outer * self.batch):
            raise Contradiction(f"the rows do not lie on axis {axis} of {list(shape)}, as the rule expects")
        return Value(shape, axis, outer)

    def checked(self, value: Value, number: int = 0) -> Value:
        """The value, if it has the shape that was seen."""
        if value.shape != self.shape(number):
            raise Contradiction(f"its result is {list(self.shape(number))}, and not [{value}], as the rule expects")
        return value


def integers(value: Value, what: str) -> tuple[int, ...]:
    """The entries of a constant that must be a list of integers, or a single one: axes, pads, repeats."""
    if value.entries is None:
        raise Unproved(f"{what} is not known")
    if value.rank > 1:
        raise Unproved(f"{what} is not a list")
    return tuple(int(entry) for entry in value.entries.ravel())


def axis_of(axis: int, rank: int) -> int:
    """A possibly negative axis, counted from the front."""
    if not -rank <= axis < rank:
        raise Unproved(f"there is no axis {axis} among {rank}")
    return axis % rank


def axes_of(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Axes counted from the front; there must be one at least, and each but once."""
    found = tuple(axis_of(axis, rank) for axis in axes)
    if not found or len(set(found)) != len(found):
        raise Unproved("its axes are missing, or one is named twice")
    return found


def alike(value: Value, axis: int, outer: int, batch: int) -> bool:
    """Whether a constant is the same for every row, where rows lie on this axis: extent 1, or equal entries."""
    extent = value.shape[axis]
    if extent == 1:
        return True
    if value.entries is None:
        return False
    before, after = value.shape[:axis], value.shape[axis + 1 :]
    rows = value.entries.reshape(*before, outer, batch, extent // (outer * batch), *after)
    rows = np.moveaxis(rows, len(before) + 1, 0)
    first = rows[0].tobytes()
    return all(row.tobytes() == first for row in rows[1:])
