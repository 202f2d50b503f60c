"""Operators of ONNX's default domain, opsets 7 to 25: what each does with the rows of a batch.

An operator that is not here is not proved. Read each rule beside the operator's definition; the differences between
opsets are in the rules (`since`, `listed`, `opset`). Newer versions that only add number types need no rule.
"""

from collections.abc import Callable, Sequence

from . import flow
from .extents import BATCH, ONE, Extent, product, unknown
from .onnx_node import Node, Rule, rule
from .values import UNDEFINED, Kind, Unproved, Value, axis_of, constant, integers

#: The opsets whose definitions the rules were checked against.
FIRST_OPSET, LAST_OPSET = 7, 25

#: TensorProto's number types: float, the integers, bool, float16, double, bfloat16.
NUMBERS = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16})
#: Those of them that are integers, bool apart.
INTEGERS = frozenset({2, 3, 4, 5, 6, 7, 12, 13})
LARGEST = (1 << 31) - 1


# One entry of each operand makes one entry of the result.


def _elementwise(node: Node) -> list[Value]:
    return [flow.elementwise(node.all())]


def _first_decides(node: Node) -> list[Value]:
    """The other operands are broadcast to the first."""
    return [flow.same_shape(node.input(0), node.all()[1:])]


def _cast(node: Node) -> list[Value]:
    """Into integers only what is the same in every run: of a number out of range each kernel makes what it likes, and
    the last rows of a batch may meet another kernel than the rest."""
    if node.integer("to", 0) not in NUMBERS:
        raise Unproved("it casts to something that is not a number")
    if node.integer("to", 0) in INTEGERS and node.input(0).axis is not None:
        raise Unproved(UNDEFINED)
    return [flow.elementwise([node.input(0)])]


def _dropout(node: Node) -> list[Value]:
    """The identity, unless it trains."""
    node.most_inputs(1 if node.opset < 12 else 3)
    if node.optional(2) is not None and integers(node.input(2), "training_mode") != (0,):
        raise Unproved("it drops entries at random: training_mode is set")
    return [node.input(0).without_entries()]


# Entries are combined along some axes.


def _reduce(since: int) -> Callable[[Node], list[Value]]:
    def reduction(node: Node) -> list[Value]:
        value = node.input(0)
        axes = node.listed("axes", 1, since)
        if not axes and node.integer("noop_with_empty_axes", 0):
            return [value.without_entries()]
        return [flow.reduced(value, axes or range(value.rank), bool(node.integer("keepdims", 1)))]

    return reduction


def _arg(node: Node) -> list[Value]:
    value = node.input(0)
    return [flow.reduced(value, [node.integer("axis", 0)], bool(node.integer("keepdims", 1)))]


def _softmax(node: Node) -> list[Value]:
    value = node.input(0)
    if node.opset >= 13:
        return [flow.along(value, [node.integer("axis", -1)])]
    return [flow.along(value, range(axis_of(node.integer("axis", 1), value.rank), value.rank))]  # flattened


def _along_axis(default: int) -> Callable[[Node], list[Value]]:
    return lambda node: [flow.along(node.input(0), [node.integer("axis", default)])]


def _cumsum(node: Node) -> list[Value]:
    return [flow.along(node.input(0), integers(node.input(1), "axis"))]


def _mean_variance(node: Node) -> list[Value]:
    return [flow.along(node.input(0), node.numbers("axes") or (0, 2, 3))]


def _top(node: Node) -> list[Value]:
    found = flow.resized(node.input(0), node.integer("axis", -1), unknown())
    node.parameters(1)
    return [found, found]


def _triangle(node: Node) -> list[Value]:
    node.parameters(1)
    return [flow.along(node.input(0), [-1, -2])]


def _layer_norm(node: Node) -> list[Value]:
    """Normalised over all axes from `axis` on; scale and bias are broadcast."""
    value = node.input(0)
    value = flow.along(value, range(axis_of(node.integer("axis", -1), value.rank), value.rank))
    return [flow.same_shape(value, node.all()[1:])]


def _batch_norm(node: Node) -> list[Value]:
    """With given statistics: a factor and a summand for each channel."""
    if node.outputs != 1 or node.integer("training_mode", 0):
        raise Unproved("it normalises by the batch's own mean and variance: it is in training mode")
    node.parameters(1)
    return [flow.along(node.input(0), [1])]  # along the channels, parameters differ


def _instance_norm(node: Node) -> list[Value]:
    node.parameters(1)
    flow.only_first(node.input(0), "the normalisation")
    return [node.input(0).without_entries()]


