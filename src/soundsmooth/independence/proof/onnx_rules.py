"""Operators of ONNX's default domain, opsets 7 to 25: what each does with the rows of a batch.

An operator that is not here is not proved. Read each rule beside the operator's definition; the differences between
opsets are in the rules (`listed`, `opset`), and in ONNX's schemas, which every node must fit. Newer versions that only
add number types need no rule.

A rule has to say where rows lie in the result and which entries meet. It never computes a shape that the runtime could
tell: `checked` compares, `result` takes what was seen.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from . import flow
from .onnx_dialect import (
    ALL_PADS,
    AXES,
    AXIS,
    COUNT,
    CUT,
    EDGES,
    FLAG,
    GELU,
    INTEGER,
    LISTED,
    NEW_AXES,
    NUMBER,
    OFF,
    ONE,
    PADDING,
    PADS,
    PARTS,
    PERMUTATION,
    SIZES,
    TENSOR,
    TEXT,
    TYPE,
)
from .onnx_node import Form, Node, Rule
from .values import UNDEFINED, Unproved, Value, axes_of, integers

#: The opsets whose definitions the rules were checked against.
FIRST_OPSET, LAST_OPSET = 7, 25

#: No operator with constants among its operands has more.
MOST_OPERANDS = 16
#: TensorProto's integers, bool apart.
INTEGERS = frozenset({2, 3, 4, 5, 6, 7, 12, 13})


# One entry of each operand makes one entry of the result.


def elementwise(node: Node) -> list[Value]:
    """Entry by entry, operands broadcast as in NumPy. The batch axes lie on each other."""
    return [node.checked(flow.elementwise(node.all(), node.batch))]


def first_decides(node: Node) -> list[Value]:
    """Entry by entry; the other operands are broadcast to the first."""
    return [node.checked(flow.same_shape(node.input(0), node.all()[1:], node.batch))]


def _clip(node: Node) -> list[Value]:
    """Entry by entry, between two scalars."""
    if any(bound.rank for bound in node.all()[1:]):
        raise Unproved("its bounds are no scalars")
    return elementwise(node)


def _cast(node: Node) -> list[Value]:
    """Entry by entry, never into integers. Of a number out of range each kernel makes what it likes, and the last rows
    of a batch may meet another kernel than the rest.
    """
    if node.integer("to", 0) in INTEGERS:
        raise Unproved(UNDEFINED)
    return elementwise(node)


def _dropout(node: Node) -> list[Value]:
    """The identity; `training_mode` is absent or false."""
    if node.optional(2) is not None and integers(node.input(2), "training_mode") != (0,):
        raise Unproved("it drops entries at random: training_mode is set")
    return [node.checked(node.input(0))]


# Entries are combined along some axes.


def _reduce(since: int) -> Callable[[Node], list[Value]]:
    """Along axes that must be named: without any, all axes are meant, or none."""

    def reduction(node: Node) -> list[Value]:
        """Reduced along axes that are named, each once, and are not the batch axis."""
        axes = axes_of(node.listed("axes", 1, since) or (), node.input(0).rank)
        return [node.checked(flow.reduced(node.input(0), axes, node.integer("keepdims", 1) == 1))]

    return reduction


def _arg(node: Node) -> list[Value]:
    """Reduced along one axis, not the batch axis."""
    return [node.checked(flow.reduced(node.input(0), [node.axis(0)], node.integer("keepdims", 1) == 1))]


def _softmax(node: Node) -> list[Value]:
    """Along one axis, or before opset 13 over all axes from that one on; none is the batch axis."""
    axis = node.axis(-1 if node.opset >= 13 else 1)
    axes = [axis] if node.opset >= 13 else range(axis, node.input(0).rank)
    return [node.checked(flow.along(node.input(0), axes))]


def _lp_norm(node: Node) -> list[Value]:
    """Normalised along one axis, not the batch axis."""
    return [node.checked(flow.along(node.input(0), [node.axis(-1)]))]


def _cumsum(node: Node) -> list[Value]:
    """Summed up along one axis, not the batch axis."""
    axes = axes_of(integers(node.input(1), "axis"), node.input(0).rank)
    return [node.checked(flow.along(node.input(0), axes))]


def _mean_variance(node: Node) -> list[Value]:
    """Normalised along axes that are named, none of which is the batch axis."""
    return [node.checked(flow.along(node.input(0), axes_of(node.numbers("axes") or (), node.input(0).rank)))]


def _top(node: Node) -> list[Value]:
    """The largest entries along an axis that is not the batch axis, and their places on it."""
    value = flow.along(node.input(0), [node.axis(-1)])
    return [_others_kept(node, value, {node.axis(-1)}, number) for number in range(len(node.shapes))]


def _others_kept(node: Node, value: Value, changed: set[int], number: int = 0) -> Value:
    """The result, in which only the extents of some axes may be others."""
    found = node.shape(number)
    sizes = tuple(found[axis] if axis in changed else size for axis, size in enumerate(value.shape))
    return node.checked(Value(sizes, value.axis, value.outer), number)


def _triangle(node: Node) -> list[Value]:
    """The last two axes make triangles; none of them is the batch axis."""
    return [node.checked(flow.along(node.input(0), [-1, -2]))]


def layer_norm(node: Node) -> list[Value]:
    """Normalised over all axes from `axis` on, none of which is the batch axis; scale and bias are broadcast."""
    value = node.input(0)
    value = flow.along(value, range(node.axis(-1), value.rank))
    return [node.checked(flow.same_shape(value, node.all()[1:], node.batch))]


def _batch_norm(node: Node) -> list[Value]:
    """With given statistics, a factor and a summand for each channel; rows do not lie on axis 1. More outputs mean
    that it trains.
    """
    return [node.checked(flow.along(node.input(0), [1]))]  # along the channels, parameters differ


def _instance_norm(node: Node) -> list[Value]:
    """Each entry of axis 0 for itself; rows lie there."""
    flow.only_first(node.input(0), "the normalisation")
    return [node.checked(node.input(0))]


def _local_norm(node: Node) -> list[Value]:
    """Normalised along axis 1, not the batch axis."""
    return [node.checked(flow.along(node.input(0), [1]))]


# Products.


def _matmul(node: Node) -> list[Value]:
    """A product of matrices whose sums do not run over the batch axis; rows do not meet rows."""
    return [node.checked(flow.product_of_matrices(node.input(0), node.input(1), node.batch))]


def matrix(value: Value, turned: int) -> Value:
    """A matrix, its last two axes exchanged if asked."""
    order = list(range(value.rank))
    return flow.transposed(value, [*order[:-2], order[-1], order[-2]]) if turned else value


def gemm(node: Node) -> list[Value]:
    """A product of two matrices whose sums do not run over the batch axis, and a summand broadcast to it."""
    left, right = matrix(node.input(0), node.integer("transA", 0)), matrix(node.input(1), node.integer("transB", 0))
    found = flow.product_of_matrices(left, right, node.batch)
    return [node.checked(flow.same_shape(found, node.all()[2:], node.batch))]


def convolution(node: Node) -> list[Value]:
    """Sums over channels and windows; rows lie on axis 0."""
    flow.only_first(node.input(0), "a convolution")
    return [windows(node)]


def pool(node: Node) -> list[Value]:
    """Windows over the axes from 2 on, each channel for itself; rows lie on axis 0. Of MaxPool: not the indices."""
    flow.only_first(node.input(0), "a window")
    return [windows(node)]


def windows(node: Node) -> Value:
    """A window has slid over all axes from 2 on; channels may change, axis 0 stays."""
    value = node.input(0)
    return _others_kept(node, value, set(range(1, value.rank)))


def global_pool(node: Node) -> list[Value]:
    """All axes from 2 on are reduced to extent 1; rows lie on axis 0 or 1."""
    value = node.input(0)
    return [node.checked(flow.reduced(value, range(2, value.rank), keep=True))]


def _einsum(node: Node) -> list[Value]:
    """Letters with an arrow, none twice in a term; the batch's letter stays, and stands in no constant."""
    return [node.checked(flow.summed(node.text("equation", ""), node.all()))]


