"""How the batch axis passes through the kinds of operators there are. Shared by all front ends.

Each function takes what is known of the operands, at least one of which is made of rows, and returns what follows for
the result, or raises Unproved. Constants need no rule: an operator on constants gives a constant. There are two rows at
least: with one there is nothing to mix, so no batch axis has extent 1. No tensor is empty.

Guarantee: if the operands satisfy the invariant of `values`, so does the result. Each docstring says why.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from .values import Shape, Unproved, Value, alike, axes_of, axis_of


def elementwise(values: Sequence[Value], batch: int) -> Value:
    """An entry of the result depends on one entry of each operand, broadcast as in NumPy.

    Operands with a batch axis have it at the same place of the result; constants have extent 1 there, no such axis, or
    the same entries for every row. Then the entries of row b meet entries of row b, and what else they meet is the same
    for every b.
    """
    try:
        shape = np.broadcast_shapes(*(value.shape for value in values))
    except ValueError:
        raise Unproved("the operands' shapes do not fit together") from None
    places = {(value.axis + len(shape) - value.rank, value.outer) for value in values if value.axis is not None}
    if len(places) > 1:
        raise Unproved("broadcasting lays the batch axis of one operand along another axis of the other")
    if not places:
        return Value(shape)
    place, outer = min(places)
    for value in values:
        own = place - len(shape) + value.rank
        if value.axis is None and own >= 0 and not alike(value, own, outer, batch):
            raise Unproved("a constant differs from row to row: it has an entry for each position in the batch")
    return Value(shape, place, outer)


def same_shape(value: Value, others: Sequence[Value], batch: int) -> Value:
    """Elementwise, where the operands `others` must not make the result larger than `value`."""
    result = elementwise([value, *others], batch)
    if result.shape != value.shape:
        raise Unproved("a parameter is larger than what it applies to")
    return result


def along(value: Value, axes: Sequence[int]) -> Value:
    """Entries are combined along the given axes only, none of which is the batch axis; the shape stays."""
    if value.axis in {axis_of(axis, value.rank) for axis in axes}:
        raise Unproved("it works along the batch axis, so rows see each other")
    return replace(value, entries=None)


def reduced(value: Value, axes: Sequence[int], keep: bool) -> Value:
    """Entries are combined along the given axes, of which nothing or extent 1 remains; none is the batch axis."""
    gone = {axis_of(axis, value.rank) for axis in axes}
    if not keep:
        return dropped(value, gone)
    along(value, axes)
    return Value(tuple(1 if axis in gone else size for axis, size in enumerate(value.shape)), value.axis, value.outer)


def dropped(value: Value, gone: set[int]) -> Value:
    """The tensor without some of its axes, none of which is the batch axis."""
    if value.axis in gone:
        raise Unproved("it works along the batch axis, or takes it away, so rows see each other")
    shape = tuple(size for axis, size in enumerate(value.shape) if axis not in gone)
    axis = None if value.axis is None else value.axis - sum(one < value.axis for one in gone)
    return Value(shape, axis, value.outer)


def inserted(value: Value, axes: Sequence[int]) -> Value:
    """The tensor with new axes of extent 1, numbered in the result."""
    rank = value.rank + len(axes)
    new = axes_of(tuple(axes), rank) if axes else ()
    old = [axis for axis in range(rank) if axis not in new]
    shape = [1] * rank
    for axis, size in zip(old, value.shape, strict=True):
        shape[axis] = size
    return Value(tuple(shape), None if value.axis is None else old[value.axis], value.outer)


def transposed(value: Value, order: Sequence[int]) -> Value:
    """The axes in another order; the batch axis is followed."""
    axes = [axis_of(axis, value.rank) for axis in order]
    if sorted(axes) != list(range(value.rank)):
        raise Unproved("the order of axes is not a permutation")
    shape = tuple(value.shape[axis] for axis in axes)
    return Value(shape, None if value.axis is None else axes.index(value.axis), value.outer)


def reshaped(value: Value, target: Shape, batch: int) -> Value:
    """The same entries in C order under another shape.

    Let P be the product of all that runs slower than b: the axes before the batch axis, and `outer`. In C order an
    entry of row b is number (p · B + b) · r + s, p < P. If the axes before an axis of the new shape have product Q,
    Q divides P, and that axis has extent (P / Q) · B · c, then b lies on it in the same way, with outer = P / Q.
    """
    if value.axis is None:
        return Value(target)
    slower = prod(value.shape[: value.axis]) * value.outer
    for axis, size in enumerate(target):
        before = prod(target[:axis])
        if slower % before == 0 and size % (slower // before * batch) == 0:
            return Value(target, axis, slower // before)
    raise Unproved(f"reshaping [{value}] to {list(target)} cuts rows up or puts them together")


def expanded(value: Value, target: Shape) -> Value:
    """Copies along axes of extent 1, which the batch axis of two rows or more is not; new axes come first."""
    assert value.axis is not None
    shape = np.broadcast_shapes(value.shape, target)
    return Value(shape, value.axis + len(shape) - value.rank, value.outer)


def tiled(value: Value, repeats: Sequence[int]) -> Value:
    """The whole tensor, repeated along axes that are not the batch axis."""
    if len(repeats) != value.rank:
        raise Unproved("there must be one number of repeats for each axis")
    if value.axis is not None and repeats[value.axis] != 1:
        raise Unproved("the batch axis is repeated")
    shape = tuple(size * times for size, times in zip(value.shape, repeats, strict=False))
    return Value(shape, value.axis, value.outer)


def concatenated(values: Sequence[Value], axis: int, batch: int) -> Value:
    """Tensors one after the other along an axis that is not the batch axis.

    All have their rows on the same axis; constants among them are the same for every row along it.
    """
    axis = axis_of(axis, values[0].rank)
    if len({(*value.shape[:axis], *value.shape[axis + 1 :]) for value in values}) > 1:
        raise Unproved("the operands' shapes do not fit together")
    places = {(value.axis, value.outer) for value in values if value.axis is not None}
    if len(places) > 1:
        raise Unproved("rows are concatenated that lie on different axes, or in another order")
    place, outer = min((value.axis, value.outer) for value in values if value.axis is not None)
    if place == axis:
        raise Unproved("rows are concatenated along the batch axis")
    if not all(value.axis is not None or alike(value, place, outer, batch) for value in values):
        raise Unproved("a constant is concatenated to rows that differs from row to row")
    total = sum(value.shape[axis] for value in values)
    return Value((*values[0].shape[:axis], total, *values[0].shape[axis + 1 :]), place, outer)


def product_of_matrices(left: Value, right: Value, batch: int) -> Value:
    """[…, m, k] @ […, k, n], the first axes broadcast: sums run over k alone, which may not be the batch axis.

    Rows may lie on the first axes of both, or on m of the left or n of the right alone: then each sum belongs to one
    row. A vector on the right stands for [k, 1]; rows in a vector would be summed.
    """
    if left.rank < 2:
        raise Unproved("a vector on the left of a product of matrices")
    vector = right.rank == 1
    right = inserted(right, [1]) if vector else right
    if left.shape[-1] != right.shape[-2]:
        raise Unproved("the matrices do not fit together")
    if left.axis == left.rank - 1 or right.axis == right.rank - 2:
        raise Unproved("a product of matrices sums over the batch axis")
    first = elementwise([_outside(left), _outside(right)], batch)
    rows, columns = left.axis == left.rank - 2, right.axis == right.rank - 1
    if rows + columns + (first.axis is not None) > 1:
        raise Unproved("a product of matrices makes every row meet every row")
    axis = first.rank if rows else first.rank + 1 if columns else first.axis
    outer = left.outer if rows else right.outer if columns else first.outer
    result = Value((*first.shape, left.shape[-2], right.shape[-1]), axis, outer)
    return dropped(result, {result.rank - 1}) if vector else result


def _outside(value: Value) -> Value:
    """All but the last two axes."""
    inside = value.axis is None or value.axis >= value.rank - 2
    return Value(value.shape[:-2], None if inside else value.axis, 1 if inside else value.outer)


def summed(equation: str, values: Sequence[Value]) -> Value:
    """Products of entries, summed over the letters that do not stay (einsum).

    The batch's letter is the same in all operands with rows, stands in no constant, and stays: then each sum belongs to
    one row.
    """
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not "".join([*terms, right]).isalpha():
        raise Unproved("its equation has more than letters, commas and an arrow")
    if any(len(set(term)) != len(term) for term in [*terms, right]):
        raise Unproved("its equation repeats a letter within a term")
    sizes: dict[str, int] = {}
    for term, value in zip(terms, values, strict=True):
        if len(term) != value.rank:
            raise Unproved("its equation does not fit the operands' ranks")
        if any(sizes.setdefault(*one) != one[1] for one in zip(term, value.shape, strict=False)):
            raise Unproved("a letter of its equation stands for different extents")
    pairs = list(zip(terms, values, strict=True))
    rows = {(term[value.axis], value.outer) for term, value in pairs if value.axis is not None}
    letter, outer = rows.pop()
    fixed = "".join(term for term, value in pairs if value.axis is None)
    place = right.find(letter)
    if rows or place < 0 or letter in fixed:
        raise Unproved("it sums over the batch axis, makes every row meet every row, or says nothing of its result")
    return Value(tuple(sizes[one] for one in right), place, outer)


def only_first(value: Value, what: str) -> None:
    """Unproved unless rows lie on axis 0: for operators whose definition treats it as the batch."""
    if value.axis not in (None, 0):
        raise Unproved(f"the batch has moved to axis {value.axis}, along which {what} mixes")
