"""Operators that onnxruntime's optimizer puts in the place of ONNX's own: fused, or with channels in blocks.

In com.microsoft.nchwc a tensor [N, C, H, W] lies in memory as [N, C / block, H, W, block], with C rounded up to whole
blocks. Axis 0 stays outermost, so its rows stay whole whatever happens to the other axes.
"""

from . import flow
from .extents import Extent, unknown
from .onnx_node import Node, Rule, rule
from .onnx_rules import convolution, gemm, global_pool, matrix, pool
from .values import Unproved, Value

ACTIVATIONS = ("", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid", "HardSwish", "Elu", "Gelu")


def _elementwise(node: Node) -> list[Value]:
    return [flow.same_shape(node.input(0), node.all()[1:])]


def _fused_convolution(node: Node) -> list[Value]:
    """activation(convolution + Z), entry by entry."""
    node.only("activation", *ACTIVATIONS)
    image, weights, bias = node.input(0), node.input(1), node.optional(2)
    (found,) = convolution(node.on(image, weights, *([] if bias is None else [bias])))
    summand = node.optional(3)
    if summand is not None and _rows(summand) != _rows(found):
        raise Unproved("what is added to the convolution is not made of the same rows")
    return [found]


def _rows(value: Value) -> tuple[int | None, Extent, Extent]:
    return value.axis, value.outer, value.shape[0]


def _fused_product(node: Node) -> list[Value]:
    left, right = (_fused_operand(node, number, side) for number, side in enumerate("AB"))
    return [flow.product_of_matrices(left, right)]


def _fused_operand(node: Node, number: int, side: str) -> Value:
    """transBatch: the first axis belongs behind the axes after it, before the last; then trans: the last two change."""
    value = node.input(number)
    if node.integer(f"transBatch{side}", 0):
        value = flow.transposed(value, [*range(1, value.rank - 1), 0, value.rank - 1])
    return matrix(value, node.integer(f"trans{side}", 0))


def _fused_gemm(node: Node) -> list[Value]:
    node.only("activation", *ACTIVATIONS)
    return gemm(node)


def _skip_layer_norm(node: Node) -> list[Value | None]:
    """Layer normalisation of input + skip + bias over the last axis; its fourth output is the sum itself."""
    value, skip = node.input(0), node.input(1)
    if skip.shape[-2:] != value.shape[-2:] or value.rank < 2:
        raise Unproved("what is added has another shape")
    total = flow.same_shape(value, [skip, *node.parameters(4)])
    node.parameters(2)
    return [flow.along(total, [-1]), None, None, total]


def _reorder_input(node: Node) -> list[Value]:
    """Channels into blocks, from [N, C, H, W] or [N, H, W, C]."""
    value = _image(node)
    rows, *rest = value.shape
    height, width = rest[:2] if node.integer("channels_last", 0) else rest[1:]
    return [Value((rows, unknown(), height, width), value.axis, value.outer)]


def _reorder_output(node: Node) -> list[Value]:
    """Channels out of blocks; those that filled the last block up are left out."""
    value = _image(node)
    rows, _, height, width = value.shape
    channels = Extent(node.integer("channels", 0))
    shape = (rows, height, width, channels) if node.integer("channels_last", 0) else (rows, channels, height, width)
    return [Value(shape, value.axis, value.outer)]


def _image(node: Node) -> Value:
    value = node.input(0)
    flow.only_first(value, "the blocks of channels")
    if value.rank != 4:
        raise Unproved("its operand is no batch of images")
    return value


_SPATIAL = "auto_pad dilations kernel_shape pads strides"
_FUSED = f"{_SPATIAL} group activation activation_params"
_POOL = f"{_SPATIAL} ceil_mode count_include_pad storage_order"

MICROSOFT: dict[str, Rule] = {
    "FusedConv": rule(_fused_convolution, _FUSED, most=4),
    "FusedGemm": rule(
        _fused_gemm, "alpha beta transA transB activation activation_alpha activation_beta activation_gamma", most=3
    ),
    "FusedMatMul": rule(_fused_product, "alpha transA transB transBatchA transBatchB", most=2),
    "Gelu": rule(_elementwise, most=1),
    "QuickGelu": rule(_elementwise, "alpha", most=1),
    "BiasGelu": rule(_elementwise, most=2),
    "FastGelu": rule(_elementwise, most=2),
    "SkipLayerNormalization": rule(_skip_layer_norm, "epsilon", most=5),
}

NCHWC: dict[str, Rule] = {
    "Conv": rule(_fused_convolution, _FUSED, most=4),
    "MaxPool": rule(pool, _POOL, most=1),
    "AveragePool": rule(pool, _POOL, most=1),
    "GlobalMaxPool": rule(global_pool, most=1),
    "GlobalAveragePool": rule(global_pool, most=1),
    "ReorderInput": rule(_reorder_input, "channels_last", most=1),
    "ReorderOutput": rule(_reorder_output, "channels channels_last", most=1),
}
