"""Operands and attributes for an operator, drawn by the names that its schema gives them.

Most calls are such that the runtime takes them. `spoiled` changes a call to something that the schema, or good sense,
does not allow: flags beyond 0 and 1, axes twice or out of range, extreme integers, lists of another length, operands
left out, outputs too many.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from known import Call, Known
from onnx import numpy_helper
from schemas import Attribute, Operand, Operator

if TYPE_CHECKING:
    from growth import Growth

INT32_MAX, INT64_MAX, INT64_MIN = 2**31 - 1, 2**63 - 1, -(2**63)
EXTREMES = (INT32_MAX, INT64_MAX, INT64_MIN, -INT32_MAX - 1, INT64_MAX - 1, INT64_MIN + 1)
FLOATS = ("tensor(float)", "tensor(double)")
INTEGERS = ("tensor(int64)", "tensor(int32)")
BOOL = "tensor(bool)"


def arguments(g: "Growth", operator: Operator) -> Call:
    """A call of an operator that should run."""
    return FITS.get(operator.name, _by_schema)(g, operator)


def _by_schema(g: "Growth", operator: Operator) -> Call:
    """Every operand by its name and type, every attribute by its name."""
    operands: list[Known | None] = []
    for formal in operator.operands:
        if formal.option == "Variadic":
            operands += _variadic(g, formal)
        elif formal.option == "Optional" and g.draw.random() < (0.15 if g.temper.fault else 0.5):
            operands.append(None)
        else:
            operands.append(_operand(g, operator, formal, operands))
    while operands and operands[-1] is None:
        operands.pop()
    data = operands[0] if operands else None
    return Call(operands, _attributes(g, operator, data), _outputs(g, operator))


def _outputs(g: "Growth", operator: Operator) -> int:
    """The outputs that must be there; seldom more."""
    least = sum(formal.option != "Optional" for formal in operator.outputs)
    return g.draw.randint(least, len(operator.outputs)) if g.draw.random() < 0.08 else max(least, 1)


def _operand(g: "Growth", operator: Operator, formal: Operand, before: list[Known | None]) -> Known:
    first = before[0] if before else None
    role = ROLES.get((operator.name, formal.name)) or ROLES.get(formal.name)
    if role and first is not None and set(INTEGERS) & formal.types:
        return _integers(g, role(g, first), formal)
    if first is None:
        return _first(g, formal)
    return partner(g, first, formal.types)


def _integers(g: "Growth", wanted: list[Any] | int, formal: Operand) -> Known:
    """Integers as a constant, or computed; of 32 bits now and then."""
    found = np.array(wanted, np.int64)
    if "tensor(int32)" in formal.types and g.draw.random() < 0.1 and np.abs(found).max(initial=0) <= INT32_MAX:
        return g.constant(found.astype(np.int32))
    return g.hide(found)


def _first(g: "Growth", formal: Operand) -> Known:
    """The operand that decides: integers from shapes now and then, truth values made where they are needed."""
    if formal.types <= {BOOL}:
        return truth(g)
    if g.temper.hidden and g.draw.random() < 0.3:
        lists = [known for known in g.pool if known.type in INTEGERS and known.rows is None]
        fitting = [known for known in lists if known.type in formal.types]
        if fitting:
            return g.draw.choice(fitting)
    return g.pick(formal.types)


def truth(g: "Growth") -> Known:
    """A value of truth values: one that is there, or a comparison."""
    there = [known for known in g.pool if known.type == BOOL]
    if there and g.draw.random() < 0.5:
        return g.draw.choice(there)
    known = g.pick((*FLOATS, *INTEGERS))
    other = partner(g, known, frozenset({known.type}))
    return g.add("", g.draw.choice(["Greater", "Less", "Equal"]), [known, other])[0]


def partner(g: "Growth", first: Known, types: frozenset[str]) -> Known:
    """Something that can be broadcast with the first operand: another value, or a constant."""
    if BOOL in types and len(types) == 1:
        return truth(g)
    kind = first.type if first.type in types else g.draw.choice(sorted(types & {*FLOATS, *INTEGERS}) or [""])
    if g.draw.random() < 0.4:
        found = [known for known in g.pool if known.type == kind and _fit(known, first)]
        if found:
            return g.draw.choice(found[-4:])
    return g.constant(numbers(g, broadcast_shape(g, first), kind))


def _fit(one: Known, other: Known) -> bool:
    try:
        return bool(np.prod(np.broadcast_shapes(one.shape, other.shape), dtype=int) <= 2000)
    except ValueError:
        return False


def broadcast_shape(g: "Growth", known: Known) -> list[int]:
    """A shape that can be broadcast with a value; along the rows it is 1, mostly; axes may be added in front."""
    shape = []
    for axis, size in enumerate(known.shape):
        keep = g.draw.random() < (g.temper.daring / 3 if axis == known.rows else 0.5)
        shape.append(size if keep else 1)
    shape = shape[g.draw.randrange(len(shape) + 1) :] if g.draw.random() < 0.6 else shape
    return [1] * g.draw.choice([0, 1, 1, 2]) + shape if g.draw.random() < 0.12 else shape


def numbers(g: "Growth", shape: list[int], kind: str) -> np.ndarray:
    """Small integers other than 0, of a type."""
    types = {"tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32, BOOL: np.bool_}
    count = int(np.prod(shape, dtype=int))
    found = [g.draw.choice([1, 1, 2, 3, -1, -2]) for _ in range(count)]
    return np.array(found, np.float64).reshape(shape).astype(types.get(kind, np.float32))


def _variadic(g: "Growth", formal: Operand) -> list[Known]:
    first = g.pick(formal.types)
    return [first, *(partner(g, first, formal.types) for _ in range(g.draw.choice([0, 1, 1, 2])))]


# Integers by what they are called. --------------------------------------------------------------------------------


def axis(g: "Growth", known: Known, rank: int = 0) -> int:
    """An axis from the front or from the back; seldom that of the rows."""
    rank = rank or known.rank
    others = [one for one in range(rank) if one != known.lies]
    if not others or (known.lies is not None and g.draw.random() < g.temper.daring):
        found = known.lies or 0
    else:
        found = g.draw.choice(others)
    return found - rank if g.draw.random() < 0.3 else found


def axes(g: "Growth", known: Known) -> list[int]:
    """Some axes, each once; in wild graphs one may come twice."""
    found: dict[int, int] = {}
    if g.temper.wild and g.draw.random() < 0.2:
        twice = [axis(g, known), axis(g, known)]
        return [twice[0], g.draw.choice([twice[0], twice[1], twice[0] % max(known.rank, 1)])]
    for _ in range(g.draw.choice([1, 1, 1, 2, 2, 3])):
        one = axis(g, known)
        found[one % max(known.rank, 1)] = one
    return list(found.values())


def _squeezed(g: "Growth", known: Known) -> list[int]:
    ones = [place for place, size in enumerate(known.shape) if size == 1]
    return g.draw.sample(ones, g.draw.randint(1, len(ones))) if ones else [axis(g, known)]


def _unsqueezed(g: "Growth", known: Known) -> list[int]:
    count = g.draw.choice([1, 1, 2])
    rank = known.rank + count
    found = g.draw.sample(range(rank), count)
    if known.rows == 0 and g.draw.random() > g.temper.daring:
        found = g.draw.sample(range(1, rank), count) if rank > count else found
    return [one - rank if g.draw.random() < 0.2 else one for one in found]


def target(g: "Growth", known: Known) -> list[int]:
    """A shape with as many entries: axes put together, cut up, turned; −1 and 0 for some of them."""
    sizes = list(known.shape)
    safe = known.rows == 0 and g.draw.random() > g.temper.daring
    for _ in range(g.draw.randrange(1, 4)):
        sizes = _other_sizes(g, sizes, 1 if safe else 0)
    if not safe and g.draw.random() < 0.2:
        g.draw.shuffle(sizes)
    for place in range(len(sizes)):
        if g.draw.random() < 0.4 and place < known.rank and sizes[place] == known.shape[place]:
            sizes[place] = 0
    if sizes and g.draw.random() < 0.5:
        sizes[g.draw.randrange(len(sizes))] = -1
    return sizes


def _other_sizes(g: "Growth", sizes: list[int], first: int) -> list[int]:
    """Two neighbours multiplied, or one size cut into two factors."""
    if len(sizes) <= first:
        return [*sizes, 1]
    at = g.draw.randrange(first, len(sizes))
    if g.draw.random() < 0.5 and at + 1 < len(sizes):
        return [*sizes[:at], sizes[at] * sizes[at + 1], *sizes[at + 2 :]]
    factor = g.draw.choice([one for one in (1, 1, 2, 3, 4) if sizes[at] % one == 0])
    pair = [factor, sizes[at] // factor]
    return [*sizes[:at], *(pair if g.draw.random() < 0.5 else pair[::-1]), *sizes[at + 1 :]]


def _expanded(g: "Growth", known: Known) -> list[int]:
    """Axes of extent 1 grow, others stay or are written as 1; axes may come in front."""
    sizes = [g.draw.choice([1, 2, g.batch]) if size == 1 else g.draw.choice([size, 1]) for size in known.shape]
    if g.draw.random() < (0.4 if known.rows is None else g.temper.daring):
        sizes = [g.draw.choice([1, 2, g.batch]), *sizes]
    return sizes if g.draw.random() < 0.9 else sizes[1:]


def _repeats(g: "Growth", known: Known) -> list[int]:
    found = [g.draw.choice([1, 1, 2]) for _ in known.shape]
    if known.rows is not None and known.rows >= 0 and g.draw.random() > g.temper.daring:
        found[known.rows] = 1
    return found


def _indices(g: "Growth", sizes: Sequence[int]) -> list[int] | int:
    """Places on the shortest axis fit on all of them; negative ones count from the end."""
    size = min(sizes, default=1)
    one = [g.draw.randrange(-size, size) if size else 0 for _ in range(g.draw.choice([1, 1, 2, 3]))]
    return one[0] if g.draw.random() < 0.4 else one


def _progression(g: "Growth", size: int) -> list[int]:
    """As many places as there are rows, evenly spaced, on an axis of some extent: each row's own, or almost."""
    step = size // g.batch * g.draw.choice([1, 1, 1, 1, 0, -1])
    start = g.draw.choice([0, 0, 0, 0, 1, -1, size - 1, -size])
    found = [start + step * number for number in range(g.batch)]
    if step > 1 and g.draw.random() < 0.3:
        found = [place + g.draw.randrange(step) for place in found]
    if g.draw.random() < 0.4:
        found[g.draw.randrange(g.batch)] += g.draw.choice([1, 1, -1, step])
    return [place if -size <= place < size else place % size for place in found]


