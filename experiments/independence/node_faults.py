"""Faults of a node that put it outside the dialect: its attributes, its operands, its outputs.

Each function plants one and says which; or None, if it does not fit.
"""

from collections.abc import Callable

import numpy as np
import unlawful
from planting import HOPELESS, KINDS, LONG, Site

#: Of each type of attribute, a value of another type that looks much like it.
OTHER_TYPES: dict[str, tuple[object, int]] = {
    "INT": (1.0, KINDS.FLOAT),
    "FLOAT": (1, KINDS.INT),
    "STRING": (1, KINDS.INT),
    "FLOATS": ([1, 1], KINDS.INTS),
    "TENSOR": (1, KINDS.INT),
}


# Of attributes. ---------------------------------------------------------------------------------------------------


def _value(site: Site) -> str | None:
    """A value that the attribute may not have."""
    if site.schema is None or not site.schema.attributes:
        return None
    one = site.draw.choice(site.schema.attributes)
    found = unlawful.value(site.draw, site.node.op_type, one.name, one.type, site.rank, len(site.node.output))
    if found is None:
        return None
    site.set(one.name, found)
    if one.name in unlawful.FLAGS:
        site.guards.append(HOPELESS)
    return f"{site.title}: {one.name} is {found}"


def _type(site: Site) -> str | None:
    """A value of another type."""
    if site.schema is None or not site.schema.attributes:
        return None
    one = site.draw.choice(site.schema.attributes)
    value, kind = OTHER_TYPES.get(one.type, (None, 0))
    if one.type == "INTS":
        old = next((list(given.ints) for given in site.node.attribute if given.name == one.name), []) or [1, 1]
        value, kind = [float(entry) for entry in old], KINDS.FLOATS
    if value is None or (one.type == "FLOATS" and site.draw.random() < 0.5):
        value, kind = 1.0, KINDS.FLOAT
    site.set(one.name, value, kind)
    site.by_schema()
    return f"{site.title}: {one.name} is of another type"


def _unknown_attribute(site: Site) -> str | None:
    name = site.draw.choice(["unheard_of", "unheard_of", "__note"])
    site.set(name, 1)
    if name == "unheard_of":
        site.by_schema()
    return f"{site.title}: it has an attribute {name}"


def _attribute_written(site: Site) -> str | None:
    """An attribute comes twice, by reference, without a type, or is missing."""
    if not site.node.attribute:
        return None
    one = site.draw.choice(site.node.attribute)
    way = site.draw.randrange(5)
    if way == 0:
        site.node.attribute.append(one)
        site.by_schema()
        return f"{site.title}: {one.name} is there twice"
    if way == 1:
        one.ref_attr_name = "other"
        return f"{site.title}: {one.name} is given by reference"
    if way == 2:
        one.ref_attr_name, one.type = "other", KINDS.GRAPHS
        site.by_schema()
        return f"{site.title}: {one.name} is given by reference, of another type"
    if way == 3:
        one.type = KINDS.UNDEFINED
        site.by_schema()
        return f"{site.title}: {one.name} has no type"
    required = [given.name for given in site.schema.attributes if given.required] if site.schema else []
    if one.name not in required or site.node.domain:  # of the runtime's own nothing is said to be required
        return None
    site.node.attribute.remove(one)
    site.by_schema()
    return f"{site.title}: {one.name} is missing"


# Of operands and outputs. -----------------------------------------------------------------------------------------


def _counts(site: Site) -> str | None:
    """Operands too few, too many, or left out; outputs too many, or the first one left out."""
    if site.schema is None:
        return None
    options = [one.option for one in site.schema.operands]
    least, variadic = options.count("Single"), "Variadic" in options
    way = site.draw.choice(["few", "many", "blank", "outputs", "nameless"])
    if way == "few" and least and not variadic:
        del site.node.input[site.draw.randrange(least) :]
        site.by_schema()
        return f"{site.title}: it has {len(site.node.input)} operands"
    if way == "many" and not variadic:
        more = [*site.node.input, *[""] * len(options)][: len(options)]
        del site.node.input[:]
        site.node.input.extend([*more, site.constant(np.ones((), np.float32))])
        site.by_schema()
        return f"{site.title}: it has {len(site.node.input)} operands"
    if way == "blank" and site.node.input:
        place = site.draw.randrange(len(site.node.input) if variadic else max(least, 1))
        if place >= len(site.node.input) or not (least or variadic):
            return None
        site.node.input[place] = ""
        site.by_schema()
        return f"{site.title}: operand {place} is left out"
    if way == "outputs" and site.schema.outputs[-1].option != "Variadic":
        while len(site.node.output) <= len(site.schema.outputs):
            site.node.output.append(f"planted output {len(site.node.output)}")
            site.shapes[site.node.output[-1]] = (site.batch, 1)
        site.by_schema()
        return f"{site.title}: it has {len(site.node.output)} outputs"
    if way == "nameless" and not site.live:
        site.node.output[0] = ""
        site.by_schema()
        return f"{site.title}: its first output has no name"
    return None