def _local_norm(node: Node) -> list[Value]:
    return [flow.along(node.input(0), [1])]


# Products.


def _matmul(node: Node) -> list[Value]:
    return [flow.product_of_matrices(node.input(0), node.input(1))]


def matrix(value: Value, turned: int) -> Value:
    """A matrix, its last two axes exchanged if asked."""
    if value.rank < 2:
        raise Unproved("an operand of a product of matrices has no two axes")
    order = list(range(value.rank))
    return flow.transposed(value, [*order[:-2], order[-1], order[-2]]) if turned else value


def gemm(node: Node) -> list[Value]:
    if node.input(0).rank != 2 or node.input(1).rank != 2:
        raise Unproved("an operand is no matrix")
    left, right = matrix(node.input(0), node.integer("transA", 0)), matrix(node.input(1), node.integer("transB", 0))
    return [flow.same_shape(flow.product_of_matrices(left, right), node.all()[2:])]


def convolution(node: Node) -> list[Value]:
    """Sums over channels and windows; axis 0 of the input is the batch by definition."""
    value, weights = node.input(0), node.input(1)
    node.parameters(1)
    flow.only_first(value, "a convolution")
    if value.rank != weights.rank or value.rank < 3:
        raise Unproved("image and weights have different ranks")
    return [windows(node, value, weights.shape[0], weights.shape[2:])]


def windows(node: Node, value: Value, channels: Extent, kernel: Sequence[Extent]) -> Value:
    """The shape after a window has slid over all axes from 2 on; channels may change, rows stay."""
    sizes = zip(value.shape[2:], kernel, strict=True)
    spatial = [_slid(node, axis, size, window) for axis, (size, window) in enumerate(sizes)]
    return Value((value.shape[0], channels, *spatial), value.axis, value.outer)


