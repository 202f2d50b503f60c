"""What has no rule: other ATen operators, strides, state, higher-order and custom operators, random numbers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from torch_draw import Draw
from torch_program import Ref, Sym
from torch_table import Arguments, Maker, call

#: ATen operators, as those of `torch_table.TABLE`.
OTHERS: dict[str, Maker] = {}
SEVERAL = {"aten.median.dim", "aten.mode.default", "aten.kthvalue.default", "aten.cummax.default"}
SEVERAL |= {"aten.var_mean.correction", "aten.sort.stable", "aten.native_layer_norm.default", "aten.aminmax.default"}
SEVERAL |= {"aten.native_batch_norm.default", "aten.max_pool2d_with_indices.default", "aten.tensor_split.sections"}
#: Python functions that a module calls.
FUNCTIONS: dict[str, Callable[..., Any]] = {}
CALLS: dict[str, Maker] = {}
#: Functions that are slow to export, or that no graph can be made of.
RARE = {"cond", "cond_by_size", "while_loop", "item", "chosen_by_data", "checkpointed"}


def others(names: str, maker: Maker) -> None:
    for name in names.split():
        full = f"aten.{name}" if "." in name else f"aten.{name}.default"
        operator, overload = full.split(".")[1:]
        if hasattr(torch.ops.aten, operator) and overload in getattr(torch.ops.aten, operator).overloads():
            OTHERS[full] = maker


def function(maker: Maker) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A Python function that programs may call, and how its arguments are drawn."""

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS[body.__name__] = body
        CALLS[body.__name__] = maker
        return body

    return register


def floats(draw: Draw) -> Arguments:
    return call(draw.floats(1))


def along(draw: Draw) -> Arguments:
    ref = draw.floats(1)
    return call(ref, draw.axis(ref))


def pair(draw: Draw) -> Arguments:
    ref = draw.floats(1)
    return call(ref, draw.mate(ref))


def written(draw: Draw) -> Arguments:
    ref = draw.target(lambda value: value.is_floating_point() and value.dim() > 0)
    return call(ref, draw.mate(ref, smaller=True))


def pointwise() -> None:
    others("tan sinh atan isnan isinf nan_to_num trunc frac sgn log10 softsign logit log_sigmoid erfinv", floats)
    others("sum mean prod max min any all std var norm.Scalar median argmax argmin numel", floats)
    others("fmod.Tensor remainder.Tensor floor_divide atan2 copysign.Tensor hypot xlogy.Tensor rsub.Tensor", pair)
    others("clamp_min.Tensor clamp_max.Tensor fmax fmin prelu true_divide.Tensor heaviside", pair)
    others("copy_ atan2_ fmod_.Tensor remainder_.Tensor floor_divide_ addcdiv copysign_.Tensor", written)
    others("sin_ nan_to_num_ trunc_ t_ squeeze_", lambda draw: call(draw.target(lambda value: value.dim() > 0)))
    others("masked_fill.Tensor masked_fill_.Tensor", lambda draw: masked(draw))
    others("where.Scalar", lambda draw: call(draw.mask(), 1.0, 0.0))


def masked(draw: Draw) -> Arguments:
    ref = draw.target(lambda value: value.is_floating_point())
    return call(ref, draw.mask(ref), draw.weight([]))


def combined() -> None:
    others("cumprod logcumsumexp cummax argsort median.dim mode any.dim all.dim", along)
    others("sort.stable", lambda draw: call(draw.floats(1), stable=True))
    others("kthvalue", lambda draw: call(draw.floats(1), 1))
    others("var_mean.correction aminmax", lambda draw: call(draw.floats(1), dim=None, keepdim=True))
    others("aminmax", lambda draw: (lambda ref: call(ref, dim=draw.axis(ref), keepdim=True))(draw.floats(1)))
    others("cumsum_ cumprod_", lambda draw: (lambda ref: call(ref, draw.axis(ref)))(draw.target(lambda v: v.dim() > 0)))
    others("cdist dist dot outer kron inner cosine_similarity", pair)
    others("max_pool2d_with_indices", lambda draw: call(draw.of_rank(4), [1, 1]))
    others(
        "native_layer_norm", lambda draw: (lambda r: call(r, [draw.now(r).shape[-1]], None, None, 1e-5))(draw.floats(2))
    )
    others("native_batch_norm", lambda draw: call(draw.floats(2), None, None, None, None, True, 0.1, 1e-5))
    others("upsample_nearest2d", lambda draw: call(draw.of_rank(4), [4, 4]))
    others("upsample_bilinear2d", lambda draw: call(draw.of_rank(4), [4, 4], False))
    others("adaptive_max_pool2d", lambda draw: call(draw.of_rank(4), [1, 1]))
    others("im2col", lambda draw: call(draw.of_rank(4), [1, 1], [1, 1], [0, 0], [1, 1]))
    others("_softmax _log_softmax", lambda draw: (lambda ref: call(ref, draw.axis(ref), False))(draw.floats(1)))
    others("addmm_ baddbmm_", lambda draw: call(*[draw.of_rank(2)] * 3))


