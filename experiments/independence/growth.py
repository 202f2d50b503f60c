"""A graph that grows node by node, with the real values at hand."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import onnx
import schemas
import stacks
from draws import arguments, spoiled
from faults import extents, moved, with_data, with_rows
from known import Call, Known, Refused
from onnx import helper, numpy_helper
from oracle import integers, session

#: Larger values, or of more axes, are dropped.
MOST_ENTRIES, MOST_AXES = 2000, 7
#: Integers that computed integers may not go beyond, or a shift of them would wrap round.
HUGE = 2**40
INTEGERS = ("tensor(int64)",)

#: How often an operator is drawn, if not once: those that seldom run or seldom lead to a proof.
_SHARES: dict[float, str] = {
    0.7: "Add Constant Div Flatten Greater Identity Max Mul Shape Sub Transpose",
    1.2: "Abs AveragePool Log Min Pow ReduceMin Selu Sign Softsign Sum com.microsoft.BiasGelu",
    1.4: "Ceil Conv LogSoftmax LpNormalization ReduceLogSumExp ReduceMean ReduceProd Round",
    1.6: ("BatchNormalization Celu InstanceNormalization Neg ReduceSumSquare Shrink Size Softmax ThresholdedRelu Tile"),
    1.8: "Concat GlobalLpPool HardSwish Hardmax MaxPool Pad ReduceL2",
    2.1: "Expand Gather Mod PRelu ReduceL1 ReduceLogSum ReduceMax Slice",
    2.5: "Gelu IsNaN MatMul Range com.microsoft.FusedMatMul",
    3.0: "ConstantOfShape Dropout GreaterOrEqual Mish Not SimplifiedLayerNormalization com.microsoft.FusedConv",
    3.6: "LayerNormalization",
    4.3: "Clip IsInf MeanVarianceNormalization Or Trilu",
    5.0: "ArgMax Einsum Gemm GroupNormalization LessOrEqual Split TopK Xor",
    6.0: "And ArgMin",
    7.0: "LRN",
    8.0: "Swish com.microsoft.SkipLayerNormalization",
    10.0: "RMSNormalization com.microsoft.FusedGemm",
}
WEIGHTS: dict[str, float] = {name: share for share, names in _SHARES.items() for name in names.split()}
OPSETS = (*range(7, 26), 13, 17, 17, 18, 18, 20, 21)
#: Those that no rule was checked against.
STRANGE = (1, 5, 6, 26)
#: How often a graph is a convolutional stack for the optimizer.
STACKS = 0.055
#: What can be wrong with a single node: it works along the rows; it is spoiled; its operand has rows elsewhere, or
#: folded; a parameter of it is made of rows; a constant of it has an entry for each row; its shape hangs on data.
FAULTS = ("daring", "spoiled", "moved")
OF_OPERANDS, OF_LISTS = ("moved", "parameter", "rowwise", "data"), ("data", "data", "data")


@dataclass
class Temper:
    """How a graph is drawn; drawn once for each graph."""

    wild: float
    """How often a node is spoiled: attributes and operands outside the schema."""
    hidden: float
    """How often integers are computed from shapes."""
    daring: float
    """How often the axis of the rows is taken where another one could be."""
    steps: int
    fault: str = ""
    """What is wrong with one node of the theme, in a graph that is tame else; empty if nothing is planned."""


@dataclass
class Growth:
    """A graph that grows."""

    draw: random.Random
    operators: tuple[tuple[str, str], ...]
    focus: tuple[tuple[str, str], ...] = ()
    """Operators that most graphs should have one of."""
    before: Callable[[bytes], None] = lambda model: None
    """Called with what the runtime gets next: if the process dies, this has killed it."""
    pool: list[Known] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)
    fixed: list[Known] = field(default_factory=list)
    """The constants."""
    odd: list[Known] = field(default_factory=list)
    """Outputs of nodes that are outside the schema."""
    count: int = 0
    next: Known | None = None
    """A value that the next operator should take."""
    planted: Known | None = None
    """What came of the node that something is wrong with."""

    def __post_init__(self) -> None:
        draw = self.draw
        self.theme = self._theme()
        drawn = STRANGE if draw.random() < 0.03 else OPSETS
        opsets = [opset for opset in drawn if schemas.operator(*self.theme, opset)]
        self.opset = draw.choice(opsets or OPSETS)
        self.batch = draw.choice([2, 3, 3, 4, 5])
        self.symbolic = draw.random() < 0.6
        self.stacked = not self.focus and draw.random() < STACKS
        if self.stacked and draw.random() < 0.1:
            self.batch = 16  # rows that could be taken for channels
        self.temper = Temper(
            draw.choice([0, 0, 0.15, 0.4]),
            draw.choice([0, 0, 0.4, 0.8]),
            draw.choice([0.02, 0.05, 0.3]),
            draw.choice([1, 2, 3, 4, 5, 6, 8]),
        )
        faults = self._faults()
        if faults and draw.random() < 0.45:
            steps = draw.choice([1, 1, 2, 3])
            self.temper = Temper(0, draw.choice([0, 0, 0.8]), 0.02, steps, draw.choice(faults))
        self._input()

    def _faults(self) -> tuple[str, ...]:
        """What can be wrong with the theme: nothing if there is but an operand."""
        schema = schemas.operator(*self.theme, self.opset)
        if schema is None or not (schema.attributes or schema.operands[1:]):
            return ()
        lists = any("tensor(int64)" in one.types and len(one.types) <= 2 for one in schema.operands)
        several = len(schema.operands) > 1 or any(one.option == "Variadic" for one in schema.operands)
        return (*FAULTS, *(OF_OPERANDS if several else ()), *(OF_LISTS if lists else ()))

    def _theme(self) -> tuple[str, str]:
        """An operator that this graph should have: each gets its share, however late its opset."""
        if self.focus and self.draw.random() < 0.85:
            return self.draw.choice(self.focus)
        return self.draw.choices(self.operators, _weights(self.operators))[0]

    def _input(self) -> None:
        draw = self.draw
        rank = draw.choice([1, 1, 2, 2, 3, 3, 3, 4])
        self.sizes = [draw.choice([1, 2, 2, 3, 4, self.batch]) for _ in range(rank)]
        self.elem_type = draw.choice([1] * 30 + [11, 7])
        if self.stacked:
            self.sizes, self.elem_type = stacks.sizes(self), 1
        base = integers(self.batch, self.sizes, self.elem_type, draw.randrange(1 << 30))
        self.row = draw.randrange(self.batch)
        moved = base.copy()
        moved[self.row] += integers(1, self.sizes, self.elem_type, draw.randrange(1 << 30))[0] + 5
        self.pool.append(Known("x", base, moved, rows=0))
        if draw.random() < 0.2 and not self.stacked:
            sizes = [1 if draw.random() < 0.7 else size for size in self.sizes]
            self.pool.insert(0, self.constant(integers(1, sizes, self.elem_type, draw.randrange(1 << 30))))

    # Values. ------------------------------------------------------------------------------------------------------

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def constant(self, value: np.ndarray) -> Known:
        """A new constant; now and then one that is there already: of floats, any of this shape."""
        value = np.asarray(value, order="C")
        if self.draw.random() < 0.2:
            there = [known for known in self.fixed if _exchangeable(known.value, value)]
            if there:
                return self.draw.choice(there)
        name = self.name()
        self.constants[name] = numpy_helper.from_array(value, name)
        self.fixed.append(Known(name, value, value, True))
        return self.fixed[-1]

    def pick(self, types: frozenset[str] | Sequence[str], fits: Callable[[Known], bool] = lambda known: True) -> Known:
        """A value of one of these types, more often a late one and one with rows; Refused if there is none."""
        if self.next is not None and self.next.type in types and fits(self.next):
            return self.next
        found = [known for known in self.pool if known.type in types and fits(known)]
        if not found:
            raise Refused("no operand of this type")
        late = found[-3:] if self.draw.random() < 0.75 else found
        apart = [known for known in late if known.rows is not None and known.rows >= 0]
        return self.draw.choice(apart if apart and self.draw.random() < 0.7 else late)

    def hide(self, wanted: np.ndarray) -> Known:
        """A constant of integers; or integers from the shape of some value, shifted to be what is wanted."""
        if self.draw.random() >= self.temper.hidden or max(map(abs, wanted.ravel().tolist()), default=0) > HUGE:
            return self.constant(wanted)
        source = self._source()
        entries = source.value
        places = np.array([self._place(source) for _ in range(wanted.size)], np.int64).reshape(wanted.shape)
        picked = self.add("", "Gather", [source, self.constant(places)], {"axis": 0})[0]
        shift = wanted - entries[places]
        way, shift = self.draw.choice([("Add", shift), ("Add", shift), ("Sub", -shift)])
        return self._unchanged(self.add("", way, [picked, self.constant(shift)])[0])

    def _unchanged(self, known: Known, often: float = 0.4) -> Known:
        """The same integers, through an operator that happens not to change them: who infers shapes may lose sight."""
        draw = self.draw
        if draw.random() >= often:
            return known
        one = np.ones(draw.choice([known.shape, known.shape, ()]), np.int64)
        ways: list[tuple[str, list[Known]]] = [
            ("Div", [known, self.constant(one)]),
            ("Mul", [known, self.constant(one)]),
            ("Identity", [known]),
            ("Max", [known, known]),
            ("Where", [self.constant(one > 0), known, draw.choice([known, self.constant(one)])]),
        ]
        operator, operands = draw.choice(ways)
        found = self.add("", operator, operands)[0]
        if found.shape != known.shape:
            raise Refused("it has another shape")
        return found

    def number(self) -> None:
        """An extent of the input as a scalar, for operators to work on."""
        x = next(known for known in self.pool if known.name == "x")
        place = self.constant(np.array(self.draw.randrange(1, x.rank)))
        self.add("", "Gather", [self.add("", "Shape", [x])[0], place], {"axis": 0})

    def veil(self) -> None:
        """The input under a computed shape, which is its own."""
        nodes, pool = len(self.nodes), len(self.pool)
        try:
            self.veiled(next(known for known in self.pool if known.name == "x"))
        except Refused:
            del self.nodes[nodes:], self.pool[pool:]

    def veiled(self, known: Known) -> Known:
        """A value under a computed shape, which is its own: the runtime cannot know its rank before it runs."""
        target = [0 if self.draw.random() < 0.5 else size for size in known.shape]
        target[:1] = [self.draw.choice([0, -1])] if target else []
        sizes = self.hide(np.array(target, np.int64))
        if self.draw.random() < 0.7:  # not even how many they are
            whole = [self.constant(np.array([entry])) for entry in (-1, 1)]
            sizes = self.add("", "Reshape", [sizes, self.add("", "Div", whole)[0]])[0]
        return self.add("", "Reshape", [known, self._unchanged(sizes)])[0]

    def _source(self) -> Known:
        """A list of integers that a shape gives: extents, or a rank; or integers that were computed before."""
        draw = self.draw
        if draw.random() < 0.3:
            lists = [k for k in self.pool if k.type in INTEGERS and k.rank == 1 and k.value.size and k.rows is None]
            usable = [known for known in lists if max(map(abs, known.value.tolist())) < HUGE]
            if usable:
                return draw.choice(usable)
        odd = self.odd and draw.random() < 0.8
        known = draw.choice(self.odd if odd else self.pool[-5:])
        shape = self.add("", "Shape", [known])[0]
        return shape if known.rank and draw.random() < 0.5 else self.add("", "Shape", [shape])[0]

    def _place(self, source: Known) -> int:
        """An entry that is no batch size, if there is one."""
        places = [place for place, size in enumerate(source.value.tolist()) if size != self.batch]
        return self.draw.choice(places) if places else self.draw.randrange(source.value.size)

    # Nodes. -------------------------------------------------------------------------------------------------------

    def add(
        self,
        domain: str,
        operator: str,
        operands: Sequence[Known | None],
        attributes: dict[str, object] | None = None,
        outputs: int = 1,
    ) -> list[Known]:
        """One more node and its outputs; Refused if it does not run."""
        names = [known.name if known else "" for known in operands]
        results = [self.name() for _ in range(outputs)]
        if outputs > 1 and self.draw.random() < 0.1:
            results[self.draw.randrange(outputs)] = ""
        node = helper.make_node(operator, names, results, domain=domain)
        try:
            node.attribute.extend(_attribute(key, value) for key, value in (attributes or {}).items())
        except (TypeError, ValueError) as error:
            raise Refused(str(error)) from None
        values = self._run(node, [known for known in operands if known])
        self.nodes.append(node)
        depth = 1 + max((known.depth for known in operands if known), default=0)
        named = [name for name in node.output if name]
        found = [Known(name, *pair, depth=depth) for name, pair in zip(named, values, strict=True)]
        for known in found:
            known.rows = self._rows(known)
            known.folded = self._folded(known) if known.rows == -1 else None
        self.pool += [known for known in found if known.value.size or known.rank == 1]
        return found

    def _run(self, node: onnx.NodeProto, operands: list[Known]) -> list[tuple[np.ndarray, np.ndarray]]:
        """The outputs of a node for both inputs, by the runtime."""
        given = {known.name: known for known in operands if not known.constant}
        fixed = {known.name: self.constants[known.name] for known in operands if known.constant}
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(known.value.dtype), None)
            for name, known in given.items()
        ]
        graph = helper.make_graph(
            [node], "one", infos, [onnx.ValueInfoProto(name=n) for n in node.output if n], fixed.values()
        )
        model = self._model(graph).SerializeToString()
        self.before(model)
        try:
            made = session(model)
            one = made.run(None, {name: known.value for name, known in given.items()})
            other = made.run(None, {name: known.moved for name, known in given.items()})
        except Exception as error:  # onnxruntime's exceptions share no public base class
            raise Refused(str(error)) from None
        for value in [*one, *other]:
            if not isinstance(value, np.ndarray) or value.size > MOST_ENTRIES or value.ndim > MOST_AXES:
                raise Refused("too large, or no tensor")
            if value.dtype.kind not in "fiub":
                raise Refused("not made of numbers")
        return list(zip(one, other, strict=True))

    def _rows(self, known: Known) -> int | None:
        """The axis on which only the changed row changed; None if nothing did, −1 if there is no such axis."""
        if known.value.shape != known.moved.shape:
            return -1
        differ = _differ(known)
        if not differ.any():
            return None
        for axis, size in enumerate(known.shape):
            if size == self.batch and not np.delete(differ, self.row, axis).any():
                return axis
        return -1

    def _folded(self, known: Known) -> int | None:
        """The axis on which, cut into blocks of rows, only the changed row changed."""
        if known.value.shape != known.moved.shape:
            return None
        differ = _differ(known)
        for axis, size in enumerate(known.shape):
            lines = np.moveaxis(differ, axis, 0)
            for outer in (one for one in range(1, size // self.batch + 1) if size % (one * self.batch) == 0):
                if not np.delete(lines.reshape(outer, self.batch, -1), self.row, 1).any():
                    return axis
        return None

    def _model(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    # Growing. -----------------------------------------------------------------------------------------------------

    def step(self) -> Known | None:
        """One more operator, if it runs; its first output."""
        nodes, pool = len(self.nodes), len(self.pool)
        try:
            return self._step()
        except Refused:
            del self.nodes[nodes:], self.pool[pool:]
            return None

    def _step(self) -> Known:
        chosen = self._operator()
        if chosen is None:
            raise Refused("no such operator in this opset")
        fault = self.temper.fault if (chosen.domain, chosen.name) == self.theme else ""
        try:
            call = self._faulty(chosen, fault) if fault else arguments(self, chosen)
        except (ArithmeticError, LookupError, ValueError, TypeError) as error:  # drawn for another shape
            raise Refused(str(error)) from None
        wild = fault == "spoiled" or self.draw.random() < self.temper.wild
        call = spoiled(self, chosen, call) if wild else call
        found = self.add(chosen.domain, chosen.name, call.operands, call.attributes, call.outputs)
        if wild or (self.draw.random() < 0.4 and any(known and known.type in INTEGERS for known in call.operands[1:])):
            self.odd += [known for known in found if known.value.size]
        result = extents(self, found[0]) if fault == "data" else found[0]
        if fault:
            self.temper.fault, self.planted = "", result
        return result

    def _faulty(self, chosen: schemas.Operator, fault: str) -> Call:
        """A call with one thing planned wrong."""
        kept = self.temper
        if fault in ("daring", "rowwise"):
            self.temper = Temper(0, kept.hidden, 1.0 if fault == "daring" else 3.0, kept.steps)
        try:
            if fault == "moved":
                self.next = moved(self)
            call = arguments(self, chosen)
            return {"parameter": with_rows, "data": with_data}.get(fault, lambda _, call: call)(self, call)
        finally:
            self.temper, self.next = kept, None

    def _operator(self) -> schemas.Operator | None:
        """The theme, or any operator of the table; now and then one that has no rule."""
        chance = self.draw.random()
        if chance < (0.7 if self.temper.fault else 0.35):
            domain, name = self.theme
        elif chance > 0.997:
            domain, name = "", self.draw.choice(schemas.strangers())
        else:
            domain, name = self.draw.choice(self.operators)
        return schemas.operator(domain, name, self.opset)

    def trap(self) -> Known | None:
        """An operator along an axis that is computed from a shape, and really is that of the rows."""
        names = _along(self.operators, self.opset)
        kept = self.temper
        self.temper = Temper(0, 1.0, 0.9, kept.steps)
        nodes, pool = len(self.nodes), len(self.pool)
        try:
            chosen = schemas.operator(*self.draw.choice(names), self.opset)
            if chosen is None:
                return None
            call = arguments(self, chosen)
            return self.add(chosen.domain, chosen.name, call.operands, call.attributes, call.outputs)[0]
        except (Refused, ArithmeticError, LookupError, ValueError, TypeError):
            del self.nodes[nodes:], self.pool[pool:]
            return None
        finally:
            self.temper = kept


def _differ(known: Known) -> np.ndarray:
    """Where a value is another one for the second input."""
    one, other = known.value, known.moved
    return ~((one == other) | ((one != one) & (other != other)))


def _attribute(name: str, value: object) -> onnx.AttributeProto:
    """An attribute; an empty list is one of integers."""
    return helper.make_attribute(name, value, attr_type=onnx.AttributeProto.INTS if value == [] else None)


def _exchangeable(one: np.ndarray, other: np.ndarray) -> bool:
    """The same entries; of floats the same shape, since nothing hangs on their entries."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return one.dtype.kind == "f" or np.array_equal(one, other)


@cache
def _weights(operators: tuple[tuple[str, str], ...]) -> list[float]:
    titles = [f"{domain}.{name}" if domain else name for domain, name in operators]
    return [WEIGHTS.get(title, 1.0) for title in titles]


@cache
def _along(operators: tuple[tuple[str, str], ...], opset: int) -> list[tuple[str, str]]:
    """The operators whose axes are operands."""
    found = [(one, schemas.operator(*one, opset)) for one in operators]
    return [
        one for one, schema in found if schema and any(formal.name in ("axes", "axis") for formal in schema.operands)
    ]