def _slid(node: Node, axis: int, size: Extent, window: Extent) -> Extent:
    """The number of places of a window on one axis, if it follows from numbers."""
    pads, strides, dilations = node.numbers("pads"), node.numbers("strides"), node.numbers("dilations")
    if size.number is None or window.number is None or node.text("auto_pad", "NOTSET") != "NOTSET":
        return unknown()
    half = len(pads) // 2 if pads else 0
    padded = size.number + (pads[axis] + pads[axis + half] if pads else 0)
    rest = padded - (dilations[axis] if dilations else 1) * (window.number - 1) - 1
    stride = strides[axis] if strides else 1
    if stride < 1:
        raise Unproved("its stride is not positive")
    if rest < 0 or (node.integer("ceil_mode", 0) and rest % stride):
        return unknown()
    return Extent(rest // stride + 1)


def pool(node: Node) -> list[Value]:
    """Windows over the axes from 2 on, each channel for itself."""
    value, kernel = node.input(0), node.numbers("kernel_shape")
    if kernel is None or len(kernel) != value.rank - 2:
        raise Unproved("its window does not fit its operand")
    if value.axis not in (None, 0):
        raise Unproved(f"the batch has moved to axis {value.axis}")
    return [windows(node, value, value.shape[1], [Extent(size) for size in kernel])]  # of MaxPool: not the indices


def global_pool(node: Node) -> list[Value]:
    value = node.input(0)
    return [flow.reduced(value, range(2, value.rank), keep=True)]


def _einsum(node: Node) -> list[Value]:
    return [flow.summed(node.text("equation", ""), node.all())]


# The same entries at other places.


def _reshape(node: Node) -> list[Value]:
    value, target = node.input(0), node.input(1).known
    if target is None:
        raise Unproved("its target is not known")
    return [flow.reshaped(value, _target(value, target, node), node.batch)]


def _target(value: Value, target: Sequence[Extent | float], node: Node) -> list[Extent]:
    """The extents that a reshape asks for: 0 means as before, −1 means the rest."""
    found: list[Extent | None] = []
    for axis, size in enumerate(target):
        if not isinstance(size, Extent) or size.count < -1 or (size.count == -1 and size.symbols):
            raise Unproved("its target is not made of extents")
        if size.count == 0 and (node.integer("allowzero", 0) or axis >= value.rank or size.symbols):
            raise Unproved("its target holds a zero")
        found.append(None if size.count == -1 else value.shape[axis] if size.count == 0 else size)
    if found.count(None) > 1:
        raise Unproved("its target leaves two extents open")
    others = product(size for size in found if size is not None)
    rest = flow.counted(product(value.shape), node.batch).over(flow.counted(others, node.batch))
    if None in found and rest is None:
        raise Unproved(f"the open extent of its target does not follow from [{value}]")
    return [rest if size is None and rest is not None else size or ONE for size in found]


def _flatten(node: Node) -> list[Value]:
    value = node.input(0)
    axis = node.integer("axis", 1)
    cut = axis if axis == value.rank else axis_of(axis, value.rank)
    return [flow.reshaped(value, [product(value.shape[:cut]), product(value.shape[cut:])], node.batch)]


def _squeeze(node: Node) -> list[Value]:
    value = node.input(0)
    axes = node.listed("axes", 1, 13)
    if axes is None:
        if any(size.number is None for size in value.shape):
            raise Unproved("it takes away every axis of extent 1, the batch axis too when there is one row")
        axes = tuple(axis for axis, size in enumerate(value.shape) if size == ONE)
    return [flow.squeezed(value, axes)]


def _unsqueeze(node: Node) -> list[Value]:
    axes = node.listed("axes", 1, 13)
    if axes is None:
        raise Unproved("it has no axes")
    return [flow.inserted(node.input(0), axes)]


def _transpose(node: Node) -> list[Value]:
    value = node.input(0)
    return [flow.transposed(value, node.numbers("perm") or tuple(reversed(range(value.rank))))]


def _concat(node: Node) -> list[Value]:
    if "axis" not in node.attributes:
        raise Unproved("it has no axis")
    return [flow.concatenated(node.all(), node.integer("axis", 0), node.batch)]


def _split(node: Node) -> list[Value]:
    value = node.input(0)
    axis = axis_of(node.integer("axis", 0), value.rank)
    sizes = node.listed("split", 1, 13)
    length = value.shape[axis].number
    if sizes is not None and len(sizes) != node.outputs:
        raise Unproved("it has another number of parts than of outputs")
    if sizes is None and length is not None and length % node.outputs == 0:
        sizes = (length // node.outputs,) * node.outputs
    parts = [unknown() for _ in range(node.outputs)] if sizes is None else [Extent(size) for size in sizes]
    return [flow.resized(value, axis, part) for part in parts]


def _slice(node: Node) -> list[Value]:
    value = node.input(0)
    starts, ends = _bounds(node, "starts", 1), _bounds(node, "ends", 2)
    axes = node.listed("axes", 3, 10) or tuple(range(len(starts)))
    steps = (integers(node.input(4), "steps") if node.optional(4) is not None else ()) or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) == len({axis % max(value.rank, 1) for axis in axes}):
        raise Unproved("starts, ends, axes and steps do not fit together")
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        value = _cut(value, axis_of(axis, value.rank), start, end, step)
    return [value.without_entries()]


def _bounds(node: Node, name: str, number: int) -> tuple[Extent, ...]:
    if node.opset < 10:
        return tuple(Extent(entry) for entry in node.numbers(name) or ())
    known = node.input(number).known
    if known is None or not all(isinstance(entry, Extent) for entry in known):
        raise Unproved(f"{name} is not known")
    return tuple(entry for entry in known if isinstance(entry, Extent))


def _cut(value: Value, axis: int, start: Extent, end: Extent, step: int) -> Value:
    """One axis of a slice. The whole of an axis is the only slice that there is of the batch."""
    size = value.shape[axis]
    if start == Extent(0) and step == 1 and (end == size or (end.number or 0) >= LARGEST):
        return value
    if size.number is None or start.number is None or end.number is None:
        if start.of_batch or end.of_batch:
            raise Unproved("it cuts at a place that depends on the batch size")
        return flow.resized(value, axis, unknown())
    return flow.resized(value, axis, Extent(len(range(*slice(start.number, end.number, step).indices(size.number)))))


def _gather(node: Node) -> list[Value]:
    """Entries along one axis, picked by indices."""
    value, indices = node.input(0), node.input(1)
    axis = axis_of(node.integer("axis", 0), value.rank)
    shape = (*value.shape[:axis], *indices.shape, *value.shape[axis + 1 :])
    if indices.kind is Kind.POSITION:
        return [_own_entries(value, indices, axis, shape)]
    flow.data(indices)
    if value.axis is None:  # rows pick from a table that is the same for all
        return [Value(shape, None if indices.axis is None else axis + indices.axis, indices.outer)]
    if indices.axis is not None or value.axis == axis:
        raise Unproved("it picks entries of other rows, or makes every row meet every row")
    return [Value(shape, value.axis if value.axis < axis else value.axis + indices.rank - 1, value.outer)]


def _own_entries(value: Value, indices: Value, axis: int, shape: tuple[Extent, ...]) -> Value:
    """Rows lie one after the other, `inner` entries each, and index scale · b + offset with scale = inner and
    0 ≤ offset < inner is an entry of row b: a row picks from itself, in the same way for every b."""
    scale, low, high = indices.offsets
    inner = None if value.axis is None else value.shape[axis].over(BATCH)
    if (
        value.axis != axis
        or value.outer != ONE
        or inner is None
        or inner.number != scale
        or not 0 <= low <= high < scale
    ):
        raise Unproved("it picks entries by the row's position")
    if indices.axis is None or indices.outer != ONE or indices.shape[indices.axis] != BATCH:
        raise Unproved("it picks entries by something that is not one number for each row")
    return Value(shape, axis + indices.axis)


def _pad(node: Node) -> list[Value]:
    value = node.input(0)
    node.parameters(1)
    pads = node.listed("pads", 1, 11)
    axes = integers(node.input(3), "axes") if node.optional(3) is not None else tuple(range(value.rank))
    if pads is None or len(pads) != 2 * len(axes):
        raise Unproved("its pads do not fit its operand")
    for number, axis in enumerate(axes):
        before, after = pads[number], pads[number + len(axes)]
        if (before, after) != (0, 0):
            size = value.shape[axis_of(axis, value.rank)].number
            value = flow.resized(value, axis, unknown() if size is None else Extent(size + before + after))
    return [value.without_entries()]


def _expand(node: Node) -> list[Value]:
    return [flow.expanded(node.input(0), extents(node.input(1), "its target"), node.batch)]


def _tile(node: Node) -> list[Value]:
    return [flow.tiled(node.input(0), extents(node.input(1), "the number of repeats"))]


def extents(value: Value, what: str) -> list[Extent]:
    """The entries of a tensor that must be known and positive; they may hold the batch size."""
    if value.known is None:
        raise Unproved(f"{what} is not known")
    found = [entry for entry in value.known if isinstance(entry, Extent)]
    if len(found) != len(value.known) or any(entry.count < 1 for entry in found):
        raise Unproved(f"{what} is not made of positive extents")
    return found


def _constant(node: Node) -> list[Value]:
    if len(node.attributes) != 1:
        raise Unproved("a constant with more than one value")
    ((_, value),) = node.attributes.items()
    if isinstance(value, Value):
        return [value]
    if isinstance(value, str):
        raise Unproved("a constant that is text")
    entries = value if isinstance(value, tuple) else (value,)
    shape = (len(value),) if isinstance(value, tuple) else ()
    return [constant(shape, tuple(Extent(entry) if isinstance(entry, int) else entry for entry in entries))]


def _range(node: Node) -> list[Value]:
    """Numbers from constants; those from the batch size are in `onnx_sizes`."""
    node.parameters(0)
    return [Value((unknown(),))]


def _shape(node: Node) -> list[Value]:
    raise Unproved("the shape of something without one")  # `onnx_sizes` knows every shape


def _constant_of_shape(node: Node) -> list[Value]:
    """The same entry everywhere: rows that are all alike, if the batch size is asked for."""
    target = extents(node.input(0), "its shape")
    return [flow.expanded(constant((1,) * len(target)), target, node.batch)]


def _each(names: str, one: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), one)