def views() -> None:
    others("as_strided", strided)
    others("diagonal", lambda draw: (lambda ref: call(ref, 0, draw.axis(ref), draw.axis(ref)))(draw.floats(2)))
    others("unfold", lambda draw: (lambda ref: call(ref, draw.axis(ref), draw.one(1, 2), 1))(draw.floats(1)))
    others("narrow", lambda draw: (lambda ref: call(ref, draw.axis(ref), 0, draw.one(1, 2)))(draw.floats(1)))
    others("movedim.int", lambda draw: (lambda ref: call(ref, draw.axis(ref, 0.3), draw.axis(ref)))(draw.floats(1)))
    others("squeeze mT mH ravel view_as_real real", floats)
    others(
        "broadcast_to",
        lambda draw: (lambda ref: call(ref, [draw.one(1, 2, Sym("B")), *draw.sizes(ref)]))(draw.floats(1)),
    )
    others("tile", lambda draw: call(draw.floats(1), [draw.one(1, 2)]))
    others("repeat_interleave.self_int", lambda draw: (lambda ref: call(ref, 2, draw.axis(ref)))(draw.floats(1)))
    others("tensor_split.sections", lambda draw: (lambda ref: call(ref, 2, draw.axis(ref)))(draw.floats(1)))
    others("hstack vstack", lambda draw: call([draw.floats(1)] * 2))
    others("rot90", lambda draw: (lambda ref: call(ref, 1, [draw.axis(ref), draw.axis(ref, 0.5)]))(draw.floats(2)))
    others("tril triu fliplr", floats)
    others(
        "transpose_ swapaxes_",
        lambda draw: (lambda ref: call(ref, draw.axis(ref), draw.axis(ref)))(
            draw.target(lambda value: value.dim() > 1)
        ),
    )
    others("unsqueeze_", lambda draw: call(draw.target(), 0))
    others("view.dtype", lambda draw: call(draw.floats(1), torch.int32))
    others("pixel_unshuffle", lambda draw: call(draw.of_rank(4), 2))
    others("channel_shuffle", lambda draw: call(draw.of_rank(4), 2))


def strided(draw: Draw) -> Arguments:
    """Rows by their strides: whole, overlapping, or some other memory."""
    ref = draw.floats(1)
    value = draw.now(ref)
    each = value.numel() // max(1, value.shape[0])
    sizes, strides = [Sym("B"), each], [each, 1]
    if draw.odd(0.5):
        strides = draw.one([1, 1], [0, 1], [each, 0], [1, draw.batch])
    return call(ref, sizes, strides, draw.one(None, 0))


def picked() -> None:
    others("gather", lambda draw: (lambda ref, index: call(ref, draw.axis(ref), index))(draw.floats(1), draw.index()))
    others("take", lambda draw: call(draw.floats(1), draw.index()))
    others(
        "scatter.value scatter_.value", lambda draw: (lambda r: call(r, draw.axis(r), draw.index(), 1.0))(draw.target())
    )
    others("index_put index_put_", lambda draw: call(draw.target(), [draw.index()], draw.weight([])))
    others(
        "index_fill_.int_Scalar",
        lambda draw: (lambda ref: call(ref, draw.axis(ref), draw.weight([1], 0, 0, True), 5))(
            draw.target(lambda value: value.dim() > 0)
        ),
    )
    others("select_scatter", lambda draw: (lambda r: call(r, draw.weight([]), 0, 0))(draw.floats(1)))
    others("slice_scatter", lambda draw: (lambda r: call(r, r, draw.axis(r)))(draw.floats(1)))
    others("one_hot", lambda draw: call(draw.index(), 8))
    others("eye", lambda draw: call(draw.one(Sym("B"), 4)))
    others("embedding_bag", lambda draw: call(draw.weight([8, 2]), draw.index(), draw.weight([1], 0, 0, True)))


def undefined() -> None:
    """Random numbers, and memory that nobody has written."""
    others("rand_like randn_like bernoulli empty_like rand_like", floats)
    others("rand randn empty.memory_format", lambda draw: call(draw.shape_of_rows()))
    others("normal_ uniform_ bernoulli_.float", lambda draw: call(draw.target(lambda value: value.is_floating_point())))
    others("new_empty", lambda draw: call(draw.floats(1), draw.shape_of_rows()))


@torch.library.custom_op("fuzz::centred", mutates_args=())
def _centred(x: Tensor) -> Tensor:
    return x - x.mean()


@_centred.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("fuzz::doubled", mutates_args={"x"})
def _doubled(x: Tensor) -> None:
    x.mul_(2)


@function(floats)
def custom(x: Tensor) -> Tensor:
    return _centred(x)


@function(lambda draw: call(draw.target(lambda value: value.is_floating_point())))
def custom_in_place(x: Tensor) -> Tensor:
    _doubled(x)
    return x


@function(floats)
def without_gradients(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x - x.mean()


@function(floats)
def in_half_precision(x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return x @ x.transpose(-1, -2)


@function(floats)
def checkpointed(x: Tensor) -> Tensor:
    return checkpoint(lambda y: y.sin() * 2, x, use_reentrant=False)


@function(floats)
def mapped(x: Tensor) -> Tensor:
    return torch.func.vmap(lambda row: row - row.sum())(x)


@function(floats)
def cond(x: Tensor) -> Tensor:
    if not torch.compiler.is_exporting():
        return x.sin() if bool(x.sum() > 0) else x.cos()
    return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))


