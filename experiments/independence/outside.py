"""Faults that put a graph outside the dialect, each planted into a graph that is proved.

What is lawful is stated once more, from the operators' schemas (`schemas`) and by hand (`unlawful`), without a look at
the inspector's own table. An inspector that proves such a graph is wrong by definition, whether or not rows mix on this
runtime. If this runtime refuses the graph, shapes are those of the graph without the fault, as a runtime would show
them that does not mind.

A fault stands where the output is computed from it (`live`), or in a copy of a node that works on constants and that
nobody reads: a node outside the dialect ends the proof wherever it stands.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import onnx
import schemas
import unlawful
from onnx import AttributeProto, helper, numpy_helper

#: Who has to refuse: the argument about the graph that runs; the two looks at the file before that.
GRAPH, MALFORMED, HOPELESS = "graph", "malformed", "hopeless"
INTERNAL = "com.microsoft.nchwc"
#: A field that no version of the format has: number 99, a varint.
UNKNOWN = b"\x98\x06\x01"
KINDS = AttributeProto
#: Operators whose results hang on shapes alone.
SHAPES = frozenset(("Shape", "Size"))
#: Types of constants that may be lists: int32, int64, bool.
LISTED = frozenset((6, 7, 9))
#: Operators that most graphs have.
FILLERS = frozenset(("Add", "Sub", "Mul", "Div", "Cast", "Constant", "Gather", "Reshape", "Shape", "Transpose"))
#: How often another fault is tried if one does not fit.
TRIES = 4
#: Lists with more entries are not looked into.
LONG = 1 << 14
#: Of each type of attribute, a value of another type that looks much like it.
OTHER_TYPES: dict[str, tuple[object, int]] = {
    "INT": (1.0, KINDS.FLOAT),
    "FLOAT": (1, KINDS.INT),
    "STRING": (1, KINDS.INT),
    "FLOATS": ([1, 1], KINDS.INTS),
    "TENSOR": (1, KINDS.INT),
}


@dataclass(frozen=True)
class Planted:
    """A graph outside the dialect."""

    what: str
    model: bytes
    shapes: dict[str, tuple[int, ...]]
    entries: dict[str, np.ndarray]
    guards: tuple[str, ...] = (GRAPH,)
    rows: tuple[int, ...] | None = None
    """The shape of a row that is asked for, if it is not the one that the graph declares."""
    lie: bool = False
    """The graph is as it was, and the shapes are not what this runtime shows."""


@dataclass
class Site:
    """A copy of a graph that is proved, with what the runtime shows of it; one fault is planted into it."""

    draw: random.Random
    proto: onnx.ModelProto
    shapes: dict[str, tuple[int, ...]]
    entries: dict[str, np.ndarray]
    batch: int
    internal: bool
    node: onnx.NodeProto = field(default_factory=onnx.NodeProto)
    live: bool = False
    guards: list[str] = field(default_factory=lambda: [GRAPH])
    rows: tuple[int, ...] | None = None
    lie: bool = False

    # The graph. ---------------------------------------------------------------------------------------------------

    @property
    def graph(self) -> onnx.GraphProto:
        return self.proto.graph

    @cached_property
    def opset(self) -> int:
        return int(next(one.version for one in self.proto.opset_import if one.domain in ("", "ai.onnx")))

    @cached_property
    def schema(self) -> schemas.Operator | None:
        """Of the node."""
        return schemas.operator(self.node.domain, self.node.op_type, self.opset)

    @cached_property
    def title(self) -> str:
        return f"{self.node.domain}.{self.node.op_type}" if self.node.domain else self.node.op_type

    @cached_property
    def rank(self) -> int:
        """Of the first operand."""
        return len(self.shapes[self.node.input[0]]) if self.node.input and self.node.input[0] else 0

    def by_schema(self) -> None:
        """The file itself is refused, if ONNX defines the operator."""
        if not self.node.domain and onnx.defs.has(self.node.op_type, self.opset, ""):
            self.guards.append(MALFORMED)

    def made_of_rows(self) -> list[str]:
        """The values that hang on the input's entries."""
        found = [self.graph.input[0].name]
        for node in self.graph.node:
            if node.op_type not in SHAPES and set(found) & set(node.input):
                found += [name for name in node.output if name]
        return found

    def needed(self) -> set[str]:
        """The values that the first output's entries hang on."""
        found = {self.graph.output[0].name}
        for node in reversed(self.graph.node):
            if node.op_type not in SHAPES and found & set(node.output):
                found |= {name for name in node.input if name}
        return found

    # Changes. -----------------------------------------------------------------------------------------------------

    def choose(self) -> None:
        """The node that becomes faulty: one that the output is computed from, or a copy that nobody reads."""
        nodes: dict[str, onnx.NodeProto] = {}
        for one in self.draw.sample(list(self.graph.node), len(self.graph.node)):
            nodes.setdefault(one.op_type, one)
        weights = [0.2 if name in FILLERS else 1.0 for name in nodes]
        (self.node,) = self.draw.choices(list(nodes.values()), weights)
        rows, needed = set(self.made_of_rows()), self.needed()
        self.live = self.node.op_type not in SHAPES and bool(
            rows & set(self.node.input) and needed & set(self.node.output)
        )
        if self.draw.random() < 0.5 or not self.live:
            self.node, self.live = self._aside(self.node), False

    def _aside(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """A copy of a node at the end of the graph; its operands are constants."""
        copy = self.graph.node.add()
        copy.CopyFrom(node)
        for place, name in enumerate(node.input):
            copy.input[place] = self._fixed(name) if name else ""
        for place, name in enumerate(node.output):
            copy.output[place] = f"{name} aside" if name else ""
            self.shapes[copy.output[place]] = self.shapes.get(name, ())
        return copy

    def _fixed(self, name: str) -> str:
        """A constant like a value."""
        if name in {tensor.name for tensor in self.graph.initializer}:
            return name
        like = self.entries.get(name)
        return self.constant(np.full(self.shapes[name], 0.5, np.float32) if like is None else like)

    def constant(self, value: np.ndarray, name: str = "") -> str:
        name = name or f"planted {len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        self.shapes[name] = value.shape
        return name

    def add(self, operator: str, operands: list[str], shape: tuple[int, ...], domain: str = "", **given: object) -> str:
        """One more node at the end."""
        name = f"planted {len(self.graph.node)} by {operator}"
        self.graph.node.append(helper.make_node(operator, operands, [name], domain=domain, **given))
        self.shapes[name] = shape
        return name

    def before(self, operator: str, operands: list[str], shape: tuple[int, ...], **given: object) -> str:
        """One more node, just before the faulty one."""
        name = self.add(operator, operands, shape, **given)
        nodes = list(self.graph.node)
        place = next(number for number, one in enumerate(nodes) if one is self.node or one == self.node)
        nodes.insert(place, nodes.pop())
        copies = [onnx.NodeProto.FromString(one.SerializeToString()) for one in nodes]
        del self.graph.node[:]
        self.graph.node.extend(copies)
        self.node = self.graph.node[place + 1]
        return name

    def set(self, name: str, value: object, kind: int | None = None) -> None:
        """An attribute of the node."""
        kept = [one for one in self.node.attribute if one.name != name]
        del self.node.attribute[:]
        kind = KINDS.INTS if value == [] else kind
        self.node.attribute.extend([*kept, helper.make_attribute(name, value, attr_type=kind)])

    def output(self, name: str) -> None:
        """Another first output."""
        self.graph.output[0].CopyFrom(onnx.ValueInfoProto(name=name))

    def listed(self, place: int) -> list[int] | None:
        """The entries of an operand that is a list of integers; None if there is none."""
        name = self.node.input[place] if place < len(self.node.input) else ""
        tensors = {tensor.name: tensor for tensor in self.graph.initializer}
        value = numpy_helper.to_array(tensors[name]) if name in tensors else self.entries.get(name)
        return value.ravel().tolist() if name and value is not None and value.dtype.kind == "i" else None

    def finished(self, what: str) -> Planted:
        known = {tensor.name: numpy_helper.to_array(tensor) for tensor in self.graph.initializer if _is_list(tensor)}
        model, guards = self.proto.SerializeToString(), tuple(self.guards)
        return Planted(what, model, self.shapes, {**self.entries, **known}, guards, self.rows, self.lie)


def _is_list(tensor: onnx.TensorProto) -> bool:
    here = tensor.data_location != onnx.TensorProto.EXTERNAL
    short = int(np.prod(tensor.dims, dtype=object)) <= LONG
    return here and short and tensor.data_type in LISTED


def planted(
    draw: random.Random,
    model: bytes,
    shapes: dict[str, tuple[int, ...]],
    entries: dict[str, np.ndarray],
    batch: int,
    internal: bool,
) -> Planted | None:
    """A fault in a graph of floats that is proved, of which the runtime showed shapes and entries; None if none fits.

    `internal` if the optimizer wrote the graph.
    """
    proto = onnx.load_model_from_string(model)
    if proto.graph.input[0].type.tensor_type.elem_type != 1:
        return None
    for _ in range(TRIES):
        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        site = Site(draw, copy, dict(shapes), dict(entries), batch, internal)
        what = _spoiled(site)
        if internal:  # there is no such file
            site.guards = [one for one in site.guards if one == GRAPH]
        if what is not None and site.guards:
            return site.finished(what)
    return None


def _spoiled(site: Site) -> str | None:
    """One fault, in words; None if it does not fit."""
    if site.draw.random() < 0.15:
        return site.draw.choice(FILES)(site)
    site.choose()
    return site.draw.choice(NODES)(site)


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
        old = next((list(given.ints) for given in site.node.attribute if given.name == one.name), [1, 1])
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
    if not site.live or shape.count(site.batch) != 1 or site.node.op_type in RESHAPING:
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


# Of the file, and of nodes that no graph should have. -------------------------------------------------------------


def _function(site: Site) -> str:
    inside = [helper.make_node("Relu", ["a"], ["b"])]
    site.proto.functions.append(
        helper.make_function("local", "F", ["a"], ["b"], inside, [helper.make_opsetid("", site.opset)])
    )
    return "the file defines a function"


def _training(site: Site) -> str:
    site.proto.training_info.add().algorithm.CopyFrom(site.graph)
    return "the file holds a graph for training"


def _sparse(site: Site) -> str:
    places = numpy_helper.from_array(np.arange(2), "planted places")
    entries = numpy_helper.from_array(np.ones(2, np.float32), "planted sparse")
    site.graph.sparse_initializer.append(helper.make_sparse_tensor(entries, places, [3]))
    return "the file holds a sparse tensor"


def _opset(site: Site) -> str:
    """Another opset, two, or the same twice."""
    one = next(one for one in site.proto.opset_import if one.domain in ("", "ai.onnx"))
    way = site.draw.randrange(3)
    if way == 0:
        one.version = site.draw.choice([1, 5, 6, 26, 27])
        return f"opset {one.version}"
    site.proto.opset_import.append(helper.make_opsetid("ai.onnx", site.opset if way == 1 else site.opset - 1))
    if way == 2:
        site.guards.append(MALFORMED)
    return "the default operators are imported twice"


def _unknown_field(site: Site) -> str:
    site.draw.choice([site.proto, site.graph, *site.graph.node]).MergeFromString(UNKNOWN)
    return "the file holds an unknown field"


def _overload(site: Site) -> str:
    site.draw.choice(site.graph.node).overload = "other"
    return "a node is overloaded"


def _second_input(site: Site) -> str:
    site.graph.input.append(helper.make_tensor_value_info("second", 1, ["batch", 1]))
    return "the graph has two inputs"


def _odd_constant(site: Site) -> str:
    """A constant outside the file, of strings, without a name, or with a name that is taken."""
    way = site.draw.randrange(4)
    if way == 3:
        site.constant(np.ones(1, np.float32), site.draw.choice([site.graph.input[0].name, site.constant(np.ones(1))]))
        return "two values have one name"
    name = site.constant(np.ones(1, np.float32))
    tensor = site.graph.initializer[-1]
    if way == 0:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="elsewhere")
    elif way == 1:
        tensor.CopyFrom(helper.make_tensor(name, onnx.TensorProto.STRING, [1], [b"text"]))
    else:
        tensor.name = ""
    return ("a constant lies outside the file", "a constant is made of text", "a constant has no name")[way]


