"""Integers computed from shapes: the batch size among them, and row numbers. Exactly, or not at all.

Exporters write `x.reshape(len(x), -1)` as a small program on shapes. These rules run it, with the batch size as a
symbol.
"""

from collections.abc import Callable
from dataclasses import replace

from . import flow
from .extents import BATCH, BATCH_SYMBOL, ONE, Extent
from .onnx_node import Node
from .values import Kind, Unproved, Value, axis_of, integers

INT32, INT64 = 6, 7
#: Larger counts are not followed: the runtime's integers wrap round, ours do not.
LARGEST = 1 << 31


def sizes(node: Node) -> list[Value] | None:
    """What is known of the outputs, if the node computes with known integers; else None.

    Guarantee: an entry that is returned as known has that value in every run.
    """
    compute = SIZES.get(node.operator)
    found = None if compute is None else compute(node)
    return None if found is None or any(map(_wraps, found)) else found


def _wraps(value: Value) -> bool:
    """A number that could have wrapped round in 32 bits, or in 64 bits with the batch size as a factor."""
    entries = [entry.count for entry in value.known or () if isinstance(entry, Extent)]
    return any(abs(number) >= LARGEST for number in [*entries, *value.offsets])


def _shape(node: Node) -> list[Value]:
    value = node.input(0)
    sizes = value.shape[slice(*_ends(node, value.rank))]
    return [Value((Extent(len(sizes)),), known=tuple(sizes))]


def _ends(node: Node, rank: int) -> tuple[int, int]:
    if node.opset < 15 and node.attributes:
        raise Unproved("its attributes belong to a later opset")
    return node.integer("start", 0), node.integer("end", rank)


def _known(value: Value | None) -> tuple[Extent, ...] | None:
    """The entries of a scalar or a list, if all are known integers."""
    if value is None or value.known is None or value.rank > 1 or value.axis is not None:
        return None
    entries = tuple(entry for entry in value.known if isinstance(entry, Extent))
    return entries if len(entries) == len(value.known) else None


def _listed(entries: tuple[Extent, ...]) -> Value:
    return Value((Extent(len(entries)),), known=entries)


def _gather(node: Node) -> list[Value] | None:
    entries, picked = _known(node.input(0)), _known(node.input(1))
    if entries is None or picked is None or node.input(0).rank != 1 or node.integer("axis", 0) not in (0, -1):
        return None
    chosen = tuple(entries[axis_of(number, len(entries))] for number in integers(node.input(1), "indices"))
    return [Value(node.input(1).shape, known=chosen)]


def _slice(node: Node) -> list[Value] | None:
    entries = _known(node.input(0))
    if entries is None or node.opset < 10 or any(_known(value) is None for value in node.all()[1:]):
        return None
    arguments = [integers(value, "a bound") for value in node.all()[1:]]
    if any(len(argument) != 1 for argument in arguments) or len(node.all()) != len(node.inputs):
        return None
    (start,), (end,), *rest = arguments
    axis, step = (rest[0][0] if rest else 0), (rest[1][0] if len(rest) > 1 else 1)
    if axis not in (0, -1) or step == 0:
        return None
    return [_listed(entries[start:end:step])] if step > 0 else None


def _concat(node: Node) -> list[Value] | None:
    parts = [_known(value) for value in node.all()]
    if any(part is None for part in parts) or any(value.rank != 1 for value in node.all()):
        return None
    return [_listed(tuple(entry for part in parts for entry in part or ()))]


def _pairs(node: Node) -> tuple[Value, list[tuple[Extent, Extent]]] | None:
    """The entries of two operands side by side, and the larger operand; a single entry goes with all."""
    one, other = (_known(node.input(number)) for number in (0, 1))
    if (
        one is None
        or other is None
        or not one
        or not other
        or not (len(one) == len(other) or 1 in (len(one), len(other)))
    ):
        return None
    larger = max(node.input(0), node.input(1), key=lambda value: (len(value.known or ()), value.rank))
    length = len(larger.known or ())
    return larger, [(one[i % len(one)], other[i % len(other)]) for i in range(length)]


def _arithmetic(exact: Callable[[Extent, Extent], Extent | None]) -> Callable[[Node], list[Value] | None]:
    def compute(node: Node) -> list[Value] | None:
        found = _pairs(node)
        if found is None:
            return None
        results = [exact(one, other) for one, other in found[1]]
        entries = tuple(result for result in results if result is not None)
        return [replace(found[0], known=entries, kind=Kind.DATA)] if len(entries) == len(results) else None

    return compute


def _plus(sign: int) -> Callable[[Extent, Extent], Extent | None]:
    def exact(one: Extent, other: Extent) -> Extent | None:
        return None if one.symbols != other.symbols else Extent(one.count + sign * other.count, one.symbols)

    return exact


def _quotient(one: Extent, other: Extent) -> Extent | None:
    """An exact quotient of positive extents: the same for every way to round."""
    return one.over(other) if one.count > 0 and other.count > 0 else None


