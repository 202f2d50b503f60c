"""How each ATen operator that has a rule is drawn: its operands and arguments, inside and outside of what is proved."""

from collections.abc import Callable
from typing import Any

import torch
from torch_draw import FLOATS, Draw, NoChoice, fits_into
from torch_program import Const, Ref, Sym

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
#: Draws the operands of a call; `first` draws the operand that it may write into.
Maker = Callable[[Draw], Arguments]
TABLE: dict[str, Maker] = {}
PICKS: set[str] = set()
"""Operators with several results."""


def call(*args: Any, **kwargs: Any) -> Arguments:
    return args, kwargs


def add(names: str, maker: Maker, several: bool = False) -> None:
    for name in names.split():
        full = f"aten.{name}" if "." in name else f"aten.{name}.default"
        TABLE[full] = maker
        if several:
            PICKS.add(full)


def both(names: str, maker: Callable[[Draw, Ref], Arguments], floats: bool = True) -> None:
    """An operator, and its form that writes into its first operand."""

    def fits(value: torch.Tensor) -> bool:
        return value.is_floating_point() or not floats

    add(names, lambda draw: maker(draw, draw.value(fits)))
    for name in names.split():
        operator, _, overload = name.partition(".")
        written = getattr(torch.ops.aten, f"{operator}_", None)
        if written is not None and (overload or "default") in written.overloads():
            add(f"{operator}_.{overload or 'default'}", lambda draw: maker(draw, draw.target(fits)))


def pointwise() -> None:
    unary = "relu relu6 silu mish sigmoid tanh hardswish hardsigmoid selu exp log log2 log1p expm1 sqrt rsqrt abs neg"
    both(unary, lambda draw, ref: call(ref))
    both("sin cos erf reciprocal floor ceil round sign square", lambda draw, ref: call(ref))
    both("logical_not", lambda draw, ref: call(ref), floats=False)
    both("gelu", lambda draw, ref: call(ref, approximate=draw.one("none", "tanh")))
    both("hardtanh", lambda draw, ref: call(ref, draw.integer(-3, -1), draw.integer(0, 3)))
    both("leaky_relu", lambda draw, ref: call(ref, draw.one(0.5, 2, 0)))
    both("elu", lambda draw, ref: call(ref, draw.one(1, 2.0), draw.one(1, 2), 1))
    both("celu", lambda draw, ref: call(ref, draw.one(1, 2.0)))
    both("softplus", lambda draw, ref: call(ref, draw.one(1, 2), draw.one(1, 20)))
    both("clamp", lambda draw, ref: call(ref, draw.one(None, -1, 0), draw.one(1, 2.0)))
    both("clamp_min clamp_max", lambda draw, ref: call(ref, draw.number()))
    both("pow.Tensor_Scalar", lambda draw, ref: call(ref, draw.one(2, 3, 1, 0.5, -1)))
    both("pow.Tensor_Tensor", lambda draw, ref: call(ref, draw.mate(ref)))
    both("add.Tensor sub.Tensor", lambda draw, ref: call(ref, draw.mate(ref), alpha=draw.one(1, 1, 2, -1)))
    both("add.Scalar sub.Scalar", lambda draw, ref: call(ref, scalar(draw), draw.one(1, 2)))
    both("rsub.Scalar", lambda draw, ref: call(ref, scalar(draw), draw.one(1, 2)))
    both("mul.Scalar div.Scalar", lambda draw, ref: call(ref, scalar(draw)))
    both("mul.Tensor div.Tensor maximum minimum", lambda draw, ref: call(ref, draw.mate(ref)))
    both("logical_and logical_or", lambda draw, ref: call(ref, draw.mate(ref)), floats=False)
    for test in ("eq", "ne", "lt", "gt", "le", "ge"):
        both(f"{test}.Scalar", lambda draw, ref: call(ref, draw.number()))
        both(f"{test}.Tensor", lambda draw, ref: call(ref, draw.mate(ref)))
    both("masked_fill.Scalar", masked)
    both("addcmul", lambda draw, ref: call(ref, draw.mate(ref), draw.mate(ref), value=draw.integer()))
    both("lerp.Tensor", lambda draw, ref: call(ref, draw.mate(ref), draw.mate(ref)))
    both("lerp.Scalar", lambda draw, ref: call(ref, draw.mate(ref), draw.one(0.5, 2)))
    add("where.self", lambda draw: chosen(draw, lambda ref: draw.mate(ref), lambda ref: draw.mate(ref)))
    add("where.ScalarSelf", lambda draw: chosen(draw, lambda ref: draw.number(), lambda ref: draw.mate(ref)))
    add("where.ScalarOther", lambda draw: chosen(draw, lambda ref: draw.mate(ref), lambda ref: draw.number()))


def scalar(draw: Draw) -> Any:
    """A number; seldom the batch size."""
    return Sym(draw.one("B", "B+1")) if draw.odd(0.02) else draw.number()


def masked(draw: Draw, ref: Ref) -> Arguments:
    """The mask from the value, from another one, or a constant of any shape that fits."""
    mask = draw.mask(ref) if draw.chance(0.5) else draw.constant(draw.now(draw.weight(draw.beside(ref))) > 0)
    return call(ref, mask, draw.number())


def chosen(draw: Draw, one: Callable[[Ref], Any], other: Callable[[Ref], Any]) -> Arguments:
    mask = draw.mask()
    return call(mask, one(mask), other(mask))