def _names(site: Site) -> str:
    """A value is computed twice, or from nothing."""
    x = site.graph.input[0].name
    if site.draw.random() < 0.5:
        site.add("Identity", ["nowhere"], site.shapes[x])
        return "an operand is never computed"
    name = site.draw.choice([x, *(name for node in site.graph.node for name in node.output if name)])
    again = site.add("Identity", [site._fixed(name)], site.shapes[name])
    site.graph.node[-1].output[0] = name
    return f"{again} is {name}, which was computed before"


def _outputs(site: Site) -> str:
    if site.draw.random() < 0.5:
        del site.graph.output[:]
        return "the graph has no output"
    site.output("nothing")
    return "the output is never computed"


def _strangers(site: Site) -> str | None:
    """A node without a rule: unknown, of another domain, drawing at random, or one for the optimizer alone."""
    x = site.graph.input[0].name
    fixed, shape = site.constant(np.ones((2, 16, 2, 2), np.float32)), site.shapes[x]
    way = site.draw.randrange(4)
    if way == 0:
        site.add(site.draw.choice(["Sin", "Bernoulli", "NonZero", "Compress", "Resize"]), [x], shape)
        return f"there is no rule for {site.graph.node[-1].op_type}"
    if way == 1:
        site.add("Relu", [x], shape, domain="ai.onnx.ml")
        return "an operator of another domain"
    if way == 2:
        name = site.draw.choice(["RandomNormalLike", "RandomUniformLike", "Multinomial"])
        site.add(name, [x], shape)
        site.guards.append(HOPELESS)
        return f"{name} draws at random"
    if site.internal:
        return None
    site.add("GlobalMaxPool", [fixed], (2, 16, 1, 1), domain=INTERNAL)
    site.guards.append(HOPELESS)
    return "an operator that the optimizer alone may write"