def _count(g: "Growth", known: Known) -> list[int]:
    return [g.draw.randint(1, max(min(known.shape, default=1), 1))]


#: Integers that an operand holds, by the name of the operand, or of the operator and the operand.
ROLES: dict[str | tuple[str, str], Callable[["Growth", Known], list[int] | int]] = {
    "axes": axes,
    "axis": lambda g, known: axis(g, known),
    ("Squeeze", "axes"): _squeezed,
    ("Unsqueeze", "axes"): _unsqueezed,
    "shape": target,
    ("Expand", "shape"): _expanded,
    "repeats": _repeats,
    "indices": lambda g, known: _indices(g, known.shape),
    "K": _count,
    "k": lambda g, known: g.draw.randint(-2, 2),
}


# Attributes by what they are called. ------------------------------------------------------------------------------


def _attributes(g: "Growth", operator: Operator, data: Known | None) -> dict[str, object]:
    """Attributes that must be there, and some of the others."""
    found: dict[str, object] = {}
    for one in operator.attributes:
        if one.required or g.draw.random() < LIKELY.get(one.name, 0.5):
            value = _attribute(g, operator, one, data)
            if value is not None:
                found[one.name] = value
    return found


def _attribute(g: "Growth", operator: Operator, one: Attribute, data: Known | None) -> object:
    drawn = VALUES.get((operator.name, one.name)) or VALUES.get(one.name)
    if drawn is not None:
        return None if data is None else drawn(g, data)
    if one.type == "INT":
        return g.draw.choice([0, 1])
    return g.draw.choice([0.0, 0.5, 1.0, 2.0]) if one.type == "FLOAT" else None