# The same entries at other places.


def _reshape(node: Node) -> list[Value]:
    """The same entries in C order, whatever the target says: the runtime was seen to make this shape of it."""
    return [flow.reshaped(node.input(0), node.shape(), node.batch)]


def _squeeze(node: Node) -> list[Value]:
    """The same entries in C order, without some axes, each named once, or without all of extent 1."""
    axes = node.listed("axes", 1, 13)
    if axes is not None:
        axes_of(axes, node.input(0).rank)
    return _reshape(node)


def _unsqueeze(node: Node) -> list[Value]:
    """The same entries in C order, with new axes of extent 1, each named once."""
    axes = node.listed("axes", 1, 13) or ()
    axes_of(axes, node.input(0).rank + len(axes))
    return _reshape(node)


def _transpose(node: Node) -> list[Value]:
    """The axes in another order."""
    order = node.numbers("perm") or tuple(reversed(range(node.input(0).rank)))
    return [node.checked(flow.transposed(node.input(0), order))]


def _concat(node: Node) -> list[Value]:
    """Put together along an axis that is not the batch axis; constants are the same for every row."""
    return [node.checked(flow.concatenated(node.all(), node.axis(0), node.batch))]


def _split(node: Node) -> list[Value]:
    """Cut up along an axis that is not the batch axis."""
    value = flow.along(node.input(0), [node.axis(0)])
    return [_others_kept(node, value, {node.axis(0)}, number) for number in range(len(node.shapes))]