def _too_new(site: Site) -> str | None:
    """An operator that the opset does not have yet."""
    since = {"Mish": 18, "GreaterOrEqual": 12, "Celu": 12, "HardSwish": 14, "Gelu": 20, "Swish": 24, "Mod": 10}
    names = [name for name, first in since.items() if site.opset < first]
    if not names:
        return None
    fixed = site.constant(np.ones(2, np.float32))
    name = site.draw.choice(names)
    site.add(name, [fixed] * (2 if name in ("GreaterOrEqual", "Mod") else 1), (2,))
    return f"opset {site.opset} does not have {name}"


def _input(site: Site) -> str:
    """An input without a shape, of strings, or of another shape than the rows that are asked for."""
    kind = site.graph.input[0].type.tensor_type
    rows = site.shapes[site.graph.input[0].name][1:]
    way = site.draw.randrange(4)
    if way == 0:
        kind.ClearField("shape")
        return "the input's shape is not declared"
    if way == 1:
        kind.elem_type = onnx.TensorProto.STRING
        return "the input is made of text"
    if way == 2:
        site.rows = (*rows, 1)
        return "rows have an axis more than declared"
    for axis, size in enumerate(rows):
        kind.shape.dim[axis + 1].dim_value = size
    site.rows = (rows[0] + 1, *rows[1:])
    return "rows are longer than declared"


