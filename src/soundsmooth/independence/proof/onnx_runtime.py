"""Operators that onnxruntime's optimizer puts in the place of ONNX's own: fused, or with channels in blocks.

ONNX has no schema for them: the numbers of operands and the forms of attributes are those of onnxruntime's own
definitions. In com.microsoft.nchwc a tensor [N, C, H, W] lies in memory as [N, C / block, H, W, block], with C rounded
up to whole blocks. Axis 0 stays outermost, so its rows stay whole whatever happens to the other axes.
"""

from . import flow
from .onnx_dialect import ACTIVATION, COUNT, FLAG, NUMBER, NUMBERS_LISTED, OFF, PADDING, PADS, SIZES
from .onnx_node import Node, Rule
from .onnx_rules import convolution, first_decides, gemm, global_pool, matrix, pool, rule
from .values import Unproved, Value


def _fused_convolution(node: Node) -> list[Value]:
    """A convolution, a summand and an activation; rows lie on axis 0."""
    (found,) = convolution(node)
    summand = node.optional(3)
    return [found] if summand is None else [flow.same_shape(found, [summand], node.batch)]


def _fused_product(node: Node) -> list[Value]:
    """A product of matrices, turned as the flags say, whose sums do not run over the batch axis."""
    left, right = (_fused_operand(node, number, side) for number, side in enumerate("AB"))
    return [node.checked(flow.product_of_matrices(left, right, node.batch))]


def _fused_operand(node: Node, number: int, side: str) -> Value:
    """transBatch: the first axis belongs behind the axes after it, before the last; then trans: the last two change."""
    value = node.input(number)
    if node.integer(f"transBatch{side}", 0):
        value = flow.transposed(value, [*range(1, value.rank - 1), 0, value.rank - 1])
    return matrix(value, node.integer(f"trans{side}", 0))


def _skip_layer_norm(node: Node) -> list[Value | None]:
    """Layer normalisation of input + skip + bias over the last axis; its fourth output is the sum itself."""
    value, skip = node.input(0), node.input(1)
    if skip.shape[-2:] != value.shape[-2:]:
        raise Unproved("what is added has another shape")
    bias = node.optional(4)
    total = node.checked(flow.same_shape(value, [skip, *([] if bias is None else [bias])], node.batch))
    return [flow.along(total, [-1]), None, None, total]


def _reorder_input(node: Node) -> list[Value]:
    """Channels into blocks, from [N, C, H, W] or [N, H, W, C]."""
    value = _image(node)
    rows, height, width = value.shape[0], *(value.shape[1:3] if node.integer("channels_last", 0) else value.shape[2:])
    return [node.checked(Value((rows, node.shape()[1], height, width), 0, value.outer))]


def _reorder_output(node: Node) -> list[Value]:
    """Channels out of blocks; those that filled the last block up are left out."""
    value, channels = _image(node), node.integer("channels", 0)
    rows, _, height, width = value.shape
    last = node.integer("channels_last", 0)
    shape = (rows, height, width, channels) if last else (rows, channels, height, width)
    return [node.checked(Value(shape, 0, value.outer))]


def _image(node: Node) -> Value:
    value = node.input(0)
    flow.only_first(value, "the blocks of channels")
    return value


_SPATIAL = {"auto_pad": PADDING, "dilations": SIZES, "kernel_shape": SIZES, "pads": PADS, "strides": SIZES}
_FUSED = {**_SPATIAL, "group": COUNT, "activation": ACTIVATION, "activation_params": NUMBERS_LISTED}
_POOL = {**_SPATIAL, "ceil_mode": FLAG}
_GEMM = {"alpha": NUMBER, "beta": NUMBER, "transA": FLAG, "transB": FLAG, "activation": ACTIVATION}
_GEMM |= {f"activation_{name}": NUMBER for name in ("alpha", "beta", "gamma")}

MICROSOFT: dict[str, Rule] = {
    "FusedConv": rule(_fused_convolution, _FUSED, constants=range(1, 3), operands=(2, 4)),
    "FusedGemm": rule(gemm, _GEMM, constants=2, operands=(2, 3)),
    "FusedMatMul": rule(
        _fused_product, operands=(2, 2), alpha=NUMBER, transA=FLAG, transB=FLAG, transBatchA=FLAG, transBatchB=FLAG
    ),
    "Gelu": rule(first_decides, operands=(1, 1)),
    "QuickGelu": rule(first_decides, operands=(1, 1), alpha=NUMBER),
    "BiasGelu": rule(first_decides, constants=1, operands=(2, 2)),
    "FastGelu": rule(first_decides, constants=1, operands=(1, 2)),
    "SkipLayerNormalization": rule(_skip_layer_norm, constants=2, operands=(3, 5), outputs=4, epsilon=NUMBER),
}

NCHWC: dict[str, Rule] = {
    "Conv": rule(_fused_convolution, _FUSED, constants=range(1, 3), operands=(2, 4)),
    "MaxPool": rule(pool, _POOL, operands=(1, 1), storage_order=OFF),
    "AveragePool": rule(pool, _POOL, operands=(1, 1), count_include_pad=FLAG),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool"), rule(global_pool, operands=(1, 1))),
    "ReorderInput": rule(_reorder_input, operands=(1, 1), channels_last=FLAG),
    "ReorderOutput": rule(_reorder_output, operands=(1, 1), channels=COUNT, channels_last=FLAG),
}