def memory() -> None:
    formats = (torch.contiguous_format, torch.preserve_format)
    add("clone", lambda draw: call(draw.value(), memory_format=draw.one(None, *formats)))
    add("lift_fresh_copy detach alias", lambda draw: call(draw.value()))
    add("contiguous", lambda draw: call(draw.value()))
    cpu = torch.device("cpu")
    add("type_as", lambda draw: call(draw.value(), draw.value()))
    add("to.dtype", lambda draw: call(draw.value(), type_of(draw), False, draw.chance(0.3)))
    add("to.device", lambda draw: call(draw.value(), cpu, type_of(draw)))
    add("to.dtype_layout", lambda draw: call(draw.value(), dtype=type_of(draw)))
    add("_to_copy", lambda draw: call(draw.value(), dtype=type_of(draw)))
    add("dropout feature_dropout", lambda draw: call(draw.floats(2), 0.5, draw.odd()))
    add("dropout_", lambda draw: call(draw.target(lambda value: value.is_floating_point()), 0.5, draw.odd()))
    add("zero_", lambda draw: call(draw.target()))
    add("fill_.Scalar", lambda draw: call(draw.target(), draw.number()))
    add("fill_.Tensor", lambda draw: call(draw.target(), single(draw)))


def type_of(draw: Draw) -> torch.dtype:
    """A type of numbers: rather a float; an integer rounds; complex numbers and eight bits have no rules."""
    if draw.odd(0.05):
        return draw.one(torch.complex64, torch.float8_e4m3fn)  # type: ignore[no-any-return]
    if draw.odd(0.3):
        return draw.one(torch.int64, torch.bool, torch.uint8, torch.int32)  # type: ignore[no-any-return]
    return draw.one(torch.float32, torch.float32, *FLOATS)  # type: ignore[no-any-return]


def single(draw: Draw) -> Ref | Const:
    """A tensor without axes: a constant, or all rows at once."""
    return draw.weight([]) if not draw.odd(0.2) else all_rows(draw)


def all_rows(draw: Draw) -> Ref:
    """A sum over everything."""
    ref = draw.floats(1)
    return draw.emit("aten.sum.dim_IntList", ref, list(range(draw.now(ref).dim())))


def made() -> None:
    add("zeros ones", lambda draw: call(draw.shape_of_rows(), dtype=draw.one(None, torch.float32, torch.float64)))
    add("full", lambda draw: call(draw.shape_of_rows(), scalar(draw)))
    add("new_zeros new_ones", lambda draw: call(draw.value(), draw.shape_of_rows()))
    add("new_full", lambda draw: call(draw.value(), draw.shape_of_rows(), scalar(draw)))
    add("arange", lambda draw: call(count(draw), dtype=draw.one(None, torch.float32)))
    add("arange.start", lambda draw: call(draw.one(0, 0, -1), count(draw), dtype=draw.one(None, torch.float32)))
    add("arange.start_step", lambda draw: call(draw.one(0, 0, -4), count(draw), draw.one(1, 1, 2), dtype=torch.float32))
    add("linspace", lambda draw: call(0, draw.one(1, 2, Sym("B")), count(draw)))
    add("scalar_tensor", lambda draw: call(scalar(draw)))


def count(draw: Draw) -> Any:
    """The end of a sequence; sometimes it depends on the batch size."""
    if draw.odd(0.1):
        return Sym(draw.one("B", "2*B", "B+1"))
    return draw.now(draw.floats(1)).shape[-1] if draw.chance(0.6) else draw.one(1, 2, 3, 4, 6, 8)


def products() -> None:
    add("linear", linear)
    add("matmul", multiplied)
    add("mm", lambda draw: call(*matrices(draw, 2)))
    add("bmm", lambda draw: call(*matrices(draw, 3)))
    add("addmm", lambda draw: added(draw, 2))
    add("baddbmm", lambda draw: added(draw, 3))
    for axes in (1, 2, 3):
        add(f"conv{axes}d", lambda draw, axes=axes: convolution(draw, axes))
        add(f"conv{axes}d.padding", lambda draw, axes=axes: convolution(draw, axes, draw.one("same", "valid")))
    add("scaled_dot_product_attention", attention)
    add("einsum", einsum)


def linear(draw: Draw) -> Arguments:
    ref, width = turned_in(draw, draw.floats(1)), draw.one(1, 2, 3, 4)
    deep = draw.now(ref).shape[-1]
    if draw.odd():
        weight: Any = draw.value(lambda v: v.is_floating_point() and 1 <= v.dim() <= 2 and v.shape[-1] == deep)
        width = draw.now(weight).shape[0] if draw.now(weight).dim() == 2 else 1
    else:
        weight = draw.weight([width, deep] if not draw.odd(0.1) else [deep])
    bias = None if draw.chance(0.5) else draw.weight([width])
    if draw.odd():  # torch takes a bias with an entry for each row
        bias = draw.weight([*draw.now(ref).shape[:-1], width])
    if draw.odd():
        bias = draw.value(lambda v: v.is_floating_point() and v.shape in [(width,), (1,)])
    return call(ref, weight, bias)


def turned_in(draw: Draw, ref: Ref, axis: int | None = None) -> Ref:
    """Seldom the rows are laid along one of the last two axes, where products sum or make rows meet."""
    return draw.lying(ref, draw.one(-1, -2) if axis is None else axis) if draw.odd(0.15) else ref


def multiplied(draw: Draw) -> Arguments:
    ref = turned_in(draw, draw.floats(1))
    deep = draw.now(ref).shape[-1]
    if draw.odd():
        return call(ref, turned_in(draw, draw.value(lambda v: v.is_floating_point() and deep in v.shape[-2:])))
    if draw.chance(0.5):
        return call(ref, draw.weight([deep, draw.one(1, 2, 4)][: draw.one(1, 2, 2)]))
    if draw.chance(0.3) and draw.now(ref).dim() >= 2:
        return call(draw.weight([draw.one(1, 2, 4), draw.now(ref).shape[-2]]), ref)
    other = draw.value(lambda v: v.is_floating_point() and v.dim() > 0 and deep in v.shape[-2:])
    if draw.now(other).shape[-1] == deep and draw.now(other).dim() > 1 and draw.chance(0.7):
        other = draw.emit("aten.transpose.int", other, -1, -2)
    return call(ref, other)


