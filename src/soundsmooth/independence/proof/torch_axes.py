"""Tensors that are others seen otherwise: axes split, exchanged and merged again, without a copy on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from .values import axis_of


class NotFollowedError(Exception):
    """What became of the axes is not understood."""


@dataclass(frozen=True, eq=False)
class AxisPart:
    """A part of an axis that stays together. Each is equal to itself alone."""

    extent: int


def _extent(parts: Sequence[AxisPart]) -> int:
    return prod(part.extent for part in parts)


@dataclass(frozen=True)
class View:
    """Entries of a tensor: `axes` says of which parts of the source's axes each axis is made, the outer one first."""

    source: Any
    shape: tuple[int, ...]
    """The source's."""
    parts: tuple[AxisPart, ...]
    """The source's axes cut into parts, in their order. Axes of extent 1 have none."""
    axes: tuple[tuple[AxisPart, ...], ...]
    picked: Mapping[AxisPart, int] = field(default_factory=dict)
    """Parts of which one place was selected."""

    @classmethod
    def of(cls, source: Any, shape: Sequence[int]) -> "View":
        """A tensor as it is."""
        axes = tuple(() if extent == 1 else (AxisPart(extent),) for extent in shape)
        return cls(source, tuple(shape), tuple(part for axis in axes for part in axis), axes)

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(map(_extent, self.axes))

    @property
    def flat(self) -> tuple[AxisPart, ...]:
        """The parts in the order in which they are seen."""
        return tuple(part for axis in self.axes for part in axis)

    @property
    def left(self) -> tuple[AxisPart, ...]:
        """The parts of which nothing was selected, in the source's order."""
        return tuple(part for part in self.parts if part not in self.picked)

    @property
    def plain(self) -> bool:
        """Whether the source is seen as it is."""
        return not self.picked and self.flat == self.parts and self.extents == self.shape

    @property
    def ends_alike(self) -> bool:
        """Whether neighbours along the last axis are neighbours in the source."""
        return self.flat[-1:] == self.parts[-1:]

    def permuted(self, order: Sequence[int]) -> "View":
        return replace(self, axes=tuple(self.axes[axis_of(axis, len(self.axes))] for axis in order))

    def exchanged(self, one: int, other: int) -> "View":
        order = list(range(len(self.axes)))
        order[one], order[other] = order[other], order[one]
        return self.permuted(order)

    def inserted(self, axis: int) -> "View":
        at = axis_of(axis, len(self.axes) + 1)
        return replace(self, axes=(*self.axes[:at], (), *self.axes[at:]))

    def dropped(self, axis: int) -> "View":
        """Without an axis of extent 1; with it if it has another."""
        at = axis_of(axis, len(self.axes))
        return self if self.axes[at] else replace(self, axes=(*self.axes[:at], *self.axes[at + 1 :]))

    def selected(self, axis: int, index: int) -> "View":
        at = axis_of(axis, len(self.axes))
        if len(self.axes[at]) != 1 or type(index) is not int:
            raise NotFollowedError("one place is selected of an axis that is none, or several in one")
        part = self.axes[at][0]
        place = index if index >= 0 else index + part.extent
        return replace(self, axes=(*self.axes[:at], *self.axes[at + 1 :]), picked={**self.picked, part: place})

    def reshaped(self, shape: Sequence[int]) -> "View":
        """The same entries in the same order, in other axes."""
        view, rest, axes = self, list(self.flat), list[tuple[AxisPart, ...]]()
        for extent in shape:
            axis: list[AxisPart] = []
            while _extent(axis) < extent:
                if not rest:
                    raise NotFollowedError("there are more entries than before")
                missing, first = extent // _extent(axis), rest.pop(0)
                if extent % _extent(axis) or (missing % first.extent and first.extent % missing):
                    raise NotFollowedError("axes are cut where they have no parts")
                if first.extent > missing:
                    outer, inner = AxisPart(missing), AxisPart(first.extent // missing)
                    view, first, rest = view._cut(first, (outer, inner)), outer, [inner, *rest]
                axis.append(first)
            axes.append(tuple(axis))
        if rest:
            raise NotFollowedError("there are fewer entries than before")
        return replace(view, axes=tuple(axes))

    def _cut(self, part: AxisPart, pieces: tuple[AxisPart, ...]) -> "View":
        return replace(self, parts=tuple(p for each in self.parts for p in (pieces if each is part else (each,))))