def _parameter(site: Site) -> str | None:
    """A parameter, or what decides a shape, is made of rows: of the same type and shape, if there are such rows."""
    places = [place for place in unlawful.PARAMETERS.get(site.title, ()) if place < len(site.node.input)]
    places = [place for place in places if site.node.input[place]]
    if not places:
        return None
    place = site.draw.choice(places)
    like = site.shapes[site.node.input[place]]
    nodes = list(site.graph.node)
    before = {name for one in nodes[: nodes.index(site.node)] for name in one.output} | {site.graph.input[0].name}
    rows = [name for name in site.made_of_rows() if name in before]
    same = [name for name in rows if site.shapes[name] == like]
    site.node.input[place] = site.draw.choice(same or rows)
    return f"{site.title}: operand {place} is computed from the batch"


def _operand_list(site: Site) -> str | None:
    """A list among the operands, of a node that works on rows, is another one, or has two axes."""
    if not site.live:
        return None
    if site.draw.random() < 0.15:
        return _of_two_axes(site)
    found = unlawful.operand(site.draw, site.node.op_type, site.listed, site.rank)
    if found is None:
        return None
    place, entries = found
    if site.draw.random() < 0.02:
        entries = entries * (LONG + 1)
    site.node.input[place] = site.constant(np.array(entries, np.int64))
    return f"{site.title}: operand {place} is {entries[:9]}"


def _of_two_axes(site: Site) -> str | None:
    places = [1, 3] if site.node.op_type in ("Slice", "Pad") else [1]
    known = site.node.op_type.startswith("Reduce") or site.node.op_type in unlawful.OPERANDS
    place = site.draw.choice(places)
    there = site.listed(place)
    if not known or there is None:
        return None
    site.node.input[place] = site.constant(np.array([there], np.int64))
    return f"{site.title}: operand {place} is no list"


def _misfit(site: Site) -> str | None:
    """Operands of a node on rows whose shapes its definition does not allow together."""
    found = MISFITS.get(site.node.op_type)
    return found(site) if found is not None and site.live else None


def _of_clip(site: Site) -> str | None:
    if len(site.node.input) < 2:
        return None
    site.node.input[1] = site.constant(np.ones(1, np.float32))
    return "Clip: a bound is no scalar"


def _of_cast(site: Site) -> str | None:
    site.set("to", site.draw.choice([2, 3, 4, 5, 6, 7, 12, 13]))
    return "Cast: rows are cast to integers"


def _of_product(site: Site) -> str | None:
    """A constant matrix with a row or a column more along which it is summed."""
    tensors = {tensor.name: tensor for tensor in site.graph.initializer}
    place = site.draw.randrange(2)
    name = site.node.input[place]
    turned = any(one.name == f"trans{'AB'[place]}" and one.i for one in site.node.attribute)
    if name not in tensors or len(tensors[name].dims) != 2 or tensors[name].data_type != 1:
        return None
    shape = list(tensors[name].dims)
    shape[(place == 0) != turned] += 1
    site.node.input[place] = site.constant(np.ones(shape, np.float32))
    return f"{site.title}: the matrices do not fit together"