@function(lambda draw: call(draw.floats(1), Sym("B")))
def cond_by_size(x: Tensor, size: Any) -> Tensor:
    if not torch.compiler.is_exporting():
        return x.sin() if size > 3 else x.cos()
    return torch.cond(size > 3, lambda y: y.sin(), lambda y: y.cos(), (x,))


@function(floats)
def while_loop(x: Tensor) -> Tensor:
    if not torch.compiler.is_exporting():
        return x + 3
    count = torch.zeros((), dtype=torch.int64)
    return torch._higher_order_ops.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y + 1), (count, x))[1]


@function(floats)
def item(x: Tensor) -> Tensor:
    return x * x.sum().item()


@function(floats)
def chosen_by_data(x: Tensor) -> Tensor:
    return x.sin() if x.sum() > 0 else x.cos()


@function(lambda draw: call(draw.floats(1), Sym("B")))
def chosen_by_size(x: Tensor, size: Any) -> Tensor:
    return x * 2 if size > 5 else x


@function(lambda draw: call(draw.floats(1), Sym("B")))
def divided_by_size(x: Tensor, size: Any) -> Tensor:
    return x / size + torch.sym_float(size)


@function(lambda draw: call(draw.floats(1), Sym("B")))
def marked(x: Tensor, size: Any) -> Tensor:
    """A mask that is made in each call, with a part that depends on the batch size."""
    mask = x.new_zeros(4, x.shape[-1])
    mask[: size % 4] = 1
    return x + mask.sum(0)


@function(lambda draw: call(draw.floats(1), draw.weight([1])))
def counted(x: Tensor, count: Tensor) -> Tensor:
    """State: a weight that grows with each call."""
    count.add_(1)
    return x * count


@function(lambda draw: call(draw.target(lambda value: value.is_floating_point() and value.dim() > 1)))
def first_entry_written(x: Tensor) -> Tensor:
    x[:, 0] = 1
    return x


@function(lambda draw: call(draw.target(lambda value: value.is_floating_point() and value.dim() > 1)))
def first_row_written(x: Tensor) -> Tensor:
    x[0] = 1
    return x


@function(
    lambda draw: (lambda ref: call(ref, draw.axis(ref)))(draw.target(lambda v: v.is_floating_point() and v.dim() > 0))
)
def written_through_a_part(x: Tensor, axis: int) -> Tensor:
    """A view of a view is written to; what is returned is the whole."""
    x.select(axis, 0).unsqueeze(0).add_(1)
    return x


@function(lambda draw: call(draw.value(lambda value: value.is_floating_point() and value.dim() > 0)))
def written_where_expanded(x: Tensor) -> Tensor:
    wide = x.new_zeros(1).expand(x.shape)
    return wide.masked_fill_(x > 0, 1.0)


@function(floats)
def nonzero(x: Tensor) -> Tensor:
    return x + x.nonzero().sum()


@function(floats)
def by_row_number(x: Tensor) -> Tensor:
    return x[torch.arange(len(x))]


@function(floats)
def operators_of_python(x: Tensor) -> Tensor:
    return -(x + 1) * x // 2


@function(lambda draw: call(draw.of_rank(3), draw.weight([24, 8]), draw.weight([8, 8]), draw.chance(0.5)))
def attended(x: Tensor, weight: Tensor, out: Tensor, swapped: bool) -> Tensor:
    """Multi-head attention; with the batch for the sequence, if torch's default order is left."""
    x = torch.nn.functional.pad(x, (0, 8 - x.shape[-1]))
    x = x if swapped else x.transpose(0, 1)
    result, _ = torch.nn.functional.multi_head_attention_forward(
        x, x, x, 8, 2, weight, None, None, None, False, 0.0, out, None, training=False
    )
    return result if swapped else result.transpose(0, 1)


@function(lambda draw: call(draw.of_rank(3), draw.chance(0.5)))
def recurrent(x: Tensor, first: bool) -> Tensor:
    """An LSTM whose first axis is time, unless it is told."""
    wide = x.shape[-1]
    weights = [torch.ones(4 * 2, wide), torch.ones(4 * 2, 2)]
    start = [x.new_zeros(1, x.shape[0 if first else 1], 2)] * 2
    return torch._VF.lstm(x, start, weights, False, 1, 0.0, False, False, first)[0]


for _family in (pointwise, combined, views, picked, undefined):
    _family()


def drawn(draw: Draw) -> Ref:
    """One call of something without a rule."""
    name = draw.rng.choice([*OTHERS, *CALLS, *CALLS])
    if name in RARE and draw.chance(0.9):
        name = draw.rng.choice(list(OTHERS))
    args, kwargs = (OTHERS | CALLS)[name](draw)
    return draw.emit(name, *args, pick=draw.one(0, 0, 1) if name in SEVERAL else None, **kwargs)