def _no_entries(site: Site) -> str | None:
    """The output is cut until nothing is left; or something without entries is put behind it."""
    name = site.graph.output[0].name
    shape = site.shapes[name]
    if len(shape) < 2 or site.opset < 13:
        return None
    if site.draw.random() < 0.5:
        lists = [site.constant(np.array([number])) for number in (0, 0, 1)]
        site.output(site.add("Slice", [name, *lists], (shape[0], 0, *shape[2:])))
    else:
        sizes = (shape[0], 0, *shape[2:])
        value = numpy_helper.from_array(np.zeros(1, site.entries[name].dtype))
        empty = site.add("ConstantOfShape", [site.constant(np.array(sizes))], sizes, value=value)
        site.entries[empty] = np.zeros(sizes, site.entries[name].dtype)
        site.output(site.add("Concat", [name, empty], shape, axis=1))
    return "a tensor has no entries"


def _double(site: Site) -> str:
    """A constant in double precision meets the output."""
    name = site.graph.output[0].name
    site.output(site.add("Mul", [name, site.constant(np.ones((), np.float64))], site.shapes[name]))
    return "a constant is in double precision"


def _crossed(site: Site) -> str | None:
    """Rows are put beside rows that lie on another axis."""
    name = site.graph.output[0].name
    if len(site.shapes[name]) != 2:
        return None
    square = (site.batch, site.batch)
    wide = site.add("Gather", [name, site.constant(np.zeros(site.batch, np.int64))], square, axis=1)
    turned = site.add("Transpose", [wide], square, perm=[1, 0])
    site.output(site.add("Concat", [wide, turned], (site.batch, 2 * site.batch), axis=1))
    return "rows are put beside columns"