def _of_einsum(site: Site) -> str | None:
    one = site.node.attribute[0]
    left, arrow, right = one.s.decode().replace(" ", "").partition("->")
    terms = left.split(",")
    ways = [f"{left}", f"{left},{terms[0]}->{right}", one.s.decode().replace(terms[0][0], "1")]
    gone = [letter for letter in terms[0] if letter not in right]
    if gone:  # a letter that is summed is written twice, or left out
        other = next((letter for letter in terms[0] if letter != gone[0]), "")
        ways += [one.s.decode().replace(gone[0], ""), one.s.decode().replace(gone[0], other)] if other else []
    equation = site.draw.choice(ways)
    if not arrow or equation == one.s.decode():
        return None
    one.s = equation.encode()
    return f"Einsum: its equation is {equation}"


def _of_skip(site: Site) -> str | None:
    site.node.input[1] = site.constant(np.ones(site.draw.choice([1, site.rank]) * [1], np.float32))
    shape = site.shapes[site.node.input[0]]
    return None if shape[-2:] == (1, 1) else "SkipLayerNormalization: what is added has another shape"


def _of_summand(site: Site) -> str | None:
    """Larger along an axis of extent 1, which is not that of the rows."""
    like = site.shapes[site.node.output[0]]
    single = [axis for axis, size in enumerate(like) if size == 1 and axis]
    if not single:
        return None
    shape = [1] * len(like)
    shape[site.draw.choice(single)] = 2
    operands = [*site.node.input, "", ""][:3]
    del site.node.input[:]
    site.node.input.extend([*operands, site.constant(np.ones(shape, np.float32))])
    return f"{site.title}: what is added is larger"


def _of_bias(site: Site) -> str | None:
    if len(site.node.input) < 2:
        return None
    site.node.input[-1] = site.constant(np.ones((2, *[1] * site.rank), np.float32))
    return f"{site.title}: a parameter is larger than what it applies to"


def _of_concat(site: Site) -> str | None:
    """One of the operands is made longer along an axis that is neither that of the rows nor the one that grows."""
    if len(site.node.input) < 2:
        return None
    place = site.draw.randrange(1, len(site.node.input))
    name = site.node.input[place]
    shape = site.shapes[name]
    grows = site.node.attribute[0].i % len(shape)
    free = [axis for axis, size in enumerate(shape) if axis != grows and size != site.batch]
    if name not in site.made_of_rows() or not free:
        return None
    repeats = np.ones(len(shape), np.int64)
    repeats[site.draw.choice(free)] = 2
    longer = tuple(int(size * times) for size, times in zip(shape, repeats, strict=True))
    tiled = site.before("Tile", [name, site.constant(repeats)], longer)
    site.node.input[place] = tiled
    return "Concat: the operands' shapes do not fit together"


MISFITS: dict[str, Callable[[Site], str | None]] = {
    "Clip": _of_clip,
    "Cast": _of_cast,
    **dict.fromkeys(("MatMul", "Gemm", "FusedMatMul", "FusedGemm"), _of_product),
    "Einsum": _of_einsum,
    "SkipLayerNormalization": _of_skip,
    "FusedConv": _of_summand,
    **dict.fromkeys(("PRelu", "BiasGelu", "LayerNormalization"), _of_bias),
    "Concat": _of_concat,
}

#: Operators that keep the order of entries, and may show them under any shape.
RESHAPING = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Gather", "Identity", "Dropout"))


def _lie(site: Site) -> str | None:
    """A runtime shows another extent where the rows lie, or no such axis: not what the operator is defined to do."""
    name = site.node.output[0]
    shape = site.shapes[name]
    if not site.live or site.batch not in shape or site.node.op_type in RESHAPING:
        return None
    if sum(size % site.batch == 0 for size in shape) != 1:  # rows may lie on another axis
        return None
    axis = shape.index(site.batch)
    longer = (*shape[:axis], site.draw.choice([1, 2]) * site.batch + 1, *shape[axis + 1 :])
    site.shapes[name] = site.draw.choice([longer, shape[:axis]])
    site.entries.pop(name, None)
    site.lie = True
    return f"{site.title}: a runtime shows {list(site.shapes[name])}, and not {list(shape)}"


#: Faults of nodes; those of values come in many kinds.
NODES: tuple[Callable[[Site], str | None], ...] = (
    *[_value] * 5, *[_type] * 2, _unknown_attribute, _attribute_written, *[_counts] * 2, *[_parameter] * 2,
    *[_operand_list] * 3, *[_misfit] * 2, _lie,
)  # fmt: skip