def _order(g: "Growth", known: Known) -> list[int]:
    order = list(range(known.rank))
    g.draw.shuffle(order)
    if known.rows in order and g.draw.random() > 2 * g.temper.daring:
        order.remove(known.rows)
        order.insert(0, known.rows)
    return order


def _type(g: "Growth", known: Known) -> int:
    """Mostly to what a sum of it with other values can be made of."""
    return g.draw.choice([g.elem_type] * 5 + [1, 11, 9, 10, 16] + [2, 3, 4, 5, 6, 7, 12, 12, 13])


#: How often an attribute is given that need not be, if not every other time.
LIKELY = {
    "axis": 0.85,
    "axes": 0.9,
    "perm": 0.9,
    "noop_with_empty_axes": 0.2,
    "training_mode": 0.15,
    "seed": 0.2,
    "fmod": 1.0,
}
LIKELY |= {"transA": 0.2, "transBatchA": 0.2, "transBatchB": 0.2}

#: Attributes by their names; the flags are all others that are integers.
VALUES: dict[str | tuple[str, str], Callable[["Growth", Known], object]] = {
    "axis": lambda g, known: axis(g, known),
    "axes": axes,
    ("Squeeze", "axes"): _squeezed,
    ("Unsqueeze", "axes"): _unsqueezed,
    "perm": _order,
    "to": _type,
    "start": lambda g, known: g.draw.randint(-known.rank, known.rank),
    "end": lambda g, known: g.draw.randint(-known.rank, known.rank + 1),
    "p": lambda g, known: g.draw.choice([1, 2]),
    "size": lambda g, known: g.draw.choice([1, 3]),
    "epsilon": lambda g, known: g.draw.choice([1e-5, 1.0]),
    "mode": lambda g, known: g.draw.choice(["constant", "edge", "reflect", "wrap"]),
    "approximate": lambda g, known: g.draw.choice(["none", "tanh"]),
    "fmod": lambda g, known: int(known.type in FLOATS or g.draw.random() < 0.3),
    "momentum": lambda g, known: 0.9,
    "training_mode": lambda g, known: g.draw.choice([0, 0, 0, 1]),
}


# Operators whose operands must fit each other. --------------------------------------------------------------------


def _image(g: "Growth", least: int = 3) -> Known:
    """Floats with at least so many axes, rows first if possible; axes are put behind where there are too few."""
    if g.next is not None and g.next.rank >= least:
        return g.next
    first = [known for known in g.pool if known.type in FLOATS and known.rank >= least and known.rows == 0]
    if first and g.draw.random() > g.temper.daring:
        return g.draw.choice(first[-3:])
    if g.draw.random() < 0.6:
        found = [known for known in g.pool if known.type in FLOATS and known.rank >= least]
        if found:
            return g.draw.choice(found)
    known = g.pick(FLOATS)
    if known.rank >= least:
        return known
    return g.add("", "Reshape", [known, g.constant(np.array([*known.shape, *[1] * (least - known.rank)]))])[0]


