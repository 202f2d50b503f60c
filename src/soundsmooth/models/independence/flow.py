"""How the batch axis passes through the kinds of operators there are. Shared by all front ends.

Each function takes what is known of the operands and returns what is known of the result, or raises Unproved.

Guarantee: if the operands satisfy the invariant of `values`, so does the result. Each docstring says why.
"""

from collections.abc import Sequence
from dataclasses import replace

from .extents import BATCH, BATCH_SYMBOL, ONE, Extent, product, unknown
from .values import Kind, Unproved, Value, axis_of


def elementwise(values: Sequence[Value]) -> Value:
    """An entry of the result depends on one entry of each operand, broadcast as in NumPy.

    Operands with a batch axis must have it at the same place of the result; operands without one must have extent 1
    there, or no such axis: then the entries of row b meet entries of row b, and what else they meet is the same for
    every b.
    """
    rank = max(value.rank for value in values)
    places = {(value.axis + rank - value.rank, value.outer) for value in values if value.axis is not None}
    if len(places) > 1:
        raise Unproved("broadcasting lays the batch axis of one operand along another axis of the other")
    place, outer = places.pop() if places else (None, ONE)
    shape = []
    for position in range(rank):
        sizes = [value.shape[position - rank + value.rank] for value in values if position - rank + value.rank >= 0]
        if position == place:
            shape.append(_rows(sizes))
        else:
            shape.append(_joined(sizes))
    return Value(tuple(shape), place, outer)


def _rows(sizes: list[Extent]) -> Extent:
    """The extent of the batch axis: the same in all operands that have one, 1 in the others."""
    batches = {size for size in sizes if size.of_batch}
    others = [size for size in sizes if not size.of_batch and size != ONE]
    if others:
        raise Unproved(f"an operand that is not made of rows has extent {others[0]}, not 1, along the batch axis")
    if len(batches) != 1:
        raise Unproved("the batch axes of the operands have different extents")
    return batches.pop()


def _joined(sizes: list[Extent]) -> Extent:
    """The extent of an axis where operands are broadcast against each other, and no rows lie."""
    longer = {size for size in sizes if size != ONE}
    if any(size.of_batch for size in longer):
        raise Unproved("the batch axis is broadcast")
    if len(longer) > 1:
        if all(size.number is not None for size in longer):
            raise Unproved("the operands' shapes do not fit together")
        return unknown()
    return longer.pop() if longer else ONE


def same_shape(value: Value, others: Sequence[Value]) -> Value:
    """Elementwise, where the operands `others` must not make the result larger than `value`."""
    result = elementwise([value, *others])
    if result.shape != value.shape or result.axis != value.axis:
        raise Unproved("a parameter is larger than what it applies to")
    return result


def along(value: Value, axes: Sequence[int]) -> Value:
    """Entries are combined along the given axes only, none of which is the batch axis; the shape stays."""
    if value.axis is not None and value.axis in {axis_of(axis, value.rank) for axis in axes}:
        raise Unproved("it works along the batch axis, so rows see each other")
    return value.without_entries()


def reduced(value: Value, axes: Sequence[int], keep: bool) -> Value:
    """Entries are combined along the given axes, of which nothing or extent 1 remains; none is the batch axis."""
    along(value, axes)
    gone = {axis_of(axis, value.rank) for axis in axes}
    if keep:
        return replace(
            value.without_entries(),
            shape=tuple(ONE if axis in gone else size for axis, size in enumerate(value.shape)),
        )
    return dropped(value.without_entries(), gone)


def dropped(value: Value, gone: set[int]) -> Value:
    """The tensor without some of its axes, none of which is the batch axis."""
    shape = tuple(size for axis, size in enumerate(value.shape) if axis not in gone)
    if value.axis is None:
        return replace(value, shape=shape)
    if value.axis in gone:
        raise Unproved("the batch axis is taken away")
    return replace(value, shape=shape, axis=value.axis - sum(axis < value.axis for axis in gone))