def matrices(draw: Draw, rank: int) -> tuple[Any, Any]:
    """Two operands of a product; constants on one side, or rows on both."""
    ref = turned_in(draw, draw.of_rank(rank))
    shape = draw.now(ref).shape
    if draw.odd():
        return draw.weight([*shape[:-2], draw.one(1, 2, 3), shape[-2]]), ref
    if (rank == 2 and not draw.odd()) or draw.chance(0.3):
        first = list(shape[:-2])
        return ref, draw.weight([*first, shape[-1], draw.one(1, 2, 3)])
    other = draw.value(lambda v: v.is_floating_point() and v.dim() == rank and v.shape[-1] == shape[-1])
    return ref, draw.emit("aten.transpose.int", other, -1, -2)


def added(draw: Draw, rank: int) -> Arguments:
    one, other = matrices(draw, rank)
    rows, columns = draw.now(one).shape[-2], draw.now(other).shape[-1]
    first = draw.weight([columns] if draw.chance(0.5) else [1, columns] if not draw.odd() else [rows, columns])
    if draw.chance(0.3):
        first = draw.value(lambda v: v.is_floating_point() and v.dim() <= rank and v.shape[-1:] in [(columns,), (1,)])
    return call(first, one, other, beta=draw.one(1, 2), alpha=draw.one(1, 1, 2))