def _equal(one: Extent, other: Extent) -> Extent | None:
    """0 or 1. The batch size is positive: it equals no number below 1."""
    if one == other:
        return ONE
    if not one.symbols and not other.symbols:
        return Extent(0)
    of_batch = {*one.symbols, *other.symbols} == {BATCH_SYMBOL}
    return Extent(0) if of_batch and (one.count > 0) != (other.count > 0) else None


def _where(node: Node) -> list[Value] | None:
    tested = _known(node.input(0))
    node_of_two = node.on(node.input(1), node.input(2))
    found = _pairs(node_of_two)
    if tested is None or found is None or len(tested) != len(found[1]):
        return None
    chosen = [one if test.number else other for test, (one, other) in zip(tested, found[1], strict=True)]
    return [replace(found[0], known=tuple(chosen), kind=Kind.DATA)] if all(not t.symbols for t in tested) else None


def _same(node: Node) -> list[Value] | None:
    return None if node.input(0).known is None else [node.input(0)]


def _cast(node: Node) -> list[Value] | None:
    """To int64, or to int32 if the batch size is no factor: it might not fit."""
    entries = _known(node.input(0))
    if entries is None or node.integer("to", 0) not in (INT32, INT64):
        return None
    return None if node.integer("to", 0) == INT32 and any(entry.symbols for entry in entries) else _same(node)


def _range(node: Node) -> list[Value] | None:
    """Row numbers 0, 1, …, B − 1."""
    start, limit, step = (_known(node.input(number)) for number in range(3))
    if (start, limit, step) != ((Extent(0),), (BATCH,), (ONE,)):
        return None
    return [Value((BATCH,), 0, kind=Kind.POSITION, offsets=(1, 0, 0))]


def _position(node: Node) -> tuple[Value, tuple[int, ...], Value] | None:
    """Row numbers, and a constant of known integers that they meet."""
    for number in (0, 1):
        value, other = node.input(number), node.input(1 - number)
        if value.kind is Kind.POSITION and other.kind is Kind.DATA and other.known and other.axis is None:
            return value, integers(other, "a constant"), other
    return None


def _scaled(node: Node) -> list[Value] | None:
    """k · (scale · b + offset)."""
    found = _position(node)
    if found is None or len(found[1]) != 1 or found[1][0] < 0 or found[2].rank > found[0].rank:
        return None
    value, (factor,), _ = found
    scale, low, high = value.offsets
    return [replace(value, offsets=(factor * scale, factor * low, factor * high))]


def _shifted(node: Node) -> list[Value] | None:
    """(scale · b + offset) + constant."""
    found = _position(node)
    if found is None:
        return None
    value, shifts, other = found
    scale, low, high = value.offsets
    shape = flow.elementwise([replace(value, kind=Kind.DATA), other.without_entries()])
    return [replace(shape, kind=Kind.POSITION, offsets=(scale, low + min(shifts), high + max(shifts)))]


def _either(*ways: Callable[[Node], list[Value] | None]) -> Callable[[Node], list[Value] | None]:
    def compute(node: Node) -> list[Value] | None:
        return next((found for found in (way(node) for way in ways) if found is not None), None)

    return compute


def _moved(node: Node) -> list[Value] | None:
    """Axes of extent 1 that come or go leave entries where they are, in C order."""
    if node.input(0).kind is Kind.DATA and node.input(0).known is None:
        return None
    axes = node.listed("axes", 1, 13)
    value = node.input(0)
    if node.operator == "Unsqueeze":
        return None if axes is None else [flow.inserted(value, axes)]
    if axes is None and any(size.number is None for size in value.shape):
        return None
    ones = tuple(axis for axis, size in enumerate(value.shape) if size == ONE)
    return [flow.squeezed(value, ones if axes is None else axes)]


def _reshaped(node: Node) -> list[Value] | None:
    """A list of known integers as a list or a scalar."""
    entries, target = _known(node.input(0)), _known(node.input(1))
    if (
        entries is None
        or target not in ((Extent(-1),), (Extent(len(entries)),), ())
        or (not target and len(entries) != 1)
    ):
        return None
    return [replace(node.input(0), shape=(Extent(len(entries)),) if target else ())]


SIZES: dict[str, Callable[[Node], list[Value] | None]] = {
    "Shape": _shape,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Mul": _either(_arithmetic(Extent.times), _scaled),
    "Div": _arithmetic(_quotient),
    "Add": _either(_arithmetic(_plus(1)), _shifted),
    "Sub": _arithmetic(_plus(-1)),
    "Equal": _arithmetic(_equal),
    "Where": _where,
    "Cast": _cast,
    "Identity": _same,
    "MemcpyFromHost": _same,
    "MemcpyToHost": _same,
    "Squeeze": _moved,
    "Unsqueeze": _moved,
    "Range": _range,
    "Reshape": _reshaped,
}