def _windows(g: "Growth", operator: Operator, known: Known, kernel: list[int], shown: bool) -> dict[str, object]:
    """The attributes of a window."""
    rank = len(kernel)
    drawn: dict[str, object] = {
        "strides": [g.draw.choice([1, 1, 2]) for _ in range(rank)],
        "dilations": [g.draw.choice([1, 1, 2]) for _ in range(rank)],
        "pads": [g.draw.randrange(0, size) if size > 1 else 0 for size in kernel] * 2,
        "auto_pad": g.draw.choice(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]),
        "kernel_shape": kernel,
        "activation": g.draw.choice(["Relu", "Tanh", "Sigmoid"]),
    }
    there = {one.name for one in operator.attributes}
    found = {key: value for key, value in drawn.items() if key in there and g.draw.random() < 0.3}
    if shown:
        found["kernel_shape"] = kernel
    if found.get("auto_pad", "NOTSET") != "NOTSET":
        found.pop("pads", None)
    flags = {
        one.name: g.draw.randrange(2) for one in operator.attributes if one.name not in drawn and one.type == "INT"
    }
    flags = {key: value for key, value in flags.items() if key != "group" and g.draw.random() < 0.3}
    return {**found, **flags, **({"p": g.draw.choice([1, 2])} if "p" in flags else {})}


def _kernel(g: "Growth", known: Known) -> list[int]:
    return [g.draw.randint(1, min(size, 3)) if size else 1 for size in known.shape[2:]]