def _slice(node: Node) -> list[Value]:
    """Other axes are cut at will; of the batch axis all is taken, in its order: the extent stays, the step is 1."""
    value = node.input(0)
    starts, ends = node.listed("starts", 1, 10) or (), node.listed("ends", 2, 10) or ()
    axes = axes_of(node.listed("axes", 3, 10) or tuple(range(len(starts))), value.rank)
    steps = integers(node.input(4), "steps") if node.optional(4) is not None else (1,) * len(starts)
    if len({len(starts), len(ends), len(axes), len(steps)}) > 1:
        raise Unproved("its starts, ends, axes and steps have different lengths")
    if value.axis in axes and (
        steps[axes.index(value.axis)] != 1 or node.shape()[value.axis] != value.shape[value.axis]
    ):
        raise Unproved("it cuts rows out of the batch, or turns their order round")
    return [_others_kept(node, value, set(axes) - {value.axis})]


def _gather(node: Node) -> list[Value]:
    """Entries along one axis, picked by indices; rows pick from a constant, or each from itself."""
    value, indices, axis = node.input(0), node.input(1), node.axis(0)
    shape = (*value.shape[:axis], *indices.shape, *value.shape[axis + 1 :])
    if value.axis is None:  # rows pick from a table that is the same for all
        return [node.checked(Value(shape, axis + (indices.axis or 0), indices.outer))]
    if indices.axis is not None:
        raise Unproved("it makes every row pick from every row")
    if value.axis == axis:
        return [node.checked(_own_entries(value, indices, shape, node.batch))]
    place = value.axis if value.axis < axis else value.axis + indices.rank - 1
    return [node.checked(Value(shape, place, value.outer))]


def _own_entries(value: Value, indices: Value, shape: tuple[int, ...], batch: int) -> Value:
    """Rows lie one after the other, `inner` entries each. If index number b on some axis of the indices is always
    inner · b + offset, with offset ≥ 0 the same for every b, a row picks from itself, in the same way: the last row's
    index is in range, so offset < inner.
    """
    assert value.axis is not None
    inner = value.shape[value.axis] // batch
    for axis, extent in enumerate(indices.shape):
        if extent == batch and value.outer == 1 and _each_its_own(indices, axis, inner):
            return Value(shape, value.axis + axis)
    raise Unproved("it picks entries by the row's position, or of other rows")


def _each_its_own(indices: Value, axis: int, inner: int) -> bool:
    """Whether index number b on this axis is always inner · b + offset, offset ≥ 0 the same for every b."""
    if indices.entries is None:  # they are too many
        return False
    by_row = np.moveaxis(indices.entries, axis, 0).reshape(indices.shape[axis], -1)
    offsets = by_row - inner * np.arange(len(by_row))[:, np.newaxis]
    return bool(((offsets == offsets[0]) & (offsets >= 0)).all())