def inserted(value: Value, axes: Sequence[int]) -> Value:
    """The tensor with new axes of extent 1, numbered in the result."""
    rank = value.rank + len(axes)
    new = {axis_of(axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise Unproved("an axis is inserted twice")
    old = [axis for axis in range(rank) if axis not in new]
    shape = [ONE] * rank
    for axis, size in zip(old, value.shape, strict=True):
        shape[axis] = size
    return replace(value, shape=tuple(shape), axis=None if value.axis is None else old[value.axis])


def squeezed(value: Value, axes: Sequence[int]) -> Value:
    """The tensor without some axes of extent 1."""
    gone = {axis_of(axis, value.rank) for axis in axes}
    if any(value.shape[axis] != ONE for axis in gone):
        raise Unproved("an axis is squeezed whose extent is not known to be 1")
    return dropped(value, gone)


def transposed(value: Value, order: Sequence[int]) -> Value:
    """The axes in another order; the batch axis is followed."""
    axes = [axis_of(axis, value.rank) for axis in order]
    if sorted(axes) != list(range(value.rank)):
        raise Unproved("the order of axes is not a permutation")
    shape = tuple(value.shape[axis] for axis in axes)
    return replace(value.without_entries(), shape=shape, axis=None if value.axis is None else axes.index(value.axis))


def resized(value: Value, axis: int, extent: Extent) -> Value:
    """Another extent on one axis, which is not the batch axis: a slice, a padding, a window sliding along it."""
    axis = axis_of(axis, value.rank)
    along(value, [axis])
    return replace(value.without_entries(), shape=(*value.shape[:axis], extent, *value.shape[axis + 1 :]))


def reshaped(value: Value, target: Sequence[Extent], batch: int | None) -> Value:
    """The same entries in C order under another shape; `batch` is the batch size if the graph has a fixed one.

    Let P be the product of all that runs slower than b: the axes before the batch axis, and `outer`. In C order an
    entry of row b is number (p · B + b) · r + s, p < P. If the axes before an axis of the new shape have product Q,
    Q divides P, and that axis has extent (P / Q) · B · c, then b lies on it in the same way, with outer = P / Q.
    """
    target = [counted(size, batch) for size in target]
    if product(target) != counted(product(value.shape), batch):
        raise Unproved(f"[{value}] cannot be shown to have as many entries as [{', '.join(map(str, target))}]")
    if value.axis is None:
        return replace(value, shape=tuple(target))
    slower = product([*value.shape[: value.axis], value.outer])
    for axis, size in enumerate(target):
        outer = slower.over(product(target[:axis]))
        whole = size if size.of_batch or batch is None else _in_rows(size, outer, batch)
        if outer is not None and whole.of_batch and whole.over(outer) is not None:
            shape = (*target[:axis], whole, *target[axis + 1 :])
            return replace(value, shape=shape, axis=axis, outer=outer)
    raise Unproved(f"reshaping [{value}] to [{', '.join(map(str, target))}] cuts rows up or puts them together")


def _in_rows(size: Extent, outer: Extent | None, batch: int) -> Extent:
    """A number of entries on an axis, written as a multiple of the fixed batch size if it is one."""
    rest = None if outer is None else size.over(outer.times(Extent(batch)))
    if rest is None or outer is None:
        return size
    return rest.times(outer).times(BATCH)


def counted(extent: Extent, batch: int | None) -> Extent:
    """An extent with the batch size put in, if it is fixed."""
    if batch is None:
        return extent
    symbols = tuple(symbol for symbol in extent.symbols if symbol != BATCH_SYMBOL)
    return Extent(extent.count * batch ** (len(extent.symbols) - len(symbols)), symbols)


def expanded(value: Value, target: Sequence[Extent], batch: int | None) -> Value:
    """Copies along axes of extent 1. A copy for each row makes rows: all of them hold the same entries.

    A second batch axis beside one that is there already is refused by `Value`.
    """
    rank = max(value.rank, len(target))
    old = [ONE] * (rank - value.rank) + list(value.shape)
    wanted = [ONE] * (rank - len(target)) + list(target)
    shape = [_copied(size, goal, batch) for size, goal in zip(old, wanted, strict=True)]
    if value.axis is not None:
        return Value(tuple(shape), value.axis + rank - value.rank, value.outer)
    axis = next((axis for axis, size in enumerate(shape) if size.of_batch), None)
    if axis is None and batch is not None:  # copies are as good as rows wherever there are as many
        axis = next((axis for axis in range(rank) if old[axis] == ONE and shape[axis] == Extent(batch)), None)
        shape = [BATCH if place == axis else size for place, size in enumerate(shape)]
    return Value(tuple(shape), axis)


def _copied(size: Extent, wanted: Extent, batch: int | None) -> Extent:
    """The extent of an axis after it was expanded."""
    if wanted == ONE or counted(wanted, batch) == counted(size, batch):
        return size
    if size == ONE:
        return wanted
    if size.of_batch or wanted.of_batch or (size.number is not None and wanted.number is not None):
        raise Unproved(f"an axis of extent {size} cannot be expanded to {wanted}")
    return unknown()


def tiled(value: Value, repeats: Sequence[Extent]) -> Value:
    """The whole tensor, repeated. Repeated once for each row, it makes rows that all hold the same entries.

    A second batch axis beside one that is there already is refused by `Value`.
    """
    if len(repeats) != value.rank:
        raise Unproved("there must be one number of repeats for each axis")
    if value.axis is not None and repeats[value.axis] != ONE:
        raise Unproved("the batch axis is repeated")
    shape = tuple(size.times(times) for size, times in zip(value.shape, repeats, strict=True))
    copies = next((axis for axis, times in enumerate(repeats) if times.of_batch), None)
    return Value(shape, copies if value.axis is None else value.axis, value.outer)


def concatenated(values: Sequence[Value], axis: int, batch: int | None) -> Value:
    """Tensors one after the other along an axis that is not the batch axis, which all of them must have."""
    rank = values[0].rank
    axis = axis_of(axis, rank)
    if any(value.rank != rank for value in values):
        raise Unproved("tensors of different ranks are concatenated")
    row = next((value.axis for value in values if value.axis is not None), None)
    if batch == 1 and row is not None:
        values = [_only_row(value, row) for value in values]
    places = {(value.axis, value.outer) for value in values}
    if len(places) > 1:
        raise Unproved("something that is not made of rows, or made of them in another order, is concatenated to rows")
    place, outer = places.pop()
    if place == axis:
        raise Unproved("rows are concatenated along the batch axis")
    shape = []
    for position in range(rank):
        sizes = [value.shape[position] for value in values]
        if position == axis:
            numbers = [size.number for size in sizes]
            shape.append(unknown() if None in numbers else Extent(sum(number or 0 for number in numbers)))
        elif position == place:
            shape.append(_rows(sizes))
        else:
            shape.append(sizes[0] if len(set(sizes)) == 1 else unknown())
    return Value(tuple(shape), place, outer)


def _only_row(value: Value, axis: int) -> Value:
    """A constant of extent 1 along the batch axis is a row, if there is one row by definition."""
    if value.axis is not None or value.shape[axis] != ONE:
        return value
    return Value((*value.shape[:axis], BATCH, *value.shape[axis + 1 :]), axis)


def product_of_matrices(left: Value, right: Value) -> Value:
    """[…, m, k] @ […, k, n], the first axes broadcast: sums run over k alone, which may not be the batch axis.

    Rows may lie on the first axes of both, or on m of the left or n of the right alone: then each sum belongs to one
    row. A vector on the right stands for [k, 1]; rows in a vector would be summed.
    """
    if left.rank < 2 or right.rank < 1:
        raise Unproved("a vector on the left of a product of matrices")
    vector = right.rank == 1
    right = inserted(right, [1]) if vector else right
    if left.axis == left.rank - 1 or right.axis == right.rank - 2:
        raise Unproved("a product of matrices sums over the batch axis")
    first = elementwise([_outside(left), _outside(right)])
    rows, columns = left.axis == left.rank - 2, right.axis == right.rank - 1
    if rows + columns + (first.axis is not None) > 1:
        raise Unproved("a product of matrices makes every row meet every row")
    axis = first.rank if rows else first.rank + 1 if columns else first.axis
    outer = left.outer if rows else right.outer if columns else first.outer
    result = Value((*first.shape, left.shape[-2], right.shape[-1]), axis, outer)
    return dropped(result, {result.rank - 1}) if vector else result


def _outside(value: Value) -> Value:
    """All but the last two axes."""
    inside = value.axis is not None and value.axis >= value.rank - 2
    return Value(value.shape[:-2], None if inside else value.axis, ONE if inside else value.outer)


def summed(equation: str, values: Sequence[Value]) -> Value:
    """Products of entries, summed over the letters that do not stay (einsum).

    The batch's letter must be the same in all operands with rows, and stay: then each sum belongs to one row.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or not "".join([*terms, right]).isalpha() or len(terms) != len(values):
        raise Unproved("its equation has dots, no arrow, or the wrong number of operands")
    if any(len(set(term)) != len(term) for term in [*terms, right]):
        raise Unproved("its equation repeats a letter within a term")
    sizes: dict[str, Extent] = {}
    for term, value in zip(terms, values, strict=True):
        for letter, size in zip(term, value.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise Unproved(f"the extents of {letter} in its equation cannot be shown to be equal")
    rows = {
        (term[value.axis], value.outer) for term, value in zip(terms, values, strict=True) if value.axis is not None
    }
    if len(rows) > 1 or any(letter not in right for letter, _ in rows):
        raise Unproved("it sums over the batch axis, or makes every row meet every row")
    letter, outer = rows.pop() if rows else ("", ONE)
    return Value(tuple(sizes[one] for one in right), right.index(letter) if letter else None, outer)


def only_first(value: Value, what: str) -> None:
    """Unproved unless rows, if there are any, lie on axis 0: for operators whose definition treats it as the batch."""
    if value.axis not in (None, 0):
        raise Unproved(f"the batch has moved to axis {value.axis}, along which {what} mixes")


def data(value: Value) -> Value:
    """The value, if data may be computed from it; not the batch size, not a row's position."""
    if value.kind is not Kind.DATA:
        raise Unproved(f"{value.kind.value} reaches the data")
    return value