def _convolution(g: "Growth", operator: Operator) -> Call:
    image = _image(g)
    channels, kernel = image.shape[1], _kernel(g, image)
    group = g.draw.choice([one for one in (1, 1, 1, 2, 3, channels) if one and channels % one == 0])
    features = group * g.draw.choice([1, 2, 2, g.batch])
    weights = g.constant(numbers(g, [features, channels // group, *kernel], image.type))
    operands: list[Known | None] = [image, weights]
    if g.draw.random() < 0.4:
        operands.append(g.constant(numbers(g, [features], image.type)))
    attributes = _windows(g, operator, image, kernel, False)
    if group != 1:
        attributes["group"] = group
    if operator.name == "FusedConv" and g.draw.random() < 0.4:
        operands = [*operands, None][:3]
        operands.append(_summand(g, [image.shape[0], features, *image.shape[2:]], image))
    return Call(operands, attributes)


def _summand(g: "Growth", shape: list[int], known: Known) -> Known:
    """A value of this shape: one that is there, or a constant."""
    found = [one for one in g.pool if list(one.shape) == shape and one.type == known.type]
    return g.draw.choice(found) if found else g.constant(numbers(g, shape, known.type))


def _pool(g: "Growth", operator: Operator) -> Call:
    image = _image(g)
    attributes = _windows(g, operator, image, _kernel(g, image), True)
    return Call([image], attributes, 2 if operator.name == "MaxPool" and g.draw.random() < 0.1 else 1)


def _global_pool(g: "Growth", operator: Operator) -> Call:
    image = _image(g)
    return Call([image], _attributes(g, operator, image))


def _channel_norm(g: "Growth", operator: Operator) -> Call:
    """Normalisations with a parameter for each channel."""
    image = _image(g, 2 if operator.name == "BatchNormalization" else 3)
    channels = image.shape[1]
    attributes = _attributes(g, operator, image)
    count = channels
    if operator.name == "GroupNormalization":
        groups = g.draw.choice([one for one in (1, 2, channels) if one and channels % one == 0])
        attributes["num_groups"] = groups
        count = channels if g.opset >= 21 else groups
    given = [g.constant(numbers(g, [count], image.type)) for _ in operator.operands[1:]]
    if operator.name == "BatchNormalization":
        given[3] = g.constant(np.abs(numbers(g, [count], image.type)))
        if "training_mode" in attributes and g.draw.random() < g.temper.daring:
            attributes["training_mode"] = 1
    outputs = g.draw.choice([1] * 12 + [3, 5]) if operator.name == "BatchNormalization" else 1
    return Call([image, *given], attributes, outputs)


def _tail_norm(g: "Growth", operator: Operator) -> Call:
    """Normalisations over the last axes, from one of them on."""
    known = g.pick(FLOATS, lambda one: one.rank > 0)
    attributes = _attributes(g, operator, known)
    if known.rows == 0 and known.rank > 1 and g.draw.random() > g.temper.daring:
        attributes["axis"] = g.draw.choice([g.draw.randrange(1, known.rank), g.draw.randrange(1 - known.rank, 0)])
    first = attributes.get("axis", -1)
    shape = list(known.shape[first if isinstance(first, int) else -1 :])
    shape = shape if g.draw.random() < (0.8 if g.temper.daring < 1 else 0.3) else broadcast_shape(g, known)
    given = [g.constant(numbers(g, shape, known.type)) for _ in operator.operands[1:]]
    if len(given) > 1 and g.draw.random() < 0.4:
        given.pop()
    return Call([known, *given], attributes, _outputs(g, operator))


def _skip_norm(g: "Growth", operator: Operator) -> Call:
    known = _image(g, g.draw.choice([2, 3]))
    shape = list(known.shape) if g.draw.random() < 0.7 else [1, *known.shape[1:]]
    skip = _summand(g, shape, known) if g.draw.random() < 0.5 else g.constant(numbers(g, shape, known.type))
    if g.draw.random() < 0.5:
        skip = known
    width = [known.shape[-1]]
    given = [g.constant(numbers(g, width, known.type)) for _ in range(g.draw.choice([1, 2, 3]))]
    return Call([known, skip, *given], _attributes(g, operator, known), g.draw.choice([1, 1, 1, 4]))


def _last_bias(g: "Growth", operator: Operator) -> Call:
    """A value and a bias along its last axis."""
    known = g.pick(FLOATS, lambda one: one.rank >= 1)
    bias = g.constant(numbers(g, [known.shape[-1]], known.type))
    optional = operator.operands[1].option == "Optional" and g.draw.random() < 0.4
    return Call([known] if optional else [known, bias], _attributes(g, operator, known))


def _matmul(g: "Growth", operator: Operator) -> Call:
    """A value and something that it can be multiplied by, on either side."""
    matrix = operator.name in ("Gemm", "FusedGemm")
    known = _matrix(g) if matrix else g.pick(FLOATS, lambda one: one.rank >= 1)
    attributes = {} if operator.name == "MatMul" else _attributes(g, operator, known)
    turned = [bool(attributes.get(f"trans{side}")) for side in "AB"]
    left = g.draw.random() < 0.8
    shape = _moved_batch(list(known.shape), bool(attributes.get(f"transBatch{'A' if left else 'B'}")))
    other = _other_matrix(g, shape, left, turned, known)
    operands = [known, other] if left else [other, known]
    if matrix and g.draw.random() < 0.4:
        operands.append(g.constant(numbers(g, _summand_shape(g, operands), known.type)))
    if "Fused" in operator.name and operator.name != "FusedMatMul" and g.draw.random() < 0.5:
        attributes["activation"] = g.draw.choice(["Relu", "LeakyRelu", "Tanh"])
    return Call(operands, attributes)


def _summand_shape(g: "Growth", operands: list[Known]) -> list[int]:
    """What is added to a product of matrices: something small, or an entry for each row of it."""
    rows = operands[0].shape[0] if g.draw.random() < g.temper.daring else 1
    return g.draw.choice([[], [1], [1, 1], [rows, 1], [rows, 1]])


def _matrix(g: "Growth") -> Known:
    """A value of two axes; made by Flatten where there is none."""
    found = [one for one in g.pool if one.type in FLOATS and one.rank == 2]
    if g.next is not None and g.next.rank == 2:
        return g.next
    if found and g.draw.random() < 0.7:
        return g.draw.choice(found[-3:])
    return g.add("", "Flatten", [g.pick(FLOATS, lambda one: one.rank >= 1)], {"axis": 1})[0]


def _moved_batch(shape: list[int], moved: bool) -> list[int]:
    return [*shape[1:-1], shape[0], shape[-1]] if moved and len(shape) > 2 else shape


def _other_matrix(g: "Growth", shape: list[int], left: bool, turned: list[bool], known: Known) -> Known:
    """What goes on the other side; a value that fits, or a constant."""
    last = [*shape, 1][-2 - (len(shape) > 1) :][:2] if len(shape) > 1 else [1, shape[0]]
    inner = last[0 if turned[0] else 1] if left else last[1 if turned[1] else 0]
    free = g.draw.choice([1, 2, 3, g.batch])
    pair = [inner, free] if left else [free, inner]
    pair = pair[::-1] if turned[1 if left else 0] else pair
    if g.draw.random() < 0.3:
        found = [one for one in g.pool if one.type == known.type and one.rank >= 2 and inner in one.shape[-2:]]
        if found:
            return g.draw.choice(found)
    first = [g.draw.choice([1, size]) for size in shape[:-2]] if g.draw.random() < 0.2 else []
    return g.constant(numbers(g, [*first, *pair], known.type))


def _einsum(g: "Growth", operator: Operator) -> Call:
    """Letters for all axes: equal sizes may share one; the rows' letter stays, mostly."""
    known = g.pick(FLOATS, lambda one: 1 <= one.rank <= 5)
    others = [one for one in g.pool if one.type == known.type and 1 <= one.rank <= 5]
    letters = dict(zip("abcde", known.shape, strict=False))
    terms = [_diagonal(g, "".join(letters), known)]
    operands = [known]
    if g.draw.random() < 0.7:
        second = g.draw.choice(others) if g.draw.random() < 0.4 else None
        term = _term(g, letters, second)
        shape = [_other_extent(g, letters[one]) for one in term]
        operands.append(second if second is not None else g.constant(numbers(g, shape, known.type)))
        terms.append(term)
    if len(terms) > 1 and g.draw.random() < 0.3:
        terms, operands = terms[::-1], operands[::-1]
    used = sorted(set("".join(terms)))
    kept = g.draw.sample(used, g.draw.randrange(1, len(used) + 1))
    if known.rows is not None and known.rows >= 0 and g.draw.random() > g.temper.daring:
        row = "abcde"[known.rows]
        kept = [row, *(one for one in kept if one != row)]
    return Call(operands, {"equation": _written(g, terms, kept)})


def _other_extent(g: "Growth", size: int) -> int:
    """The extent that a letter stands for in the other operand; now and then 1, or more than 1."""
    if g.draw.random() > 0.2:
        return size
    return g.draw.choice([2, 3]) if size == 1 else 1


def _written(g: "Growth", terms: list[str], kept: list[str]) -> str:
    """An equation; now and then without an arrow, with dots for what two terms begin with, or with spaces."""
    left, right = ",".join(terms), "".join(kept)
    way = g.draw.randrange(40)
    if way == 0:
        return left
    if way == 1 and all(term[:1] == right[:1] for term in terms):
        return f"{','.join('...' + term[1:] for term in terms)}->...{right[1:]}"
    return f"{left} -> {right}" if way == 2 else f"{left}->{right}"


def _diagonal(g: "Growth", term: str, known: Known) -> str:
    """Now and then two axes of the same extent get one letter."""
    pairs = [(a, b) for a in range(known.rank) for b in range(a) if known.shape[a] == known.shape[b]]
    if not pairs or g.draw.random() > 0.03 + g.temper.daring / 4:
        return term
    later, first = g.draw.choice(pairs)
    return term.replace(term[later], term[first])


def _term(g: "Growth", letters: dict[str, int], second: Known | None) -> str:
    """The letters of a second operand."""
    if second is None:
        return "".join(g.draw.sample(sorted(letters), g.draw.randint(1, min(2, len(letters)))))
    term = ""
    for size in second.shape:
        same = [one for one, other in letters.items() if (other == size or 1 in (other, size)) and one not in term]
        new = next(one for one in "fghijklm" if one not in letters)
        one = g.draw.choice(same) if same and g.draw.random() < 0.8 else new
        letters[one] = max(size, letters.get(one, 1))
        term += one
    return term


def _concat(g: "Growth", operator: Operator) -> Call:
    known = g.pick((*FLOATS, *INTEGERS), lambda one: one.rank >= 1)
    place = axis(g, known) if g.opset >= 11 else axis(g, known) % known.rank
    parts = [known]
    for _ in range(g.draw.choice([0, 1, 1, 2])):
        shape = list(known.shape)
        same = [one for one in g.pool if one.type == known.type and _joins(one, known, place % known.rank)]
        if same and g.draw.random() < 0.75:
            parts.append(g.draw.choice(same))
        else:
            shape[place] = g.draw.choice([1, 2])
            parts.append(g.constant(numbers(g, shape, known.type)))
    g.draw.shuffle(parts)
    return Call(parts, {"axis": place})


def _joins(one: Known, other: Known, place: int) -> bool:
    return one.rank == other.rank and all(
        a == b for axis_, (a, b) in enumerate(zip(one.shape, other.shape, strict=True)) if axis_ != place
    )


def _split(g: "Growth", operator: Operator) -> Call:
    known = g.pick((*FLOATS, *INTEGERS), lambda one: one.rank >= 1)
    place = axis(g, known)
    size = known.shape[place]
    count = g.draw.choice([1, 2, 2, 3])
    cuts = sorted(g.draw.randint(0, size) for _ in range(count - 1))
    parts = [end - start for start, end in zip([0, *cuts], [*cuts, size], strict=True)]
    attributes: dict[str, object] = {"axis": place}
    operands: list[Known | None] = [known]
    if g.draw.random() < 0.6:
        if g.opset < 13:
            attributes["split"] = parts
        else:
            operands.append(g.hide(np.array(parts)))
    elif g.opset >= 18:
        attributes["num_outputs"] = count + (g.draw.choice([-1, 1]) if g.draw.random() < g.temper.wild / 8 else 0)
    return Call(operands, attributes, count)


def _slice(g: "Growth", operator: Operator) -> Call:
    known = g.pick((*FLOATS, *INTEGERS), lambda one: one.rank >= 1)
    places = axes(g, known)
    starts, ends, steps = zip(*(_bounds(g, known, place) for place in places), strict=True)
    if g.opset < 10:
        return Call([known], {"starts": starts, "ends": ends, "axes": places})
    formal = operator.operands[1]
    operands = [_integers(g, list(part), formal) for part in (starts, ends, places, steps)]
    if all(step == 1 for step in steps) and g.draw.random() < 0.5:
        operands.pop()
    operands = operands[:2] if places == [0] and len(operands) == 3 and g.draw.random() < 0.5 else operands
    kind = operands[0].type
    return Call([known, *(one for one in operands if one.type == kind)], {})


def _bounds(g: "Growth", known: Known, place: int) -> tuple[int, int, int]:
    """Start, end and step: inside, at the edges, beyond them; on the rows all of them, mostly."""
    size = known.shape[place]
    whole = (0, g.draw.choice([size, INT64_MAX, INT32_MAX]), 1)
    if place % known.rank == known.rows and g.draw.random() > g.temper.daring:
        return whole
    edges = [0, 1, -1, size, -size, size - 1, -size - 1, size + 1, 2, -2]
    step = 1 if g.opset < 10 else g.draw.choice([1, 1, 1, 2, -1, -1, -2])
    return g.draw.choice(edges), g.draw.choice([*edges, *EXTREMES[:3]]), step


def _pad(g: "Growth", operator: Operator) -> Call:
    known = g.pick((*FLOATS, *INTEGERS), lambda one: one.rank >= 1)
    places = axes(g, known) if g.opset >= 18 and g.draw.random() < 0.5 else list(range(known.rank))
    pads = [_padding(g, known, place) for place in places] + [_padding(g, known, place) for place in places]
    attributes = _attributes(g, operator, known)
    if g.opset < 11:
        return Call([known], {**attributes, "pads": pads})
    operands: list[Known | None] = [known, g.hide(np.array(pads))]
    operands.append(g.constant(numbers(g, [], known.type)) if g.draw.random() < 0.3 else None)
    if len(places) < known.rank or (g.opset >= 18 and g.draw.random() < 0.4):
        operands.append(g.hide(np.array(places)))
    return Call(operands if operands[-1] else operands[:-1], attributes)


def _padding(g: "Growth", known: Known, place: int) -> int:
    rows = place % known.rank == known.rows
    if rows and g.draw.random() > g.temper.daring:
        return 0
    return g.draw.choice([0, 0, 1, 1, 2, -1])


def _gather(g: "Growth", operator: Operator) -> Call:
    """Some places on an axis; on that of the rows as many as there are rows, one after the other or one below it."""
    if g.draw.random() < 0.3:
        return _by_schema(g, operator)
    known = g.pick((*FLOATS, *INTEGERS), lambda one: one.rank >= 1)
    place = axis(g, known)
    if known.lies is not None and g.draw.random() < 0.1 + 0.5 * (g.next is not None):
        place = known.lies
    size = known.shape[place]
    if place % known.rank != known.lies and g.draw.random() < 0.8:
        places = _indices(g, [size])
    else:
        shape = g.draw.choice([[-1], [-1], [-1], [-1, 1], [1, -1]])
        places = np.array(_progression(g, size)).reshape(shape).tolist()
    return Call([known, _integers(g, places, operator.operands[1])], {"axis": place})


def _where(g: "Growth", operator: Operator) -> Call:
    """A condition that is computed, or a constant that can be broadcast with what it chooses from."""
    kinds = operator.operands[1].types & {*FLOATS, *INTEGERS}
    if g.draw.random() < 0.1:
        return _chosen(g)
    one = _first(g, Operand("X", "Single", frozenset(kinds)))
    other = partner(g, one, frozenset({one.type}))
    fixed = one.rows is None or g.draw.random() < 0.4
    tested = g.constant(numbers(g, broadcast_shape(g, one), BOOL) > 0) if fixed else truth(g)
    if fixed:
        pattern = np.array([g.draw.random() < 0.5 for _ in range(tested.value.size)]).reshape(tested.shape)
        tested = g.constant(pattern)
    return Call([tested, one, other], {})


def _chosen(g: "Growth") -> Call:
    """Truth values choose from constants, of any type."""
    tested, kind = truth(g), g.draw.choice([*FLOATS, *INTEGERS])
    return Call([tested, *(g.constant(numbers(g, broadcast_shape(g, tested), kind)) for _ in range(2))], {})


def _dropout(g: "Growth", operator: Operator) -> Call:
    """Of rows or of constants; training or not."""
    known = g.constant(numbers(g, [g.batch, 2], "tensor(float)")) if g.draw.random() < 0.2 else g.pick(FLOATS)
    operands: list[Known | None] = [known]
    if len(operator.operands) > 1 and g.draw.random() < 0.6:
        operands.append(g.constant(np.array(0.5, np.float32)) if g.draw.random() < 0.7 else None)
        operands.append(g.constant(np.array(g.draw.random() < 0.1 + g.temper.daring)))
    return Call(operands, _attributes(g, operator, known), g.draw.choice([1, 1, 1, 2]))


def _constant(g: "Growth", operator: Operator) -> Call:
    """A constant that is written in any of the ways there are."""
    shape = broadcast_shape(g, g.pick(FLOATS))
    kinds = [one.name for one in operator.attributes if one.name in ("value", "value_float", "value_floats")]
    kinds += [one.name for one in operator.attributes if one.name in ("value_int", "value_ints")]
    kind = g.draw.choice(kinds)
    found = {
        "value": numpy_helper.from_array(numbers(g, shape, "tensor(float)")),
        "value_float": 2.0,
        "value_floats": [float(g.draw.randint(-2, 2)) for _ in range(g.draw.choice([1, 2, 3]))],
        "value_int": g.draw.randint(0, 3),
        "value_ints": [g.draw.randint(0, 3) for _ in range(g.draw.choice([1, 2, 3]))],
    }
    return Call([], {kind: found[kind]})


def _range(g: "Growth", operator: Operator) -> Call:
    """From constants, or from the batch size."""
    start, count, step = g.draw.choice([0, 0, 1]), g.draw.choice([1, 2, 3, g.batch]), g.draw.choice([1, 1, 2, -1])
    limit = start + count * step
    if g.draw.random() < 0.5:
        return Call([g.hide(np.array(one)) for one in (start, limit, step)], {})
    return Call([g.constant(np.array(one, np.float32)) for one in (start, limit, step)], {})


def _filled(g: "Growth", operator: Operator) -> Call:
    """A constant of a shape that is given, or that of a value."""
    known = g.pick(FLOATS)
    sizes = g.hide(np.array(broadcast_shape(g, known), np.int64))
    if g.draw.random() < 0.5:
        sizes = g.add("", "Shape", [known])[0]
    value = numbers(g, [1], g.draw.choice(["tensor(float)", "tensor(int64)"]))
    return Call([sizes], {"value": numpy_helper.from_array(value)} if g.draw.random() < 0.8 else {})


FITS: dict[str, Callable[["Growth", Operator], Call]] = {
    **dict.fromkeys(("Conv", "FusedConv"), _convolution),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool", "LRN"), _global_pool),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization", "GroupNormalization"), _channel_norm),
    **dict.fromkeys(("LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization"), _tail_norm),
    "SkipLayerNormalization": _skip_norm,
    **dict.fromkeys(("BiasGelu", "FastGelu"), _last_bias),
    **dict.fromkeys(("MatMul", "Gemm", "FusedMatMul", "FusedGemm"), _matmul),
    "Einsum": _einsum,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Where": _where,
    "Gather": _gather,
    "Dropout": _dropout,
    "Constant": _constant,
    "Range": _range,
    "ConstantOfShape": _filled,
}


# Outside the schema. ----------------------------------------------------------------------------------------------


def spoiled(g: "Growth", operator: Operator, call: Call) -> Call:
    """The call with one thing changed that the schema or good sense does not allow."""
    changed = Call(list(call.operands), dict(call.attributes), call.outputs)
    ways = [_spoil_attribute] * 5 + [_spoil_list] * 3 + [_spoil_operands, _spoil_outputs]
    g.draw.choice(ways)(g, operator, changed)
    first = changed.operands[0] if changed.operands else None
    if first is not None and not first.constant and g.draw.random() < 0.6:
        changed.operands = [g.veiled(first), *changed.operands[1:]]
    return changed


def _spoil_attribute(g: "Growth", operator: Operator, call: Call) -> None:
    """One attribute gets another value, another length or another type, or goes."""
    if not operator.attributes:
        return _spoil_list(g, operator, call)
    lists = [one for one in operator.attributes if one.type == "INTS"]
    one = g.draw.choice(lists if lists and g.draw.random() < 0.6 else operator.attributes)
    there = call.attributes.get(one.name)
    way = g.draw.random()
    if there is not None and way < 0.1:
        del call.attributes[one.name]
    elif way < 0.15:
        call.attributes[g.draw.choice([one.name, "unheard_of"])] = g.draw.choice([1, 1.0, [1], [1.0], "NOTSET"])
    elif one.type == "INT":
        call.attributes[one.name] = g.draw.choice([2, -1, 3, -2, 2, -1, 0, 1, g.draw.choice(EXTREMES)])
    elif one.type == "INTS":
        old = list(there) if isinstance(there, list | tuple) else [1, 1]
        call.attributes[one.name] = spoiled_list(g, [int(entry) for entry in old])
    elif one.type == "FLOAT":
        call.attributes[one.name] = g.draw.choice([0.0, -1.0, float("nan"), float("inf"), 1e30])
    elif one.type == "STRING":
        call.attributes[one.name] = g.draw.choice(["", "NOTSET", "VALID", "SAME_UPPER", "wrap", "other"])


def spoiled_list(g: "Growth", numbers_: list[int]) -> list[int]:
    """A list with an entry more or less, twice, turned over or out of range; or none."""
    found = list(numbers_)
    at = g.draw.randrange(len(found)) if found else 0
    way = g.draw.randrange(7)
    if way == 0 or not found:
        return [*found, *(g.draw.choice([0, 1, -1, 2]) for _ in range(g.draw.choice([1, 1, 2, 4])))]
    if way == 1:
        return found[:at] + found[at + 1 :]
    if way == 2:
        return [*found, found[at]]
    if way == 3:
        found[at] = g.draw.choice([*EXTREMES, -1, 0, 2, 5, -5])
    if way == 4:
        found[at] = -found[at]
    if way == 6:
        found[at] = g.draw.choice(found)
    return [] if way == 5 and g.draw.random() < 0.5 else found


def _spoil_list(g: "Growth", operator: Operator, call: Call) -> None:
    """A constant of integers among the operands is changed; it may be computed then."""
    operands = list(call.operands)
    places = [place for place, one in enumerate(operands) if one and one.type in INTEGERS and one.rows is None]
    if not places:
        return
    place = g.draw.choice(places)
    old = operands[place]
    if old is None or old.rank > 1:
        return
    entries = spoiled_list(g, [int(entry) for entry in old.value.ravel()])
    kind = np.iinfo(old.value.dtype)
    found = np.array([min(max(entry, kind.min), kind.max) for entry in entries], np.int64)
    found = found[0] if len(found) == 1 and (old.rank == 0) == (g.draw.random() < 0.9) else found
    found = found.reshape(1, -1) if g.draw.random() < 0.1 else found
    operands[place] = g.hide(np.asarray(found)) if old.type == "tensor(int64)" else g.constant(found.astype(np.int32))
    call.operands = operands


def _spoil_operands(g: "Growth", operator: Operator, call: Call) -> None:
    """One operand goes, comes twice, is left empty, or changes places with another."""
    operands = list(call.operands)
    if not operands:
        return
    at = g.draw.randrange(len(operands))
    way = g.draw.randrange(5)
    if way == 0:
        operands[at] = None
    elif way == 1:
        operands.pop(at)
    elif way == 2:
        operands.append(g.draw.choice([g.draw.choice(g.pool), None]))
    elif way == 3:
        operands[at] = g.draw.choice(g.pool)
    else:
        g.draw.shuffle(operands)
    call.operands = operands


def _spoil_outputs(g: "Growth", operator: Operator, call: Call) -> None:
    call.outputs = max(1, call.outputs + g.draw.choice([-1, 1, 1, 2]))