def _pad(node: Node) -> list[Value]:
    """Other axes are padded at will; the batch axis is left alone."""
    value = node.input(0)
    pads = node.listed("pads", 1, 11) or ()
    named = node.optional(3)
    axes = tuple(range(value.rank)) if named is None else axes_of(integers(named, "axes"), value.rank)
    if len(pads) != 2 * len(axes):
        raise Unproved("its pads do not fit its operand")
    touched = {axis for number, axis in enumerate(axes) if pads[number] or pads[number + len(axes)]}
    return [_others_kept(node, flow.along(value, sorted(touched)), touched)]


def _expand(node: Node) -> list[Value]:
    """Copied along axes of extent 1, not the batch axis."""
    return [node.checked(flow.expanded(node.input(0), node.shape()))]


def _tile(node: Node) -> list[Value]:
    """Repeated along axes that are not the batch axis."""
    return [node.checked(flow.tiled(node.input(0), integers(node.input(1), "the number of repeats")))]


def _constants_only(node: Node) -> list[Value]:
    """The result is a constant."""
    raise Unproved("there is no rule for it on rows, only on constants")


# The table. -------------------------------------------------------------------------------------------------------


def rule(
    flow: Callable[[Node], Sequence[Value | None]],
    shared: Mapping[str, Form] | None = None,
    *,
    constants: int | range = range(0),
    outputs: int | None = None,
    operands: tuple[int, int] | None = None,
    **attributes: Form,
) -> Rule:
    fixed = constants if isinstance(constants, range) else range(constants, MOST_OPERANDS)
    most = 1 if outputs is None and operands is not None else outputs
    return Rule(flow, {**(shared or {}), **attributes}, fixed, most, operands)


def _each(names: str, one: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), one)


_SPATIAL = {"auto_pad": PADDING, "dilations": SIZES, "kernel_shape": SIZES, "pads": PADS, "strides": SIZES}
_POOL = {**_SPATIAL, "ceil_mode": FLAG}
_REDUCE = {"axes": AXES, "keepdims": FLAG, "noop_with_empty_axes": FLAG}
_LAYER = {"axis": AXIS, "epsilon": NUMBER, "stash_type": ONE}

