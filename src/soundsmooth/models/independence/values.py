"""What is known of one tensor in a graph: the abstract domain of the proof.

The invariant, for a tensor that is DATA and has a batch axis: its extent there is outer · B · inner, for the batch
size B, and the entries whose index on that axis is (o · B + b) · inner + i, over all o and i and all indices on the
other axes, are the same function of input row b for every b and every B. A tensor without a batch axis is the same in
every run. Nothing else may flow into an output: not the batch size (EXTENT), not a row's number (POSITION).
"""

from dataclasses import dataclass, replace
from enum import Enum

from .extents import BATCH_SYMBOL, ONE, Extent

#: The reason why rows may not be cast from floats to integers.
UNDEFINED = "it casts to integers, and what becomes of numbers out of range may depend on the row's position"

Known = tuple[Extent | float, ...]


class Unproved(Exception):  # noqa: N818 (it is a verdict, not a malfunction)
    """The invariant could not be shown for a value; the text says why."""


class Kind(Enum):
    DATA = "data"
    EXTENT = "the batch size"
    """Integers computed from the batch size; they may only become the target of a reshaping operator."""
    POSITION = "the row's position"
    """Integers scale · b + offset, low ≤ offset ≤ high; they may only pick a row's own entries."""


@dataclass(frozen=True)
class Value:
    """One tensor: its shape, where the batch lies in it, and its entries if they are known integers or floats."""

    shape: tuple[Extent, ...]
    axis: int | None = None
    """The batch axis; None for a tensor that is the same in every run."""
    outer: Extent = ONE
    """What runs slower than b on the batch axis."""
    kind: Kind = Kind.DATA
    known: Known | None = None
    """The entries in C order."""
    offsets: tuple[int, int, int] = (0, 0, 0)
    """Of a POSITION: scale, low, high."""

    def __post_init__(self) -> None:
        sized = [axis for axis, extent in enumerate(self.shape) if extent.of_batch]
        if sized != ([] if self.axis is None else [self.axis]):
            raise Unproved(f"the batch size appears in a shape, [{self}], where no row lies")
        if self.axis is not None and (
            self.shape[self.axis].symbols.count(BATCH_SYMBOL) != 1 or self.shape[self.axis].over(self.outer) is None
        ):
            raise Unproved(f"rows do not lie whole on one axis of [{self}]")
        if self.kind is Kind.DATA and any(isinstance(entry, Extent) and entry.of_batch for entry in self.known or ()):
            object.__setattr__(self, "kind", Kind.EXTENT)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def without_entries(self) -> "Value":
        return replace(self, known=None)

    def __str__(self) -> str:
        return ", ".join(map(str, self.shape))


def constant(shape: tuple[int, ...], known: Known | None = None) -> Value:
    """A tensor that is the same in every run."""
    return Value(tuple(map(Extent, shape)), known=known)


def integers(value: Value | None, what: str) -> tuple[int, ...]:
    """The entries of a tensor that must be known integers; what an axis or a permutation has to be."""
    if value is None or value.known is None:
        raise Unproved(f"{what} is not a constant")
    found = [entry.number if isinstance(entry, Extent) else None for entry in value.known]
    if any(number is None for number in found):
        raise Unproved(f"{what} is not a constant of integers")
    return tuple(number for number in found if number is not None)


def axis_of(axis: int, rank: int) -> int:
    """A possibly negative axis, counted from the front."""
    if not -rank <= axis < rank:
        raise Unproved(f"there is no axis {axis} among {rank}")
    return axis % rank
