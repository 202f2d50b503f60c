"""A graph that is proved, with the place at which a fault is planted into it (`outside`)."""

import random
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import onnx
import schemas
from onnx import AttributeProto, helper, numpy_helper

#: Who has to refuse: the argument about the graph that runs; the two looks at the file before that.
GRAPH, MALFORMED, HOPELESS = "graph", "malformed", "hopeless"
KINDS = AttributeProto
#: Operators whose results hang on shapes alone.
SHAPES = frozenset(("Shape", "Size"))
#: Operators that most graphs have.
FILLERS = frozenset(("Add", "Sub", "Mul", "Div", "Cast", "Constant", "Gather", "Reshape", "Shape", "Transpose"))
#: Types of constants that may be lists: int32, int64, bool.
LISTED = frozenset((6, 7, 9))
#: Lists with more entries are not looked into.
LONG = 1 << 14


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
