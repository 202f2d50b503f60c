"""The inspector under test; the one file here that knows its interface."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from oracle import all_values, inputs

from soundsmooth.models.independence import Report, inspect_onnx, onnx_graph
from soundsmooth.models.independence.extents import BATCH_SYMBOL, Extent
from soundsmooth.models.independence.values import Kind, Unproved, Value
from soundsmooth.models.onnx_child import frozen_session
from soundsmooth.models.onnx_session import Runtime, inspected

#: Where graphs are written and read again: memory, where the system has such a folder.
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None
#: Operators that need another device.
ELSEWHERE = frozenset(("MemcpyFromHost", "MemcpyToHost"))


@dataclass(frozen=True)
class Verdict:
    """What the inspector says of a graph."""

    proved: bool
    reason: str
    contradiction: str | None
    """Where a rule and the runtime disagree about a value of the graph: its shape, its entries or its rows."""
    operators: Counter[str] = field(default_factory=Counter)
    graph: bytes = b""
    """The graph that was proved: the one that would vote."""
    any_batch: bool = True
    """Whether other batch sizes are covered as well."""


def table() -> list[tuple[str, str]]:
    """The operators that have a rule: (domain, name)."""
    domains = {"": onnx_graph.RULES, "com.microsoft": onnx_graph.MICROSOFT}
    return [(domain, name) for domain, rules in domains.items() for name in rules if name not in ELSEWHERE]


def prove(model: bytes, batch: int, optimize: bool = False) -> Verdict:
    """What the inspector says of a graph, as it is or as the optimizer leaves it."""
    if optimize:
        return _optimized(model, batch)
    return _verdict(inspect_onnx(model), model, batch)


def _optimized(model: bytes, batch: int) -> Verdict:
    """As a file is loaded: optimized, frozen, inspected; at lower levels if that fails."""
    ran = {}

    def frozen(level: str) -> tuple[Any, bytes]:
        made, ran[level] = frozen_session(model, "cpu", "", 1, level, FOLDER)
        return made, ran[level]

    found = inspected(model, Runtime(lambda level: None, frozen))
    return _verdict(found.report, ran.get(found.level, model), batch)


def _verdict(report: Report, model: bytes, batch: int) -> Verdict:
    operators = Counter(report.operators)
    return Verdict(report.proved, report.reason, contradiction(model, batch), operators, model, report.batch is None)


# Claimed against real: every value of the graph as an output. -----------------------------------------------------


def contradiction(model: bytes, batch: int) -> str | None:
    """The first claim about a value that the runtime does not confirm."""
    proto = onnx.load_model_from_string(model)
    claims = _claims(proto)
    names = [name for node in proto.graph.node for name in node.output if name in claims]
    if not names:
        return None
    try:
        run = all_values(proto, names)
        base, other, row = inputs(proto, batch)
        real, moved = run(base), run(other)
    except Exception:  # the runtime does not run it: nothing can be compared
        return None
    found = ((name, _disagreement(name, claims[name], real[name], moved[name], batch, row)) for name in names)
    name, wrong = next(((name, one) for name, one in found if one), ("", None))
    return None if wrong is None else f"{_maker(proto, name)}: {wrong}"


def _maker(proto: onnx.ModelProto, name: str) -> str:
    """The node that computes a value, for people."""
    node = next(node for node in proto.graph.node if name in node.output)
    given = ", ".join(f"{one.name}={onnx.helper.get_attribute_value(one)}" for one in node.attribute)
    return f"{node.op_type}({given})"


def _claims(proto: onnx.ModelProto) -> dict[str, Value]:
    """What the inspector says of each value that it understands."""
    try:
        opset = onnx_graph._check_model(proto)
        name, image = onnx_graph._only_input(proto.graph)
        found = onnx_graph._walk(proto.graph, opset, name, image, True)
    except Unproved:
        return {}
    return {name: value for name, value in found.items() if isinstance(value, Value)}


def _disagreement(name: str, claim: Value, real: np.ndarray, moved: np.ndarray, batch: int, row: int) -> str | None:
    if len(claim.shape) != real.ndim or not all(map(_fits, claim.shape, real.shape, [batch] * real.ndim)):
        return f"shape of {name}: claimed [{claim}], real {list(real.shape)}"
    if claim.known is not None:
        for entry, number in zip(claim.known, real.ravel().tolist(), strict=True):
            if isinstance(entry, Extent) and not _fits(entry, int(number), batch):
                return f"entries of {name}: claimed {entry}, real {number}"
    if claim.kind is Kind.DATA and _moves(claim, real, moved, batch, row):
        return f"rows of {name}: claimed [{claim}] with rows on axis {claim.axis}, others are seen"
    return None


def _fits(extent: Extent, real: int, batch: int) -> bool:
    """Symbols other than the batch may be anything."""
    if any(symbol != BATCH_SYMBOL for symbol in extent.symbols):
        return True
    return bool(extent.count * batch ** len(extent.symbols) == real)


def _moves(claim: Value, real: np.ndarray, moved: np.ndarray, batch: int, row: int) -> bool:
    """Whether entries that belong to other rows changed when this row did."""
    if real.shape != moved.shape:
        return True
    differ = ~((real == moved) | ((real != real) & (moved != moved)))
    if claim.axis is None or not differ.any():
        return bool(differ.any())
    outer = int(claim.outer.count) if not claim.outer.symbols else None
    if outer is None:
        return False
    cut = np.moveaxis(differ, claim.axis, 0)
    cut = cut.reshape(outer, batch, cut.shape[0] // (outer * batch), -1)
    return bool(np.delete(cut, row, 1).any())
