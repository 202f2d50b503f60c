"""The inspector under test; the one file here that knows its interface.

The argument is tried alone, without the witness, which would hide its mistakes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import planting
from oracle import inputs, session

from soundsmooth.independence.proof import onnx_graph, onnx_proof, onnx_seen, prove_onnx
from soundsmooth.independence.proof.onnx_schema import malformed
from soundsmooth.independence.proof.report import ProofReport
from soundsmooth.independence.proof.values import Contradiction, Unproved, Value
from soundsmooth.models.onnx_session import NotFrozenError, frozen_session

#: Where graphs are written and read again: memory, where the system has such a folder.
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None
#: Operators that need another device, and those of the optimizer's own.
ELSEWHERE = frozenset(("MemcpyFromHost", "MemcpyToHost"))
#: Shapes of all values of a graph, and entries of some; None if it does not run.
Shown = tuple[dict[str, tuple[int, ...]], dict[str, np.ndarray]] | None


@dataclass(frozen=True)
class Verdict:
    """What the inspector says of a graph."""

    proved: bool
    reason: str
    contradiction: str | None
    """Where a rule and the runtime disagree about a value of the graph: its shape, or where its rows lie."""
    operators: Counter[str] = field(default_factory=Counter)
    graph: bytes = b""
    """The graph that was proved: the one that would vote."""


def table() -> list[tuple[str, str]]:
    """The operators that have a rule: (domain, name)."""
    domains = {"": onnx_graph.RULES, "com.microsoft": onnx_graph.MICROSOFT}
    return [(domain, name) for domain, rules in domains.items() for name in rules if name not in ELSEWHERE]


def prove(model: bytes, batch: int, optimize: bool = False) -> Verdict:
    """What the inspector says of a graph, as it is or as the optimizer leaves it."""
    problem = refused_as_file(model)
    if problem is not None:
        return Verdict(False, problem, None)
    try:
        ran = frozen_session(model, "cpu", "", 1, "all", FOLDER)[1] if optimize else model
    except NotFrozenError as error:
        return Verdict(False, str(error), None)
    report = prove_onnx(ran, probe, lambda values: values, row(model), batch, internal=optimize, witness=False)
    wrong = report.reason if report.contradiction else contradiction(ran, batch, optimize)
    return Verdict(report.proved, report.reason, wrong, Counter(report.operators), ran)


def refused_as_file(model: bytes) -> str | None:
    """Why a file is refused before the runtime sees it."""
    proto = onnx.load_model_from_string(model)
    return malformed(proto) or onnx_graph.hopeless(proto)


def row(model: bytes) -> tuple[int, ...]:
    """The shape of a row; 2 where nothing is declared."""
    kind = onnx.load_model_from_string(model).graph.input[0].type.tensor_type
    return tuple(size.dim_value or 2 for size in kind.shape.dim[1:])


def argued(ran: bytes, shown: Shown, rows: tuple[int, ...], batch: int, internal: bool) -> ProofReport:
    """The argument about a graph, if the runtime shows these shapes and entries; none if it fails."""
    onnx_proof.survey = lambda proto, constants, *_: seen(shown, constants)
    try:
        return prove_onnx(ran, probe, lambda values: values, rows, batch, internal=internal, witness=False)
    finally:
        onnx_proof.survey = onnx_seen.survey


def seen(shown: Shown, constants: frozenset[str]) -> onnx_seen.Seen:
    if shown is None:
        raise ValueError("the runtime fails")
    shapes, entries = shown
    return onnx_seen.Seen(shapes, {name: entries[name] for name in constants if name in entries})


def watched(proto: onnx.ModelProto, given: Iterable[np.ndarray]) -> list[Shown]:
    """All values of a graph for some inputs; of the constants that the file holds only those that may be axes."""
    held = [tensor.name for tensor in proto.graph.initializer]
    small = [tensor.name for tensor in proto.graph.initializer if onnx_seen._is_small(tensor)]
    computed = list(dict.fromkeys(onnx_seen.computed(proto)))
    shapes = list(dict.fromkeys([*(entry.name for entry in proto.graph.input), *held, *computed]))
    names = [*computed, *(name for name in small if name not in computed)]
    try:
        run = probe(*onnx_seen.instrumented(proto, shapes, names))
    except ValueError:
        return [None for _ in given]
    return [_shown(run, batch, shapes, names) for batch in given]


def _shown(
    run: Callable[[np.ndarray], list[np.ndarray]], batch: np.ndarray, shapes: list[str], names: list[str]
) -> Shown:
    try:
        values = list(map(np.asarray, run(batch)))
    except ValueError:
        return None
    sizes = {name: tuple(map(int, one)) for name, one in zip(shapes, values, strict=False)}
    return sizes, dict(zip(names, values[len(shapes) :], strict=True))


def taken(one: planting.Planted, batch: int, rows: tuple[int, ...]) -> Shown:
    """What the runtime shows of a graph with a fault, if it takes it."""
    try:
        return watched(onnx.load_model_from_string(one.model), [np.full((batch, *rows), 0.5, np.float32)])[0]
    except Exception:  # it cannot even be asked
        return None


def admitted(guard: str, model: bytes, shown: Shown, rows: tuple[int, ...], batch: int, internal: bool) -> bool:
    """Whether one of those who have to refuse a graph lets it pass (`outside`)."""
    if guard == planting.MALFORMED:
        return malformed(onnx.load_model_from_string(model)) is None
    if guard == planting.HOPELESS:
        return onnx_graph.hopeless(onnx.load_model_from_string(model)) is None
    return argued(model, shown, rows, batch, internal).proved


def probe(model: bytes, outputs: Sequence[str]) -> Callable[[np.ndarray], list[np.ndarray]]:
    """The runtime in this process; an error of its is a ValueError, as the inspector expects."""
    try:
        made = session(model)
    except Exception as error:
        raise ValueError(str(error)) from None
    name = made.get_inputs()[0].name

    def run(batch: np.ndarray) -> list[np.ndarray]:
        try:
            return list(made.run(list(outputs), {name: batch}))
        except Exception as error:
            raise ValueError(str(error)) from None

    return run


# Claimed against real: every value of the graph as an output. -----------------------------------------------------


def contradiction(model: bytes, batch: int, internal: bool) -> str | None:
    """The first claim about a value that the runtime does not confirm, when one row is replaced."""
    try:
        graph = onnx_graph.OnnxGraph(model, internal)
        base, other, row = inputs(graph.proto, batch)
        seen = onnx_seen.survey(graph.proto, graph.constants, probe, base)
        found = graph.walk(batch, seen)
    except (Unproved, ValueError):
        return None
    wrong = next((str(each) for each in found.values() if isinstance(each, Contradiction)), None)
    claims = {name: value for name, value in found.items() if isinstance(value, Value)}
    names = [name for name in onnx_seen.computed(graph.proto) if name in claims]
    if wrong is not None or not names:
        return wrong
    try:
        run = probe(*onnx_seen.instrumented(graph.proto, [], names))
        real, moved = run(base), run(other)
    except ValueError:  # the runtime does not run it: nothing can be compared
        return None
    each = zip(names, map(np.asarray, real), map(np.asarray, moved), strict=True)
    found_wrong = ((name, _disagreement(claims[name], one, two, batch, row)) for name, one, two in each)
    name, how = next(((name, how) for name, how in found_wrong if how), ("", None))
    return None if how is None else f"{_maker(graph.proto, name)}: {how}"


def _maker(proto: Any, name: str) -> str:
    """The node that computes a value, for people."""
    node = next(node for node in proto.graph.node if name in node.output)
    given = ", ".join(f"{one.name}={onnx.helper.get_attribute_value(one)}" for one in node.attribute)
    return f"{node.op_type}({given})"


def _disagreement(claim: Value, real: np.ndarray, moved: np.ndarray, batch: int, row: int) -> str | None:
    if claim.shape != real.shape or real.shape != moved.shape:
        return f"claimed [{claim}], real {list(real.shape)} and {list(moved.shape)}"
    differ = ~((real == moved) | ((real != real) & (moved != moved)))
    if not differ.any():
        return None
    if claim.axis is None:
        return "claimed to be a constant, and a row changed it"
    cut = np.moveaxis(differ, claim.axis, 0).reshape(claim.outer, batch, -1)
    others = np.delete(cut, row, 1).any()
    return f"rows claimed on axis {claim.axis} of [{claim}], and others are seen" if others else None