RULES: dict[str, Rule] = {
    **_each("Abs Neg Exp Log Sqrt Reciprocal Relu Sigmoid Softsign Tanh Floor Ceil Not Identity", rule(elementwise)),
    **_each("MemcpyFromHost MemcpyToHost", rule(elementwise, operands=(1, 1))),  # the runtime's own, between devices
    "Softplus": rule(elementwise),
    **_each("Erf Sign IsNaN", rule(elementwise)),
    **_each("LeakyRelu Elu", rule(elementwise, alpha=NUMBER)),
    "Selu": rule(elementwise, alpha=NUMBER, gamma=NUMBER),
    "HardSigmoid": rule(elementwise, alpha=NUMBER, beta=NUMBER),
    "Celu": rule(elementwise, alpha=NUMBER),
    "ThresholdedRelu": rule(elementwise, alpha=NUMBER),
    "Round": rule(elementwise),
    "HardSwish": rule(elementwise),
    "Mish": rule(elementwise),
    "Gelu": rule(elementwise, approximate=GELU),
    "Swish": rule(elementwise, alpha=NUMBER),
    "IsInf": rule(elementwise, detect_negative=FLAG, detect_positive=FLAG),
    "Shrink": rule(elementwise, bias=NUMBER, lambd=NUMBER),
    "Cast": rule(_cast, to=TYPE, saturate=FLAG),
    "Clip": rule(_clip, constants=1, min=NUMBER, max=NUMBER),
    **_each("Add Sub Mul Div Pow And Or Xor Equal Greater Less", rule(elementwise)),
    **_each("GreaterOrEqual LessOrEqual", rule(elementwise)),
    "Mod": rule(elementwise, fmod=FLAG),
    "PRelu": rule(first_decides),
    **_each("Max Min Mean Sum", rule(elementwise)),
    "Where": rule(elementwise),
    "Dropout": rule(_dropout, constants=1, ratio=NUMBER, seed=INTEGER),
    "ReduceSum": rule(_reduce(13), _REDUCE, constants=1),
    **_each("ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2", rule(_reduce(18), _REDUCE, constants=1)),
    **_each("ReduceLogSum ReduceLogSumExp ReduceSumSquare", rule(_reduce(18), _REDUCE, constants=1)),
    **_each("ArgMax ArgMin", rule(_arg, axis=AXIS, keepdims=FLAG, select_last_index=FLAG)),
    **_each("Softmax LogSoftmax Hardmax", rule(_softmax, axis=AXIS)),
    "LpNormalization": rule(_lp_norm, axis=AXIS, p=COUNT),
    "CumSum": rule(_cumsum, constants=1, exclusive=FLAG, reverse=FLAG),
    "MeanVarianceNormalization": rule(_mean_variance, axes=AXES),
    "TopK": rule(_top, constants=1, axis=AXIS, largest=FLAG, sorted=ONE),
    "Trilu": rule(_triangle, constants=1, upper=FLAG),
    # The runtime has the first in all opsets, and the second is its own.
    "LayerNormalization": rule(layer_norm, _LAYER, constants=1, operands=(2, 3), outputs=3),
    "SimplifiedLayerNormalization": rule(layer_norm, _LAYER, constants=1, operands=(2, 2), outputs=2),
    "RMSNormalization": rule(layer_norm, _LAYER, constants=1),
    "BatchNormalization": rule(_batch_norm, constants=1, outputs=1, epsilon=NUMBER, momentum=NUMBER, training_mode=OFF),
    "InstanceNormalization": rule(_instance_norm, constants=1, epsilon=NUMBER),
    "GroupNormalization": rule(_instance_norm, constants=1, epsilon=NUMBER, num_groups=COUNT, stash_type=ONE),
    "LRN": rule(_local_norm, alpha=NUMBER, beta=NUMBER, bias=NUMBER, size=COUNT),
    "MatMul": rule(_matmul),
    "Gemm": rule(gemm, constants=2, alpha=NUMBER, beta=NUMBER, transA=FLAG, transB=FLAG),
    "Conv": rule(convolution, _SPATIAL, constants=1, group=COUNT),
    "AveragePool": rule(pool, _POOL, count_include_pad=FLAG),
    "MaxPool": rule(pool, _POOL, storage_order=OFF),
    "LpPool": rule(pool, _POOL, p=COUNT),
    **_each("GlobalAveragePool GlobalMaxPool", rule(global_pool)),
    "GlobalLpPool": rule(global_pool, p=COUNT),
    "Einsum": rule(_einsum, equation=TEXT),
    "Reshape": rule(_reshape, constants=1, allowzero=FLAG),
    "Flatten": rule(_reshape, axis=CUT),
    "Squeeze": rule(_squeeze, constants=1, axes=AXES),
    "Unsqueeze": rule(_unsqueeze, constants=1, axes=NEW_AXES),
    "Transpose": rule(_transpose, perm=PERMUTATION),
    "Concat": rule(_concat, axis=AXIS),
    "Split": rule(_split, constants=1, axis=AXIS, split=PARTS, num_outputs=COUNT),
    "Slice": rule(_slice, constants=1, starts=LISTED, ends=LISTED, axes=AXES),
    "Gather": rule(_gather, axis=AXIS),
    "Pad": rule(_pad, constants=1, pads=ALL_PADS, mode=EDGES, value=NUMBER),
    "Expand": rule(_expand, constants=1),
    "Tile": rule(_tile, constants=1),
    "Shape": rule(_constants_only, start=INTEGER, end=INTEGER),  # of rows too: no shape depends on data
    "ConstantOfShape": rule(_constants_only, constants=0, value=TENSOR),
    "Constant": rule(_constants_only, value=TENSOR, value_int=INTEGER, value_ints=LISTED, value_float=NUMBER),
    "Size": rule(_constants_only),
    "Range": rule(_constants_only, constants=0),
}