def _positions(site: Site) -> str | None:
    """Each position of the batch gets a number of its own, through an operator that counts as no constant."""
    name = site.graph.output[0].name
    shape = (site.batch, *[1] * (len(site.shapes[name]) - 1))
    if site.entries[name].dtype != np.float32:
        return None
    numbers = np.arange(site.batch, dtype=np.float32).reshape(shape)
    dropped = site.add("Dropout", [site.constant(numbers)], shape)
    picked = site.add("Gather", [dropped, site.constant(np.arange(site.batch))], shape, axis=0)
    site.output(site.add("Add", [name, picked], site.shapes[name]))
    return "rows are told their position"


def _folded(site: Site) -> str | None:
    """Rows that lie folded, one entry of each after the other, pick as if each lay in one piece."""
    name = site.graph.output[0].name
    if len(site.shapes[name]) != 2 or site.shapes[name][1] < 2:
        return None
    width = site.shapes[name][1]
    turned = site.add("Transpose", [name], (width, site.batch), perm=[1, 0])
    flat = site.add("Reshape", [turned, site.constant(np.array([-1]))], (width * site.batch,))
    site.output(site.add("Gather", [flat, site.constant(width * np.arange(site.batch))], (site.batch,), axis=0))
    return "rows pick entries of other rows"


def _parts(site: Site) -> str | None:
    """A Split with more parts than it says, or that does not say."""
    shape = (4,)
    fixed = site.constant(np.ones(shape, np.float32))
    site.add("Split", [fixed], (2,))
    node = site.graph.node[-1]
    way = site.draw.randrange(3)
    if way == 0 and site.opset >= 18:
        node.output.append("planted part")
    elif way == 1 and site.opset >= 18:
        node.attribute.append(helper.make_attribute("num_outputs", 2))
    elif site.opset < 13:
        node.attribute.append(helper.make_attribute("split", [2, 2]))
    else:
        node.input.append(site.constant(np.array([2, 2])))
    site.guards = [MALFORMED]
    return "Split: its parts are not as many as it says"


def _copies(site: Site) -> str:
    """A copy between devices of more than one value, or of none, or to more than one."""
    name, fixed = site.draw.choice(["MemcpyFromHost", "MemcpyToHost"]), site.constant(np.ones(2, np.float32))
    site.add(name, site.draw.choice([[fixed], [fixed, fixed], []]), (2,))
    node = site.graph.node[-1]
    if len(node.input) == 1:
        node.output.append("planted copy")
        site.shapes["planted copy"] = (2,)
    return f"{name}: {len(node.input)} operands, {len(node.output)} outputs"


FILES: tuple[Callable[[Site], str | None], ...] = (
    _function, _training, _sparse, *[_opset] * 2, _unknown_field, _overload, _second_input, *[_odd_constant] * 2,
    *[_names] * 2, _outputs, *[_strangers] * 2, _too_new, *[_input] * 2, *[_no_entries] * 2, _double, *[_parts] * 2,
    _crossed, _positions, _folded, *[_copies] * 2,
)  # fmt: skip


def several(draw: random.Random, count: int, *given: object) -> Iterator[Planted]:
    """Some faults, each in a copy of its own."""
    for _ in range(count):
        found = planted(draw, *given)  # type: ignore[arg-type]
        if found is not None:
            yield found
