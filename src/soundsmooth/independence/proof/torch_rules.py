"""ATen operators: what each does with the rows of a batch. Before decomposition, so that the fast kernels stay.

Each operator is listed with the names of its arguments; if a version of torch has others, the call is not proved.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from . import flow
from .torch_call import Call
from .values import Unproved, Value, axis_of

if TYPE_CHECKING:
    from torch._ops import OpOverload

Flow = Callable[[Call], Value | list[Value]]

#: Resizes that mix neighbours, by the number of axes.
SMOOTH_RESIZES = {
    1: "upsample_linear1d.vec",
    2: "upsample_bilinear2d.vec upsample_bicubic2d.vec",
    3: "upsample_trilinear3d.vec",
}


@dataclass(frozen=True)
class AtenRule:
    flow: Flow
    arguments: tuple[str, ...]
    fresh: bool = False
    """The result is new memory, never a view of an operand or the operand itself."""
    overlaps: bool = False
    """The result may be a view in which several entries, perhaps of different rows, are one place in memory."""
    lends: str | None = None
    """The argument that gives its shape, type or device, and none of its entries."""
    indices: bool = False
    """Its integers are places on an axis, and no rounded numbers."""
    only: tuple[Mapping[str, object], ...] = ()
    """Arguments must be as one of these says, wherever the call stands: otherwise it draws at random, or writes over
    its statistics, which its schema does not say."""


# One entry of each operand makes one entry of the result.


def _elementwise(call: Call) -> Value:
    """Also where it is written into the first operand: `torch_memory` shows that nobody sees the old entries again."""
    return call.checked(flow.elementwise(call.tensors(), call.batch))


def _constants_only(call: Call) -> Value:
    raise Unproved("it picks or counts in a way that is only proved for constants")


# Products.


def _linear(call: Call) -> Value:
    call.parameters("weight", "bias")
    weight = flow.transposed(call.tensor("weight"), [1, 0])
    found = flow.product_of_matrices(call.tensor("input"), weight, call.batch)
    added = (
        [] if call.arguments["bias"] is None else [call.tensor("bias")]
    )  # torch takes one with an entry for each row
    return call.checked(flow.elementwise([found, *added], call.batch))


def _product(left: str, right: str, added: str | None = None) -> Flow:
    def product(call: Call) -> Value:
        found = flow.product_of_matrices(call.tensor(left), call.tensor(right), call.batch)
        return call.checked(found if added is None else flow.elementwise([found, call.tensor(added)], call.batch))

    return product


def _convolution(call: Call) -> Value:
    """Axis 0 is the batch by definition, if the image has as many axes as the weights; with one less it has none."""
    value = call.tensor("input")
    call.parameters("weight", "bias")
    if value.rank != call.tensor("weight").rank:
        raise Unproved("it takes its operand for one image without a batch axis")
    flow.only_first(value, "a convolution")
    return call.result(value.axis, value.outer)


def _attention(call: Call) -> Value:
    """softmax(q kᵀ + mask) v over the last two axes; the first ones are broadcast."""
    query, key, value = (call.tensor(name) for name in ("query", "key", "value"))
    scores = flow.product_of_matrices(query, _turned(key), call.batch)
    if call.arguments["attn_mask"] is not None:
        scores = flow.elementwise([scores, call.tensor("attn_mask")], call.batch)
    scores = flow.along(scores, [-1, -2])  # −2: a causal mask differs along it
    return call.checked(flow.product_of_matrices(scores, value, call.batch))


def _einsum(call: Call) -> Value:
    return call.checked(flow.summed(call.arguments["equation"], call.tensors()))


def _turned(value: Value) -> Value:
    order = list(range(value.rank))
    return flow.transposed(value, [*order[:-2], order[-1], order[-2]])


# Entries are combined along some axes.


def _over_pixels(axes: int, name: str = "self") -> Flow:
    """Pools and resizes: windows over the last axes, everything else for itself."""

    def over_pixels(call: Call) -> Value:
        value = flow.along(call.tensor(name), range(-axes, 0))
        return call.result(value.axis, value.outer)

    return over_pixels


def _reduction(call: Call) -> Value:
    return call.checked(flow.reduced(call.tensor("self"), call.axes("dim"), bool(call.arguments["keepdim"])))


def _reduction_with_index(call: Call) -> list[Value]:
    found = _reduction(call)
    return [found, found]


def _along(call: Call) -> Value:
    return call.checked(flow.along(call.tensor("self"), call.axes("dim")))


def _sorted(call: Call) -> list[Value]:
    value = flow.along(call.tensor("self"), call.axes("dim"))
    found = call.result(value.axis, value.outer)
    return [found, found]


def _moved_along(call: Call) -> Value:
    """roll, flip."""
    return call.checked(flow.along(call.tensor("self"), call.axes("dims")))


def _half(call: Call) -> Value:
    """glu: one half of an axis gates the other."""
    value = flow.along(call.tensor("self"), call.axes("dim"))
    return call.result(value.axis, value.outer)


def _batch_norm(call: Call) -> Value:
    """By given statistics: torch asks for them where it does not train. (Weights may be standardised by their own.)"""
    if call.arguments["training"]:
        raise Unproved("it normalises by the batch's own mean and variance")
    call.parameters("weight", "bias", "running_mean", "running_var")
    return call.checked(flow.along(call.tensor("input"), [1]))


def _layer_norm(call: Call) -> Value:
    value = call.tensor("input")
    value = flow.along(value, range(-len(call.integers("normalized_shape")), 0))
    return call.checked(flow.elementwise([value, *call.tensors()[1:]], call.batch))


def _group_norm(call: Call) -> Value:
    """Also of instances, where each channel is a group."""
    call.parameters("weight", "bias")
    flow.only_first(call.tensor("input"), "the normalisation")
    return call.checked(call.tensor("input"))


# The same entries at other places.


def _reshaped(call: Call) -> Value:
    return flow.reshaped(call.tensor("self"), call.shape(), call.batch)


def _permuted(call: Call) -> Value:
    return call.checked(flow.transposed(call.tensor("self"), call.integers("dims")))


def _exchanged(first: str, second: str) -> Flow:
    def exchanged(call: Call) -> Value:
        value = call.tensor("self")
        order = list(range(value.rank))
        one, other = (axis_of(call.integer(name), value.rank) for name in (first, second))
        order[one], order[other] = other, one
        return call.checked(flow.transposed(value, order))

    return exchanged


def _matrix_turned(call: Call) -> Value:
    value = call.tensor("self")
    return call.checked(flow.transposed(value, tuple(reversed(range(value.rank)))))


def _unsqueezed(call: Call) -> Value:
    return call.checked(flow.inserted(call.tensor("self"), [call.integer("dim")]))


def _squeezed(call: Call) -> Value:
    """Only axes of extent 1 go; the batch axis may not be named, for it would go when there is one row."""
    value = flow.along(call.tensor("self"), call.axes("dim"))
    named = {axis_of(axis, value.rank) for axis in call.axes("dim")}
    return call.checked(flow.dropped(value, {axis for axis in named if value.shape[axis] == 1}))


def _expanded(call: Call) -> Value:
    return call.checked(flow.expanded(call.tensor("self"), call.shape()))


def _repeated(call: Call) -> Value:
    """New axes come first."""
    value, repeats = call.tensor("self"), call.integers("repeats")
    return call.checked(flow.tiled(flow.inserted(value, range(len(repeats) - value.rank)), repeats))


def _concatenated(call: Call) -> Value:
    return call.checked(flow.concatenated(call.tensors(), call.integer("dim"), call.batch))


def _stacked(call: Call) -> Value:
    dim = call.integer("dim")
    return call.checked(flow.concatenated([flow.inserted(value, [dim]) for value in call.tensors()], dim, call.batch))


def _parts(call: Call) -> list[Value]:
    value = flow.along(call.tensor("self"), call.axes("dim"))
    return [call.result(value.axis, value.outer, number) for number in range(len(call.shapes))]


def _unbound(call: Call) -> list[Value]:
    part = _selected_axis(call)
    return [call.checked(part, number) for number in range(len(call.shapes))]


def _selected(call: Call) -> Value:
    return call.checked(_selected_axis(call))


def _selected_axis(call: Call) -> Value:
    value = call.tensor("self")
    return flow.dropped(value, {axis_of(call.integer("dim"), value.rank)})


def _sliced(call: Call) -> Value:
    """The whole of an axis is the only slice that there is of the batch."""
    value = call.tensor("self")
    axis = axis_of(call.integer("dim"), value.rank)
    if call.arguments["step"] == 1 and call.shape() == value.shape:
        return value
    value = flow.along(value, [axis])
    return call.result(value.axis, value.outer)


def _padded(call: Call) -> Value:
    """Pairs of numbers, for the last axis first."""
    value, pads = call.tensor("self"), call.integers("pad")
    touched = [value.rank - 1 - number // 2 for number, pad in enumerate(pads) if pad]
    value = flow.along(value, touched)
    return call.result(value.axis, value.outer)


def _looked_up(call: Call) -> Value:
    """Rows pick from a table that is the same for all."""
    call.parameters("weight")
    indices = call.tensor("indices")
    return call.result(indices.axis, indices.outer)


def _picked(call: Call) -> Value:
    call.parameters("index")
    value = flow.along(call.tensor("self"), call.axes("dim"))
    return call.result(value.axis, value.outer)


def _shuffled(call: Call) -> Value:
    """pixel_shuffle: channels become pixels, within the last three axes."""
    value = flow.along(call.tensor("self"), [-1, -2, -3])
    return call.result(value.axis, value.outer)


def _table() -> dict[str, AtenRule]:
    rules: dict[str, AtenRule] = {}

    def add(
        flow: Flow,
        names: str,
        arguments: str,
        fresh: bool = False,
        overlaps: bool = False,
        lends: str | None = None,
        indices: bool = False,
        only: tuple[Mapping[str, object], ...] = (),
    ) -> None:
        rule = AtenRule(flow, tuple(arguments.split()), fresh, overlaps, lends, indices, only)
        rules.update((name if "." in name else f"{name}.default", rule) for name in names.split())

    def pointwise(names: str, arguments: str = "self") -> None:
        """With the in-place form of each operator that has one."""
        add(_elementwise, names, arguments, fresh=True)
        for name in names.split():
            operator, dot, overload = name.partition(".")
            add(_elementwise, f"{operator}_{dot}{overload}", arguments)

    pointwise(
        "relu relu6 silu mish sigmoid tanh hardswish hardsigmoid selu exp log log2 log1p expm1 sqrt rsqrt abs neg"
    )
    pointwise("sin cos erf reciprocal floor ceil round sign square logical_not")
    pointwise("gelu", "self approximate")
    pointwise("hardtanh", "self min_val max_val")
    pointwise("leaky_relu", "self negative_slope")
    pointwise("elu", "self alpha scale input_scale")
    pointwise("celu", "self alpha")
    pointwise("clamp", "self min max")
    pointwise("clamp_min", "self min")
    pointwise("clamp_max", "self max")
    pointwise("add.Tensor add.Scalar sub.Tensor sub.Scalar", "self other alpha")
    pointwise("mul.Tensor mul.Scalar div.Tensor div.Scalar logical_and logical_or", "self other")
    add(_elementwise, "softplus", "self beta threshold", fresh=True)  # these have no form in place
    add(_elementwise, "pow.Tensor_Scalar pow.Tensor_Tensor", "self exponent", fresh=True)
    add(_elementwise, "rsub.Scalar", "self other alpha", fresh=True)
    add(_elementwise, "maximum minimum", "self other", fresh=True)
    for test in ("eq", "ne", "lt", "gt", "le", "ge"):
        pointwise(f"{test}.Scalar {test}.Tensor", "self other")
    pointwise("masked_fill.Scalar", "self mask value")
    pointwise("addcmul", "self tensor1 tensor2 value")
    pointwise("lerp.Tensor lerp.Scalar", "self end weight")
    add(_elementwise, "where.self where.ScalarSelf where.ScalarOther", "condition self other", fresh=True)
    add(_elementwise, "clone", "self memory_format", fresh=True)
    add(_elementwise, "lift_fresh_copy", "self", fresh=True)
    add(_elementwise, "contiguous", "self memory_format")
    add(_elementwise, "detach alias", "self")
    add(_elementwise, "type_as", "self other", lends="other")
    add(_elementwise, "to.dtype", "self dtype non_blocking copy memory_format")
    add(_elementwise, "to.device", "self device dtype non_blocking copy memory_format")
    add(
        _elementwise,
        "to.dtype_layout",
        "self dtype layout device pin_memory non_blocking copy memory_format",
    )
    add(_elementwise, "_to_copy", "self dtype layout device pin_memory non_blocking memory_format", fresh=True)
    add(_elementwise, "dropout feature_dropout", "input p train", only=({"train": False},))
    add(_elementwise, "dropout_", "self p train", only=({"train": False},))

    made = "dtype layout device pin_memory"
    add(_constants_only, "zeros ones", f"size {made}", fresh=True)
    add(_constants_only, "full", f"size fill_value {made}", fresh=True)
    add(_constants_only, "new_zeros new_ones", f"self size {made}", fresh=True, lends="self")
    add(_constants_only, "new_full", f"self size fill_value {made}", fresh=True, lends="self")
    add(_constants_only, "arange", f"end {made}", fresh=True)
    add(_constants_only, "arange.start", f"start end {made}", fresh=True)
    add(_constants_only, "arange.start_step", f"start end step {made}", fresh=True)
    add(_constants_only, "linspace", f"start end steps {made}", fresh=True)
    add(_constants_only, "scalar_tensor", f"s {made}", fresh=True)

    add(_linear, "linear", "input weight bias", fresh=True)
    add(_product("self", "other"), "matmul", "self other", fresh=True)
    add(_product("self", "mat2"), "mm bmm", "self mat2", fresh=True)
    add(_product("mat1", "mat2", "self"), "addmm", "self mat1 mat2 beta alpha", fresh=True)
    add(_product("batch1", "batch2", "self"), "baddbmm", "self batch1 batch2 beta alpha", fresh=True)
    add(
        _convolution,
        "conv1d conv2d conv3d conv1d.padding conv2d.padding conv3d.padding",
        "input weight bias stride padding dilation groups",
        fresh=True,
    )
    add(
        _attention,
        "scaled_dot_product_attention",
        "query key value attn_mask dropout_p is_causal scale enable_gqa",
        fresh=True,
        only=({"dropout_p": 0.0},),
    )
    add(_einsum, "einsum", "equation tensors path")
    add(_elementwise, "zero_", "self")
    add(_elementwise, "fill_.Scalar fill_.Tensor", "self value")
    for axes in (1, 2, 3):
        divisor = "" if axes == 1 else " divisor_override"
        add(_over_pixels(axes), f"max_pool{axes}d", "self kernel_size stride padding dilation ceil_mode", fresh=True)
        add(
            _over_pixels(axes),
            f"avg_pool{axes}d",
            f"self kernel_size stride padding ceil_mode count_include_pad{divisor}",
            fresh=True,
        )
        add(_over_pixels(axes), f"adaptive_avg_pool{axes}d", "self output_size", fresh=True)
        resized = _over_pixels(axes, "input")
        add(resized, f"upsample_nearest{axes}d.vec", "input output_size scale_factors", fresh=True)
        add(resized, SMOOTH_RESIZES[axes], "input output_size align_corners scale_factors", fresh=True)
    add(_reduction, "mean.dim sum.dim_IntList prod.dim_int", "self dim keepdim dtype", fresh=True)
    add(_reduction, "amax amin logsumexp", "self dim keepdim", fresh=True)
    add(_reduction, "argmax argmin", "self dim keepdim", fresh=True, indices=True)
    add(_reduction, "var.dim std.dim", "self dim unbiased keepdim", fresh=True)
    add(_reduction, "var.correction std.correction", "self dim correction keepdim", fresh=True)
    add(_reduction, "linalg_vector_norm", "self ord dim keepdim dtype", fresh=True)
    add(_reduction_with_index, "max.dim min.dim", "self dim keepdim", fresh=True, indices=True)
    add(_along, "softmax.int log_softmax.int cumsum", "self dim dtype", fresh=True)
    add(_sorted, "topk", "self k dim largest sorted", fresh=True, indices=True)
    add(_sorted, "sort", "self dim descending", fresh=True, indices=True)
    add(_moved_along, "roll", "self shifts dims", fresh=True)
    add(_moved_along, "flip", "self dims", fresh=True)
    add(_half, "glu", "self dim", fresh=True)
    add(
        _batch_norm,
        "batch_norm",
        "input weight bias running_mean running_var training momentum eps cudnn_enabled",
        fresh=True,
        only=({"training": False}, {"running_mean": None, "running_var": None}),
    )
    add(_layer_norm, "layer_norm", "input normalized_shape weight bias eps cudnn_enable", fresh=True)
    add(_layer_norm, "rms_norm", "input normalized_shape weight eps", fresh=True)
    add(_group_norm, "group_norm", "input num_groups weight bias eps cudnn_enabled", fresh=True)
    add(
        _group_norm,
        "instance_norm",
        "input weight bias running_mean running_var use_input_stats momentum eps cudnn_enabled",
        fresh=True,
        only=({"running_mean": None, "running_var": None},),
    )

    add(_reshaped, "view _unsafe_view", "self size")
    add(_reshaped, "reshape", "self shape")
    add(_reshaped, "reshape_as view_as", "self other", lends="other")
    add(_reshaped, "flatten.using_ints", "self start_dim end_dim")
    add(_reshaped, "unflatten.int", "self dim sizes")
    add(_permuted, "permute", "self dims")
    add(_exchanged("dim0", "dim1"), "transpose.int", "self dim0 dim1")
    add(_exchanged("axis0", "axis1"), "swapaxes", "self axis0 axis1")
    add(_matrix_turned, "t numpy_T", "self")
    add(_unsqueezed, "unsqueeze", "self dim")
    add(_squeezed, "squeeze.dim squeeze.dims", "self dim")
    add(_expanded, "expand", "self size implicit", overlaps=True)
    add(_expanded, "expand_as", "self other", overlaps=True, lends="other")
    add(_repeated, "repeat", "self repeats", fresh=True)
    add(_concatenated, "cat", "tensors dim", fresh=True)
    add(_stacked, "stack", "tensors dim", fresh=True)
    add(_parts, "split.Tensor", "self split_size dim")
    add(_parts, "split_with_sizes", "self split_sizes dim")
    add(_parts, "chunk", "self chunks dim")
    add(_unbound, "unbind.int", "self dim")
    add(_selected, "select.int", "self dim index")
    add(_sliced, "slice.Tensor", "self dim start end step")
    add(_padded, "pad", "self pad mode value", fresh=True)
    add(_padded, "constant_pad_nd", "self pad value", fresh=True)
    add(_looked_up, "embedding", "weight indices padding_idx scale_grad_by_freq sparse", fresh=True)
    add(_picked, "index_select", "self dim index", fresh=True)
    add(_constants_only, "index.Tensor", "self indices", fresh=True)
    add(_shuffled, "pixel_shuffle", "self upscale_factor")
    return rules


RULES: dict[str, AtenRule] = _table()


@cache
def by_operator() -> "Mapping[Any, AtenRule]":
    """The rules by operator, of those that this version of torch has with the arguments that the rule knows."""
    return {operator: rule for name, rule in RULES.items() if (operator := _operator(name, rule.arguments)) is not None}


def _operator(name: str, arguments: tuple[str, ...]) -> "OpOverload | None":
    import torch

    packet, overload = name.split(".")
    found = getattr(getattr(torch.ops.aten, packet, None), overload, None)
    known = found is not None and tuple(one.name for one in found._schema.arguments) == arguments
    return found if known else None
