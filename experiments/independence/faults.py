"""Rows where an operator does not expect them: on another axis, folded with another axis, in a parameter, or in what
decides a shape."""

from typing import TYPE_CHECKING

import numpy as np
from known import Call, Known, Refused

if TYPE_CHECKING:
    from growth import Growth

FLOATS = ("tensor(float)", "tensor(double)")


def moved(g: "Growth") -> Known:
    """A value with its rows on another axis than the first; or folded with an axis before or behind it."""
    known = g.pick(FLOATS, lambda one: one.rank >= 2 and one.rows == 0)
    way = g.draw.choice(["transposed", "transposed", "folded", "joined", "behind"])
    if way == "joined":  # [B, n, …] → [B · n, …]
        return _reshaped(g, known, [known.shape[0] * known.shape[1], *known.shape[2:]])
    if way == "behind":  # new axes in front
        return _reshaped(g, known, [*[1] * g.draw.choice([1, 1, 2]), *known.shape])
    order = list(range(1, known.rank))
    place = g.draw.randrange(1, known.rank)
    found = g.add("", "Transpose", [known], {"perm": [*order[:place], 0, *order[place:]]})[0]
    if way == "transposed":
        return found
    shape = found.shape  # [n, B, …] → [n · B, …]
    return _reshaped(g, found, [*shape[: place - 1], shape[place - 1] * shape[place], *shape[place + 1 :]])


def _reshaped(g: "Growth", known: Known, shape: list[int]) -> Known:
    """Under another shape; axes are put behind where operators want more."""
    shape = [*shape, *[g.draw.choice([1]) for _ in range(g.draw.choice([0, 0, 1, 2]))]]
    return g.add("", "Reshape", [known, g.constant(np.array(shape))])[0]


def with_rows(g: "Growth", call: Call) -> Call:
    """The call with one of its constants made of rows instead."""
    places = [place for place, one in enumerate(call.operands) if one is not None and one.rows is None]
    if not places:
        raise Refused("it has no parameters")
    operands = list(call.operands)
    place = g.draw.choice(places)
    old = operands[place]
    assert old is not None
    operands[place] = of_rows(g, old)
    return Call(operands, call.attributes, call.outputs)


def with_data(g: "Growth", call: Call) -> Call:
    """The call with one of its integers, which may decide a shape, made to hang on the rows' entries."""
    places = [place for place, one in enumerate(call.operands) if one is not None and one.type == "tensor(int64)"]
    if not places:
        raise Refused("it has no integers")
    operands = list(call.operands)
    place = g.draw.choice(places)
    old = operands[place]
    assert old is not None
    x = next(known for known in g.pool if known.name == "x")
    limit = g.constant(np.array(g.draw.choice([2, 4, 4, 4, 4]), x.value.dtype))
    more = g.add("", "Greater", [g.add("", "ReduceMax", [x], {"keepdims": 0})[0], limit])[0]
    change = g.add("", "Cast", [more], {"to": 7})[0]
    sizes = np.zeros(old.shape, np.int64)
    steps = g.draw.choice([[1], [1], [-1], [1, -1], [1, -1], [2, -2]])[: sizes.size]
    for at, step in zip(g.draw.sample(range(sizes.size), len(steps)), steps, strict=True):
        sizes.flat[at] = step
    shift = g.add("", "Mul", [change, g.constant(sizes)])[0]
    operands[place] = g.add("", "Add", [old, shift])[0]
    return Call(operands, call.attributes, call.outputs)


def extents(g: "Growth", known: Known) -> Known:
    """An extent of a value that hangs on data, or its rank, as a number that rows can meet."""
    shape = g.add("", "Shape", [known])[0]
    if len(shape.value) != len(shape.moved):
        shape = g.add("", "Shape", [shape])[0]
    places = [place for place, pair in enumerate(zip(shape.value, shape.moved, strict=True)) if pair[0] != pair[1]]
    if not places:
        raise Refused("its shape stays")
    one = g.add("", "Gather", [shape, g.constant(np.array(g.draw.choice(places)))], {"axis": 0})[0]
    return g.add("", "Cast", [one], {"to": g.elem_type})[0]


def of_rows(g: "Growth", like: Known) -> Known:
    """A value like another one, but made of rows: on an axis that has the batch's size, if there is one."""
    known = _one_each(g, like)
    axes = [axis for axis, size in enumerate(like.shape) if size == g.batch]
    if not axes:
        there = [one for one in g.pool if one.type == like.type and one.rows is not None]
        if there:
            return g.draw.choice(there)
        raise Refused("no axis for the rows")
    axis = g.draw.choice(axes)
    sizes = [g.batch if place == axis else 1 for place in range(like.rank)]
    lined = g.add("", "Reshape", [known, g.constant(np.array(sizes))])[0]
    return lined if lined.shape == like.shape else g.add("", "Expand", [lined, g.constant(np.array(like.shape))])[0]


def _one_each(g: "Growth", like: Known) -> Known:
    """One number for each row, of the type of some value."""
    x = next(known for known in g.pool if known.name == "x")
    flat = g.add("", "Flatten", [x], {"axis": 1})[0]
    if like.type == "tensor(int64)":
        if flat.shape[1] > 2 and g.draw.random() < 0.7:  # 0 and 1 are places on most axes
            flat = g.add("", "Gather", [flat, g.constant(np.array([0, 1]))], {"axis": 1})[0]
        return g.add("", "ArgMax", [flat], {"axis": 1, "keepdims": 0})[0]
    first = g.add("", "Gather", [flat, g.constant(np.array(0))], {"axis": 1})[0]
    if like.type == "tensor(bool)":
        return g.add("", "Greater", [first, g.constant(np.array(0, first.value.dtype))])[0]
    if like.type != first.type:
        raise Refused("no rows of this type")
    return first
