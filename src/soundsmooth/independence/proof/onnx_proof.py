"""From the graph that runs to a report: the argument at the promised batch size, then the witness."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.errors import first_line
from .onnx_graph import OnnxGraph, inputs_fit
from .onnx_seen import Probe, Seen, computed, instrumented, survey
from .report import ProofReport, not_proved, proved
from .values import Contradiction, Shape, Unproved, Value
from .witness import Part, Subject, disagreement

Array = npt.NDArray[Any]


def prove_onnx(
    running: bytes,
    probe: Probe,
    votes: Callable[[Array], Array],
    shape: Shape,
    batch: int,
    *,
    internal: bool = True,
    witness: bool = True,
) -> ProofReport:
    """Whether every output row of the graph that runs is the same function of its own input row, at this batch size.

    `probe` runs an instrumented copy of the graph where the graph itself runs; `votes` is the graph itself. `internal`
    admits operators that only onnxruntime's optimizer may write; for what it has written.

    Guarantee: see `ProofReport`. What is not understood is not proved.
    """
    try:
        graph = OnnxGraph(running, internal)
    except Unproved as reason:
        return not_proved(str(reason), batch)
    try:
        seen = _argue(graph, probe, shape, batch)
        if witness:
            fixed = graph.declared[0] is not None
            disagreement(_subject(graph, seen, probe, votes, shape), shape, batch, fixed)
    except Unproved as reason:
        return not_proved(str(reason), batch, graph.operators, isinstance(reason, Contradiction))
    except ValueError as error:
        return not_proved(f"the graph could not be watched: {first_line(error)}", batch, graph.operators)
    return proved(batch, graph.operators)


def _argue(graph: OnnxGraph, probe: Probe, shape: Shape, batch: int) -> Seen:
    """The argument at the promised batch size, and what was seen there; Unproved if there is a gap in it."""
    if not inputs_fit(graph.declared, (batch, *shape)):
        raise Unproved(f"the graph does not take batches of {[batch, *shape]}")
    seen = survey(graph.proto, graph.constants, probe, np.full((batch, *shape), 0.5, np.float32))
    graph.check_output(graph.walk(batch, seen), batch)
    return seen


def _subject(graph: OnnxGraph, seen: Seen, probe: Probe, votes: Callable[[Array], Array], shape: Shape) -> Subject:
    """The graph with every value as an output; the argument is made anew at each other batch size than was `seen`."""
    names = computed(graph.proto)
    run = probe(*instrumented(graph.proto, [], names))

    def computed_from(batch: Array) -> Mapping[str, Array]:
        return dict(zip(names, map(np.asarray, run(batch)), strict=True))

    def see(batch: int) -> Seen:
        found = computed_from(np.full((batch, *shape), 0.5, np.float32))
        shapes = {**seen.shapes, graph.image: (batch, *shape), **{name: each.shape for name, each in found.items()}}
        constants = {name: each for name, each in found.items() if name in graph.constants}
        return Seen(shapes, {**seen.entries, **constants})

    def claims(batch: int) -> Mapping[str, Value]:
        known = graph.walk(batch, seen if seen.shape(graph.image) == (batch, *shape) else see(batch))
        graph.check_output(known, batch)
        return {name: one for name in names if isinstance(one := known.get(name), Value)}

    def values(batch: Array, parts: Mapping[str, Part]) -> Mapping[str, Array]:
        return {name: parts[name](value) for name, value in computed_from(batch).items() if name in parts}

    return Subject(claims, values, votes, graph.output)