_SPATIAL = "auto_pad dilations kernel_shape pads strides"
_POOL = f"{_SPATIAL} ceil_mode count_include_pad storage_order p"
_REDUCE = "axes keepdims noop_with_empty_axes"
_ONE_OPERAND = rule(_elementwise, most=1)

RULES: dict[str, Rule] = {
    **_each("Abs Neg Exp Log Sqrt Reciprocal Relu Sigmoid Softsign Tanh Floor Ceil Not Identity", _ONE_OPERAND),
    **_each("MemcpyFromHost MemcpyToHost", _ONE_OPERAND),  # the runtime's own, between devices
    **_each("Sin Cos Tan Asin Acos Atan Softplus", _ONE_OPERAND),
    **_each("Erf Sign Sinh Cosh Asinh Acosh Atanh IsNaN", rule(_elementwise, since=9, most=1)),
    **_each("LeakyRelu Elu", rule(_elementwise, "alpha", most=1)),
    "Selu": rule(_elementwise, "alpha gamma", most=1),
    "HardSigmoid": rule(_elementwise, "alpha beta", most=1),
    "Celu": rule(_elementwise, "alpha", since=12, most=1),
    "ThresholdedRelu": rule(_elementwise, "alpha", since=10, most=1),
    "Round": rule(_elementwise, since=11, most=1),
    "HardSwish": rule(_elementwise, since=14, most=1),
    "Mish": rule(_elementwise, since=18, most=1),
    "Gelu": rule(_elementwise, "approximate", since=20, most=1),
    "Swish": rule(_elementwise, "alpha", since=24, most=1),
    "IsInf": rule(_elementwise, "detect_negative detect_positive", since=10, most=1),
    "Shrink": rule(_elementwise, "bias lambd", since=9, most=1),
    "Cast": rule(_cast, "to saturate", since=9, most=1),
    "Clip": rule(_first_decides, "min max", most=3),
    **_each("Add Sub Mul Div Pow And Or Xor Equal Greater Less", rule(_elementwise, most=2)),
    **_each("GreaterOrEqual LessOrEqual", rule(_elementwise, since=12, most=2)),
    "Mod": rule(_elementwise, "fmod", since=10, most=2),
    "PRelu": rule(_first_decides, since=9, most=2),
    **_each("Max Min Mean Sum", rule(_elementwise, since=8)),
    "Where": rule(_elementwise, since=9, most=3),
    "Dropout": rule(_dropout, "seed ratio", most=3),
    "ReduceSum": rule(_reduce(13), _REDUCE, most=2),
    **_each("ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2", rule(_reduce(18), _REDUCE, most=2)),
    **_each("ReduceLogSum ReduceLogSumExp ReduceSumSquare", rule(_reduce(18), _REDUCE, most=2)),
    **_each("ArgMax ArgMin", rule(_arg, "axis keepdims select_last_index", most=1)),
    **_each("Softmax LogSoftmax Hardmax", rule(_softmax, "axis", most=1)),
    "LpNormalization": rule(_along_axis(-1), "axis p", most=1),
    "CumSum": rule(_cumsum, "exclusive reverse", since=11, most=2),
    "MeanVarianceNormalization": rule(_mean_variance, "axes", since=9, most=1),
    "TopK": rule(_top, "axis largest sorted", since=10, most=2),
    "Trilu": rule(_triangle, "upper", since=14, most=2),
    "LayerNormalization": rule(_layer_norm, "axis epsilon stash_type", most=3),  # the runtime has it in all opsets
    "SimplifiedLayerNormalization": rule(_layer_norm, "axis epsilon stash_type", most=2),  # the runtime's own
    "RMSNormalization": rule(_layer_norm, "axis epsilon stash_type", since=23, most=2),
    "BatchNormalization": rule(_batch_norm, "epsilon momentum training_mode", most=5),
    "InstanceNormalization": rule(_instance_norm, "epsilon", most=3),
    "GroupNormalization": rule(_instance_norm, "epsilon num_groups stash_type", since=18, most=3),
    "LRN": rule(_local_norm, "alpha beta bias size", most=1),
    "MatMul": rule(_matmul, most=2),
    "Gemm": rule(gemm, "alpha beta transA transB", most=3),
    "Conv": rule(convolution, f"{_SPATIAL} group", most=3),
    **_each("AveragePool MaxPool LpPool", rule(pool, _POOL, most=1)),
    **_each("GlobalAveragePool GlobalMaxPool GlobalLpPool", rule(global_pool, "p", most=1)),
    "Einsum": rule(_einsum, "equation", since=12),
    "Reshape": rule(_reshape, "allowzero", sizes=(1,), most=2),
    "Flatten": rule(_flatten, "axis", most=1),
    "Squeeze": rule(_squeeze, "axes", most=2),
    "Unsqueeze": rule(_unsqueeze, "axes", most=2),
    "Transpose": rule(_transpose, "perm", most=1),
    "Concat": rule(_concat, "axis"),
    "Split": rule(_split, "axis split num_outputs", most=2),
    "Slice": rule(_slice, "starts ends axes", sizes=(1, 2), most=5),
    "Gather": rule(_gather, "axis", sizes=(1,), most=2),
    "Pad": rule(_pad, "pads mode value", most=4),
    "Expand": rule(_expand, since=8, sizes=(1,), most=2),
    "Tile": rule(_tile, sizes=(1,), most=2),
    "Constant": rule(_constant, "value value_int value_ints value_float value_floats", most=0),
    "Shape": rule(_shape, "start end", sizes=(0,), most=1),
    "Range": rule(_range, since=11, most=3),
    "ConstantOfShape": rule(_constant_of_shape, "value", since=9, sizes=(0,), most=1),
}