def convolution(draw: Draw, axes: int, padding: Any = None) -> Arguments:
    ref = draw.of_rank(axes + 2 if not draw.odd(0.1) else axes + 1)
    shape = draw.now(ref).shape
    channels = shape[-axes - 1]
    groups = channels if draw.chance(0.2) else 1
    kernel = [draw.one(1, min(2, size), min(3, size)) for size in shape[-axes:]]
    out = groups * draw.one(1, 2)
    weight: Any = draw.weight([out, channels // groups, *kernel])
    bias: Any = None if draw.chance(0.5) else draw.weight([out])
    if draw.odd():
        groups, weight, bias = 1, rows_as(draw, [channels, *kernel]), None
    elif draw.odd():
        groups, weight, bias = 1, draw.weight([draw.batch, channels, *kernel]), rows_as(draw, [])
    pads = padding or draw.one([0] * axes, [1] * axes)
    stride = [1] * axes if padding else draw.one([1], [2]) * axes
    return call(ref, weight, bias, stride, pads, [1] * axes, groups)


def made_of_rows(draw: Draw, weight: Any) -> Any:
    """A parameter that depends on the batch: it has an entry for each row, or a sum over all rows is added to it."""
    if weight is None or draw.chance(0.3):
        return weight
    shape = list(draw.now(weight).shape)
    if shape[:1] == [draw.batch]:
        return rows_as(draw, shape[1:])
    return draw.emit("aten.add.Tensor", weight, all_rows(draw))


def rows_as(draw: Draw, tail: list[int]) -> Ref:
    """A value with a number for each row, repeated along other axes."""
    ref = draw.floats(1)
    if draw.rows(ref) is None:
        raise NoChoice
    others = [axis for axis in range(draw.now(ref).dim()) if axis != draw.rows(ref)]
    each = draw.emit("aten.sum.dim_IntList", ref, others) if others else ref
    wide = draw.emit("aten.reshape.default", each, [Sym("B"), *[1] * len(tail)]) if tail else each
    return draw.emit("aten.expand.default", wide, [Sym("B"), *tail]) if tail else wide


def attention(draw: Draw) -> Arguments:
    query = turned_in(draw, draw.floats(2))
    shape = draw.now(query).shape
    like = [draw.value(lambda v: v.is_floating_point() and v.dim() >= 2 and v.shape[-1] == shape[-1]) for _ in "kv"]
    key, value = like if draw.chance(0.4) else [draw.one(query, like[0])] * 2
    if draw.chance(0.15):
        key = value = draw.weight([draw.one(1, 2, 3), shape[-1]])
    mask = None if draw.chance(0.6) else draw.weight([shape[-2], draw.now(key).shape[-2]])
    if draw.odd():
        key, value = (turned_in(draw, one) for one in (key, value))
    if mask is None and draw.odd(0.2):
        mask = odd_mask(draw, query)
    causal = mask is None and draw.chance(0.3)
    return call(query, key, value, mask, 0.0 if not draw.odd(0.02) else 0.5, causal, scale=draw.one(None, 1.0))


def odd_mask(draw: Draw, query: Ref) -> Any:
    """Made of rows, or of a number for each row, along any axis."""
    if draw.chance(0.5):
        return draw.value(lambda v: v.dtype in (torch.float32, torch.bool) and v.dim() >= 1)
    made: Any = draw.numbered(query)
    return draw.emit("aten.gt.Scalar", made, 1) if draw.chance(0.5) else made


def einsum(draw: Draw) -> Arguments:
    """Letters by the axes of values; the batch's letter stays, mostly."""
    ref = draw.floats(1, 4)
    shape, row = draw.now(ref).shape, draw.rows(ref)
    term = "".join(draw.rng.sample("abcdefgh", len(shape)))
    if draw.odd():
        one = draw.rng.randrange(len(shape)) if row is None else row
        term = term.replace(term[one], term[draw.rng.choice([a for a, size in enumerate(shape) if size == shape[one]])])
    stays = [letter for axis, letter in enumerate(term) if draw.chance(0.6) or (axis == row and not draw.odd())]
    stays = list(dict.fromkeys(stays))
    draw.rng.shuffle(stays)
    if draw.chance(0.3):
        return call(f"{term}->{''.join(stays)}", [ref])
    axis = draw.rng.randrange(len(shape))
    if draw.chance(0.4):
        other: Any = draw.value(lambda v: v.is_floating_point() and v.shape == shape)
        again = term if not draw.odd(0.1) else "".join(draw.rng.sample(term, len(term)))
        if draw.odd() and row is not None:  # every row meets every row
            again = again.replace(term[row], "y")
            stays += draw.one(["y"], [])
        return call(f"{term},{again}->{''.join(stays)}", [ref, other])
    letters = term[axis] + "z" if axis != row or draw.odd(0.3) else "z"
    other = draw.weight([shape[axis] if not draw.odd(0.2) else 1, 2] if len(letters) == 2 else [2])
    if draw.chance(0.5):
        return call(f"{letters},{term}->{''.join(stays)}{draw.one('z', '')}", [other, ref])
    result = "".join(stays) + draw.one("z", "")
    return call(f"{term},{letters}" + ("" if draw.odd(0.05) else f"->{result}"), [ref, other])


def combined() -> None:
    for axes in (1, 2, 3):
        add(f"max_pool{axes}d", lambda draw, axes=axes: window(draw, axes, True))
        add(f"avg_pool{axes}d", lambda draw, axes=axes: window(draw, axes, False))
        add(f"adaptive_avg_pool{axes}d", lambda draw, axes=axes: adaptive(draw, axes))
        add(f"upsample_nearest{axes}d.vec", lambda draw, axes=axes: resized(draw, axes))
    for axes, names in enumerate(("linear1d", "bilinear2d bicubic2d", "trilinear3d"), 1):
        for name in names.split():
            add(f"upsample_{name}.vec", lambda draw, axes=axes: resized(draw, axes, draw.chance(0.5)))
    add("mean.dim sum.dim_IntList", lambda draw: reduction(draw, dtype=kind(draw)))
    add("prod.dim_int", lambda draw: reduction(draw, single=True, dtype=kind(draw)))
    add("argmax argmin", lambda draw: reduction(draw, single=True))
    add("amax amin logsumexp", lambda draw: reduction(draw))
    add("max.dim min.dim", lambda draw: reduction(draw, single=True), several=True)
    add("var.dim std.dim", deviation)
    add("var.correction std.correction", lambda draw: reduction(draw, named=True, correction=draw.one(None, 0, 1)))
    add("linalg_vector_norm", norm)
    add("softmax.int log_softmax.int cumsum", lambda draw: along(draw, dtype=kind(draw)))
    add("topk", lambda draw: top(draw), several=True)
    add("sort", lambda draw: along(draw, draw.chance(0.5)), several=True)
    add("roll", rolled)
    add("flip", lambda draw: flipped(draw))
    add("glu", lambda draw: along(draw))
    add("batch_norm", batch_norm)
    add("layer_norm", lambda draw: layer_norm(draw, True))
    add("rms_norm", lambda draw: layer_norm(draw, False))
    add("group_norm", group_norm)
    add("instance_norm", instance_norm)


def window(draw: Draw, axes: int, largest: bool) -> Arguments:
    ref = draw.of_rank(axes + 2 if not draw.odd(0.15) else axes + 1)
    sizes = draw.now(ref).shape[-axes:]
    kernel = [draw.one(1, min(2, size)) for size in sizes]
    stride, pad = draw.one([1], [2]) * axes, [draw.one(0, size // 2) for size in kernel]
    return call(ref, kernel, stride, pad, *([[1] * axes] if largest else []), draw.chance(0.2))


def adaptive(draw: Draw, axes: int) -> Arguments:
    return call(draw.of_rank(axes + 2 if not draw.odd(0.15) else axes + 1), [draw.one(1, 2, 3) for _ in range(axes)])


def resized(draw: Draw, axes: int, *corners: bool) -> Arguments:
    """By sizes, by factors, or, rarely, by both or neither."""
    ref = draw.of_rank(axes + 2 if not draw.odd(0.15) else axes + 1)
    sizes, factors = [draw.one(1, 2, 3) for _ in range(axes)], [draw.one(0.5, 1.0, 1.5, 2.0) for _ in range(axes)]
    by_sizes = draw.chance(0.5)
    both = draw.odd(0.05)
    return call(ref, sizes if by_sizes or both else None, *corners, factors if not by_sizes or both else None)


def reduction(draw: Draw, single: bool = False, named: bool = False, **kwargs: Any) -> Arguments:
    ref = draw.floats(1)
    dim = draw.axis(ref) if single else draw.axes(ref)
    if named:
        return call(ref, dim, keepdim=draw.chance(0.5), **kwargs)
    return call(ref, dim, draw.chance(0.5), **kwargs)


def deviation(draw: Draw) -> Arguments:
    ref = draw.floats(1)
    return call(ref, draw.axes(ref), draw.chance(0.5), draw.chance(0.5))


def norm(draw: Draw) -> Arguments:
    ref = draw.floats(1)
    return call(ref, draw.one(1, 2, 0, float("inf")), draw.axes(ref), draw.chance(0.5))


def along(draw: Draw, *others: Any, **kwargs: Any) -> Arguments:
    ref = draw.floats(1)
    return call(ref, draw.axis(ref), *others, **kwargs)


def kind(draw: Draw) -> Any:
    """The type in which a result is computed: seldom an integer, which rounds."""
    return draw.one(None, None, None, torch.float64) if not draw.odd() else torch.int64


def top(draw: Draw) -> Arguments:
    ref = draw.floats(1)
    axis = draw.axis(ref)
    return call(ref, draw.integer(1, draw.now(ref).shape[axis]), axis, draw.chance(0.7), True)


def rolled(draw: Draw) -> Arguments:
    ref = draw.floats(1)
    if draw.odd():
        return call(ref, [1], [])
    axes = [draw.axis(ref) for _ in range(draw.one(1, 2))]
    return call(ref, [draw.one(1, -1, 2) for _ in axes], axes)


def flipped(draw: Draw) -> Arguments:
    ref = draw.floats(1)
    return call(ref, [draw.axis(ref)] if not draw.odd() else [])


def by_channels(draw: Draw, least: int) -> Ref:
    """Something to be normalised; seldom with as many channels as rows, or with rows for channels."""
    if draw.odd(0.1):
        return draw.value(lambda v: v.is_floating_point() and v.dim() >= least and v.shape[1] == draw.batch)
    return turned_in(draw, draw.floats(least), 1)


def batch_norm(draw: Draw) -> Arguments:
    ref = by_channels(draw, 2)
    channels = draw.now(ref).shape[1]
    mean, var = draw.weight([channels]), draw.weight([channels], 1, 3)
    if draw.odd(0.1):
        mean = var = None  # type: ignore[assignment]
    training = mean is None or draw.odd()
    if training and draw.odd():
        mean, var = draw.one((mean, None), (None, var), (mean, var))
    weights = [draw.one(None, draw.weight([channels])) for _ in "wb"]
    if draw.odd():
        weights = [made_of_rows(draw, one) for one in weights]
        mean = made_of_rows(draw, mean)
    return call(ref, *weights, mean, var, training, 0.1, 1e-5, False)


def layer_norm(draw: Draw, bias: bool) -> Arguments:
    ref = draw.floats(1)
    row, shape = draw.rows(ref), draw.sizes(ref)
    first = draw.rng.randrange(len(shape)) if row is None or row == len(shape) - 1 or draw.odd() else row + 1
    shape = shape[draw.rng.randint(first, len(shape) - 1) :]
    if any(isinstance(size, Sym) for size in shape):
        return call(ref, shape, None, *([None] if bias else []))
    weights = [draw.one(None, draw.weight(shape)) for _ in range(1 + bias)]
    return call(ref, shape, *([made_of_rows(draw, one) for one in weights] if draw.odd() else weights))


def group_norm(draw: Draw) -> Arguments:
    ref = by_channels(draw, 2)
    channels = draw.now(ref).shape[1]
    groups = draw.rng.choice([count for count in range(1, channels + 1) if channels % count == 0])
    weights = [draw.one(None, draw.weight([channels])) for _ in "wb"]
    return call(ref, groups, *([made_of_rows(draw, one) for one in weights] if draw.odd() else weights))


def instance_norm(draw: Draw) -> Arguments:
    ref = by_channels(draw, 3)
    channels = draw.now(ref).shape[1]
    weights = [draw.one(None, draw.weight([channels])) for _ in "wb"]
    if draw.odd():
        weights = [made_of_rows(draw, one) for one in weights]
    statistics = [None, None] if not draw.odd() else [draw.weight([channels]), draw.weight([channels], 1, 3)]
    if draw.odd(0.05):
        statistics[draw.one(0, 1)] = None
    return call(ref, *weights, *statistics, statistics[0] is None or draw.odd(), 0.1, 1e-5, False)


def moved() -> None:
    add("view _unsafe_view reshape", reshaped)
    add("flatten.using_ints", flattened)
    add("unflatten.int", unflattened)
    add("permute", permuted)
    add("transpose.int swapaxes", exchanged)
    add("t", lambda draw: call(turned(draw, "aten.t.default", 2)))
    add("numpy_T", lambda draw: call(turned(draw, "aten.numpy_T.default", 3)))
    add("unsqueeze", lambda draw: inserted(draw))
    add("squeeze.dim", lambda draw: squeezed(draw, False))
    add("squeeze.dims", lambda draw: squeezed(draw, True))
    add("expand", expanded)
    add("expand_as", expanded_as)
    add("reshape_as view_as", shaped_alike)
    add("repeat", repeated)
    add("cat", joined)
    add("stack", stacked)
    add("split.Tensor", lambda draw: parts(draw, draw.one(1, 2)), several=True)
    add("split_with_sizes", split_with_sizes, several=True)
    add("chunk", lambda draw: parts(draw, draw.one(1, 2, 3)), several=True)
    add("unbind.int", lambda draw: parts(draw), several=True)
    add("select.int", lambda draw: selected(draw))
    add("slice.Tensor", sliced)
    add("pad", lambda draw: padded(draw, True))
    add("constant_pad_nd", lambda draw: padded(draw, False))
    add("embedding", looked_up)
    add("index_select", picked)
    add("index.Tensor", indexed)
    add("pixel_shuffle", lambda draw: call(shuffled(draw), 2))


def reshaped(draw: Draw) -> Arguments:
    """Axes put together, an axis cut, −1 for one of them, or any shape with as many entries."""
    ref = draw.value(lambda value: value.dim() > 0)
    shape, row = draw.sizes(ref), draw.rows(ref)
    total = draw.now(ref).numel()
    kind = draw.rng.randrange(5)
    if draw.odd():
        return call(ref, draw.one(draw.factors(total, 2), [-1], [4, -1], [-1, 2], [total], [-1, Sym("B")]))
    if kind <= 1 and row == 0 and draw.now(ref).shape[0] == draw.batch:
        return call(ref, [Sym("B"), *draw.factors(total // draw.batch, draw.one(1, 2, 3))])
    if kind == 2:
        return call(ref, [-1, *[size for size in draw.factors(total // draw.batch, 2) if size > 1]])
    if kind == 3 and len(shape) > 1:
        first = draw.rng.randrange(len(shape) - 1)
        joint = draw.now(ref).shape[first] * draw.now(ref).shape[first + 1]
        return call(ref, [*shape[:first], draw.size(joint, row in (first, first + 1)), *shape[first + 2 :]])
    axis = draw.rng.randrange(len(shape))
    size = draw.now(ref).shape[axis]
    if axis == row:
        cut: list[Any] = draw.one([Sym("B"), -1], [-1, Sym("B")], [size // 2, 2] if draw.fixed else [-1, 2])
        return call(ref, [*shape[:axis], *cut, *shape[axis + 1 :]])
    return call(ref, [*shape[:axis], *draw.factors(size, 2), *shape[axis + 1 :]])


def flattened(draw: Draw) -> Arguments:
    ref = draw.value(lambda value: value.dim() > 0)
    rank = draw.now(ref).dim()
    first = draw.rng.randrange(rank)
    last = draw.rng.randrange(first, rank)
    return call(ref, first, last - rank if draw.chance(0.5) else last)


def unflattened(draw: Draw) -> Arguments:
    ref = draw.value(lambda value: value.dim() > 0)
    axis = draw.axis(ref, 0.2)
    size = draw.now(ref).shape[axis]
    if axis % draw.now(ref).dim() == draw.rows(ref):
        return call(ref, axis, draw.one([Sym("B"), -1], [-1, Sym("B")], [-1, 2], [2, -1]))
    return call(ref, axis, draw.one(draw.factors(size, 2), [-1, 1], [1, -1]))


def permuted(draw: Draw) -> Arguments:
    ref = draw.value(lambda value: value.dim() > 1)
    order = list(range(draw.now(ref).dim()))
    if draw.chance(0.5) and draw.rows(ref) == 0:
        rest = order[1:]
        draw.rng.shuffle(rest)
        return call(ref, [0, *rest])
    if draw.rows(ref) and draw.chance(0.6):
        return call(ref, [draw.rows(ref), *[axis for axis in order if axis != draw.rows(ref)]])
    draw.rng.shuffle(order)
    return call(ref, [axis - len(order) if draw.chance(0.2) else axis for axis in order])


def exchanged(draw: Draw) -> Arguments:
    ref = draw.value(lambda value: value.dim() > 0)
    if draw.rows(ref) and draw.chance(0.6):
        return call(ref, 0, draw.rows(ref))
    return call(ref, draw.axis(ref, 0.2), draw.axis(ref))


def turned(draw: Draw, target: str, most: int) -> Ref:
    """A value, or one whose axes were turned round already: twice brings the rows back."""
    ref = draw.floats(0, most) if draw.chance(0.5) else draw.of_rank(draw.integer(2, most))
    return draw.emit(target, ref) if draw.rows(ref) == 0 and draw.chance(0.8) else ref


def inserted(draw: Draw) -> Arguments:
    ref = draw.value()
    rank = draw.now(ref).dim()
    return call(ref, draw.integer(-rank - 1, rank) if draw.odd(0.2) else draw.integer(min(1, rank), rank))


def squeezed(draw: Draw, several: bool) -> Arguments:
    ref = draw.value(lambda value: value.dim() > 0)
    ones = [axis for axis, size in enumerate(draw.now(ref).shape) if size == 1]
    if not ones and draw.chance(0.7):
        ref = draw.emit("aten.unsqueeze.default", ref, -1)
        ones = [draw.now(ref).dim() - 1]
    axis = draw.rng.choice(ones) if ones and not draw.odd(0.2) else draw.axis(ref)
    return call(ref, [axis, *([draw.axis(ref)] if draw.chance(0.3) else [])] if several else axis)


def expanded(draw: Draw) -> Arguments:
    ref: Any = draw.value(lambda value: 1 in value.shape) if draw.chance(0.5) else draw.weight([1, draw.one(1, 2, 4)])
    shape = draw.sizes(ref)
    row = draw.rows(ref)
    for axis, size in enumerate(shape):
        if size == 1 and draw.chance(0.7):
            shape[axis] = Sym("B") if axis == 0 and row is None and not draw.odd() else draw.one(2, 3, 4)
        elif draw.chance(0.2):
            shape[axis] = -1
    return call(ref, [draw.one(2, Sym("B")), *shape] if draw.odd(0.15) else shape)


def expanded_as(draw: Draw) -> Arguments:
    other = draw.floats(1)
    return call(draw.weight(draw.beside(other)) if draw.chance(0.6) else draw.mate(other, smaller=True), other)


def shaped_alike(draw: Draw) -> Arguments:
    ref = draw.value(lambda value: value.dim() > 0)
    count = draw.now(ref).numel()
    return call(ref, draw.value(lambda value: value.numel() == count))


def repeated(draw: Draw) -> Arguments:
    ref: Any = draw.value() if draw.chance(0.7) else draw.weight([1, draw.one(1, 2, 4)])
    row, rank = draw.rows(ref), draw.now(ref).dim()
    times: list[Any] = [1 if axis == row and not draw.odd() else draw.one(1, 2) for axis in range(rank)]
    if isinstance(ref, Const) and not draw.odd(0.2):
        times[0] = Sym("B")
    return call(ref, [draw.one(1, 2, Sym("B")), *times] if draw.odd(0.15) else times)


def joined(draw: Draw) -> Arguments:
    ref = draw.value(lambda value: value.dim() > 0)
    axis = draw.axis(ref)
    shape = draw.now(ref).shape

    def fits(value: torch.Tensor) -> bool:
        same = value.dim() == len(shape) and value.dtype == draw.now(ref).dtype
        return same and all(value.shape[a] == shape[a] for a in range(len(shape)) if a != axis % len(shape))

    others = [draw.value(fits) for _ in range(draw.one(1, 1, 2))]
    if draw.chance(0.2):
        sizes = draw.sizes(ref)
        sizes[axis] = draw.one(1, 2)
        others.append(draw.emit("aten.new_ones.default", ref, sizes))
    elif draw.chance(0.2):
        others.append(draw.emit("aten.expand.default", draw.numbered(ref), draw.sizes(ref)))
    return call([ref, *others], axis)


def stacked(draw: Draw) -> Arguments:
    ref = draw.value()
    rank, shape = draw.now(ref).dim(), draw.now(ref).shape
    others = [draw.value(lambda v: v.shape == shape and v.dtype == draw.now(ref).dtype) for _ in range(draw.one(1, 2))]
    return call([ref, *others], draw.integer(-rank - 1, rank) if draw.odd(0.3) else draw.integer(min(1, rank), rank))


def parts(draw: Draw, *numbers: int) -> Arguments:
    ref = draw.value(lambda value: value.dim() > 0)
    return call(ref, *numbers, draw.axis(ref))


def split_with_sizes(draw: Draw) -> Arguments:
    ref = draw.value(lambda value: value.dim() > 0)
    axis = draw.axis(ref)
    size = draw.now(ref).shape[axis]
    first = draw.integer(1, size)
    return call(ref, [first, size - first] if size > first else [first], axis)


def selected(draw: Draw) -> Arguments:
    ref = draw.value(lambda value: value.dim() > 0)
    axis = draw.axis(ref)
    return call(ref, axis, draw.rng.randrange(-draw.now(ref).shape[axis], draw.now(ref).shape[axis]))


def sliced(draw: Draw) -> Arguments:
    """A part of an axis, or all of the batch's, with ends inside and outside, and in terms of the batch size."""
    ref = draw.value(lambda value: value.dim() > 0)
    axis = draw.axis(ref, 0.35)
    size = draw.now(ref).shape[axis]
    if axis % draw.now(ref).dim() == draw.rows(ref):
        whole = [Sym("B"), 2**63 - 1, None, 1 << 31, Sym("2*B"), size]
        odd = [Sym("B-1"), Sym("B//2"), -1, 1, size - 1]
        start = draw.one(None, 0, 0) if not draw.odd(0.2) else draw.one(1, -1, Sym("-B"), -size, Sym("B//2"), -100)
        return call(ref, axis, start, draw.rng.choice(whole if not draw.odd(0.3) else odd), 1 if not draw.odd() else 2)
    ends = (None, size, size - 1, -1, 1, 2, 2**63 - 1, Sym("B"), Sym("B-1"))
    return call(ref, axis, draw.one(None, 0, 1, -1, -2, -100), draw.one(*ends), draw.one(1, 1, 2))


def padded(draw: Draw, general: bool) -> Arguments:
    ref = draw.floats(1) if not general or draw.chance(0.6) else draw.of_rank(draw.one(3, 4))
    rank, row = draw.now(ref).dim(), draw.rows(ref)
    pads: list[int] = []
    for axis in reversed(range(draw.rng.randrange(rank), rank)):
        spare = axis == row and not draw.odd()
        pads += [0, 0] if spare else [draw.one(0, 1, 2, -1), draw.one(0, 1, 2)]
    if not general:
        return call(ref, pads, draw.one(0, 1))
    mode = draw.one("constant", "constant", "reflect", "replicate", "circular")
    return call(ref, pads if mode == "constant" else [draw.one(0, 1) for _ in range(2 * (rank - 2))], mode)


def looked_up(draw: Draw) -> Arguments:
    table: Any = draw.weight([draw.one(8, 16), draw.one(1, 2, 3)])
    if draw.odd():
        table = rows_as(draw, [2])
    return call(table, draw.index() if not draw.odd() else draw.weight([draw.one(1, 2, 4)], 0, 3, True))


def picked(draw: Draw) -> Arguments:
    ref = draw.value(lambda value: value.dim() > 0)
    axis = draw.axis(ref)
    size = draw.now(ref).shape[axis]
    if draw.odd(0.15):
        return call(ref, axis, draw.emit("aten.arange.default", Sym("B")) if draw.chance(0.5) else draw.index())
    return call(ref, axis, draw.weight([draw.one(1, 2, size)], 0, size - 1, True))


def indexed(draw: Draw) -> Arguments:
    """From a constant table by constants, mostly; by rows and row numbers else."""
    if not draw.odd(0.3):
        table = draw.weight([4, draw.one(1, 2, 4)])
        return call(table, draw.one([draw.weight([3], 0, 3, True)], [None, draw.weight([2], 0, 0, True)]))
    ref = draw.floats(1)
    size = draw.now(ref).shape[-1]
    numbers = draw.one(draw.weight([2], 0, size - 1, True), draw.index())
    if draw.odd(0.3):
        return call(ref, [draw.emit("aten.arange.default", Sym("B")), numbers])
    if draw.odd(0.3):
        return call(draw.weight([8, 2]), [draw.index()])
    return call(ref, [*[None] * (draw.now(ref).dim() - 1), numbers])


def shuffled(draw: Draw) -> Ref:
    if draw.chance(0.4):
        return draw.value(lambda v: v.dim() >= 3 and v.shape[-3] % 4 == 0)
    ref = draw.of_rank(4)
    if draw.now(ref).shape[1] % 4:
        ref = draw.emit("aten.repeat.default", ref, [1, 4, 1, 1])
    return ref


#: Operators whose results look into the memory of their operand.
VIEWS = ["expand.default", "expand_as.default", "select.int", "slice.Tensor", "unsqueeze.default", "transpose.int"]
VIEWS += ["permute.default", "view.default", "squeeze.dim", "split.Tensor", "chunk.default", "unbind.int"]
VIEWS += ["alias.default", "contiguous.default", "to.dtype", "reshape.default"]


def entangled(draw: Draw, ref: Ref) -> None:
    """A value, or another in the same memory, is written to; then, mostly, the other one is read."""
    if draw.chance(0.2):
        return draw.one(shifted, laid_on_each_other)(draw)  # type: ignore[no-any-return]
    if draw.chance(0.7):
        ref = looked_into(draw)
    sharers = draw.sharers(ref)
    if not sharers:
        raise NoChoice
    pair = [ref, draw.rng.choice(sharers)]
    draw.rng.shuffle(pair)
    target, reader = pair
    write = draw.one(
        "add_.Tensor", "mul_.Tensor", "add_.Scalar", "masked_fill_.Scalar", "fill_.Scalar", "zero_.default"
    )
    if write == "masked_fill_.Scalar":
        draw.emit(f"aten.{write}", target, odd_fill(draw, target), 5)
    else:
        draw.emit(f"aten.{write}", target, written_in(draw, target) if write.endswith("Tensor") else 5)
    if draw.chance(0.5):
        draw.emit(f"aten.{draw.one('mul', 'add')}.Scalar", reader, 2)
    return None


def nothing(draw: Draw) -> None:
    """A part of a value that has no entries; something is computed from it, perhaps."""
    ref = draw.floats(2)
    empty = draw.emit("aten.slice.Tensor", ref, draw.axis(ref), 1, 1)
    if draw.chance(0.5):
        draw.emit("aten.sum.dim_IntList", empty, [draw.axis(empty)])


def shifted(draw: Draw) -> None:
    """A part of a value is added to the part beside it: what is read has been written to before."""
    ref = draw.emit("aten.mul.Scalar", draw.value(lambda v: v.dim() > 1 and v.shape[-1] > 2), 1)
    one, other = draw.emit("aten.slice.Tensor", ref, -1, 1), draw.emit("aten.slice.Tensor", ref, -1, 0, -1)
    draw.emit(f"aten.{draw.one('add_', 'sub_', 'mul_')}.Tensor", one, other)


def laid_on_each_other(draw: Draw) -> None:
    """A constant is expanded to all rows, so that they are one place in memory, and written to."""
    ref = draw.floats(2)
    shape = [1 if axis == draw.rows(ref) else size for axis, size in enumerate(draw.now(ref).shape)]
    made = draw.emit("aten.mul.Scalar", draw.weight(shape), 1)
    how = draw.one("aten.expand.default", "aten.expand_as.default")
    wide = draw.emit(how, made, ref if how.endswith("_as.default") else draw.sizes(ref))
    draw.emit("aten.masked_fill_.Scalar", wide, draw.emit("aten.gt.Scalar", ref, 0), 5)


def looked_into(draw: Draw) -> Ref:
    """A view of memory that is neither the input's nor a weight's."""
    ref = draw.emit("aten.mul.Scalar", draw.floats(1), 1)
    if draw.chance(0.3):
        ref = draw.emit("aten.unsqueeze.default", ref, -1)
    for _ in range(draw.one(1, 1, 2)):
        ref = drawn(draw, f"aten.{draw.rng.choice(VIEWS)}")
    return ref


def written_in(draw: Draw, target: Ref) -> Any:
    """What is added to a value: anything that fits, a sum over all rows, or another part of its memory."""
    kind = draw.rng.randrange(5)
    if kind == 0:
        return draw.mate(target, smaller=True)
    if kind == 1:
        return all_rows(draw)
    fit = [one for one in draw.sharers(target) if fits_into(draw.now(one), draw.now(target))]
    return draw.rng.choice(fit) if fit else draw.mate(target, smaller=True)


def odd_fill(draw: Draw, target: Ref) -> Any:
    """A mask of the target's entries, or a constant."""
    if draw.chance(0.3) and draw.now(target).is_floating_point():
        return draw.emit("aten.gt.Scalar", target, 0)
    return draw.constant(draw.now(draw.weight(draw.beside(target))) > 0)


for _family in (pointwise, memory, made, products, combined, moved):
    _family()


def drawn(draw: Draw, target: str) -> Ref:
    """One call of an operator of the table; NoChoice if it does not run."""
    args, kwargs = TABLE[target](draw)
    pick = draw.one(0, 0, 1, -1) if target in PICKS else None
    if pick == -1:
        raise NoChoice
    return met(draw, draw.emit(target, *args, pick=pick, **kwargs))


def met(draw: Draw, ref: Ref) -> Ref:
    """What is made of constants alone meets some rows, mostly: else nothing would depend on it."""
    if ref.number not in draw.constants or draw.chance(0.2):
        return ref
    if draw.chance(0.5):
        ref = draw.emit("aten.sum.dim_IntList", ref, list(range(draw.now(ref).dim())))
    value = draw.now(ref)
    fit = [n for n, one in enumerate(draw.runs[0]) if n not in draw.constants and fits_into(value, one)]
    if not fit:
        raise NoChoice
    other = Ref(draw.rng.choice(fit))
    return draw.emit(f"aten.{draw.one('add', 'mul', 'sub')}.Tensor", other, ref)


def home(draw: Draw, ref: Ref) -> None:
    """The rows are brought to the first axis, where they are on another one."""
    row = draw.rows(ref)
    if row is not None and draw.chance(0.7):
        ref = draw.emit("aten.transpose.int", ref, row, 0) if row else ref
        if draw.now(ref).shape[0] != draw.batch:
            draw.emit("aten.reshape.default", ref, [Sym("B"), -1])
