"""Random small graphs over the whole operator table, from the operators' schemas.

A graph grows node by node. Each node is run alone by onnxruntime on the real values of its operands, for two inputs
that differ in one row: what the runtime refuses is dropped, and of what it takes the real shape is known, and whether
rows stay apart. Operands and attributes are drawn so that most nodes run (`draws`), some of them outside the
schema. Integers (axes, targets, bounds …) are constants, or computed from the shapes of earlier values in such a way
that they *really* have the wanted value: an inspector that is wrong about a shape is then wrong about an axis.
"""

import random
from collections.abc import Callable

import numpy as np
import stacks
from frame import Graph, framed
from growth import MOST_AXES, Growth
from known import Known, Refused


def generate(
    seed: int,
    number: int,
    operators: tuple[tuple[str, str], ...],
    focus: tuple[tuple[str, str], ...] = (),
    before: Callable[[bytes], None] = lambda model: None,
    odd: float = 0.08,
) -> Graph | None:
    """Graph `number` of this seed; None if it came to nothing."""
    growth = Growth(random.Random(f"{seed}/{number}"), operators, focus, before)
    try:
        last = stacks.stacked(growth) if growth.stacked else _freely(growth)
        output = finished(growth, last)
    except Refused:
        return None
    return framed(growth, output, odd)


def _freely(growth: Growth) -> Known:
    """The last value of a graph over the whole table."""
    if growth.draw.random() < (0.3 if growth.temper.hidden else 0.05):
        growth.veil()
    if growth.draw.random() < (0.3 if growth.temper.hidden else 0.02):
        growth.number()
    last = _grown(growth)
    if growth.opset >= 11 and growth.draw.random() < (0.7 if growth.odd else 0.12):
        last = growth.trap() or last
    if last is None:
        raise Refused("nothing runs")
    return last


def _grown(growth: Growth) -> Known | None:
    last, steps = None, 0
    for _ in range(3 * growth.temper.steps):
        found = growth.step()
        last = found or last
        if growth.planted is not None and growth.draw.random() < 0.5:
            return growth.planted
        steps += found is not None
        if steps >= growth.temper.steps and _has_theme(growth):
            break
    return last


def _has_theme(growth: Growth) -> bool:
    return any((node.domain, node.op_type) == growth.theme for node in growth.nodes)


# The end of a graph: one row for each row. ------------------------------------------------------------------------


def finished(growth: Growth, last: Known) -> Known:
    """A value with as many rows as the input, made from the last value where that is possible."""
    for _ in range(6):
        if _is_output(growth, last) or (last.folded == 0 and growth.draw.random() < 0.1):
            return last
        last = _closer(growth, last)
    raise Refused("no rows came out")


def _is_output(growth: Growth, known: Known) -> bool:
    return known.rank >= 1 and known.shape[0] == growth.batch and known.rows is not None and known.name != "x"


def _closer(growth: Growth, last: Known) -> Known:
    """One step towards an output with rows on axis 0."""
    draw = growth.draw
    partners = [known for known in growth.pool if known.rows == 0 and _broadcasts(known, last, growth.batch)]
    if partners and (last.rows in (None, 0) or draw.random() < 0.7):
        return growth.add("", draw.choice(["Add", "Mul", "Add", "Sub"]), [draw.choice(partners), last])[0]
    if last.rows is not None and last.rows > 0:
        order = [last.rows, *(axis for axis in range(last.rank) if axis != last.rows)]
        return growth.add("", "Transpose", [last], {"perm": order})[0]
    if last.type not in ("tensor(float)", "tensor(double)"):
        return growth.add("", "Cast", [last], {"to": growth.elem_type})[0]
    if last.value.size % growth.batch == 0 and last.rows is not None:
        return growth.add("", "Reshape", [last, growth.hide(np.array([growth.batch, -1]))])[0]
    return growth.add("", "ReduceSum", [last], {"keepdims": 0})[0]


def _broadcasts(known: Known, last: Known, batch: int) -> bool:
    """Whether the two can be added, to something with a first axis of the batch's size."""
    if known.type != last.type or known is last:
        return False
    try:
        shape = np.broadcast_shapes(known.shape, last.shape)
    except ValueError:
        return False
    return shape[0] == batch and len(shape) <= MOST_AXES
