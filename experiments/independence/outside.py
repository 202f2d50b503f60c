"""Faults that put a graph outside the dialect, each planted into a graph that is proved.

What is lawful is stated once more, from the operators' schemas (`schemas`) and by hand (`unlawful`), without a look at
the inspector's own table. An inspector that proves such a graph is wrong by definition, whether or not rows mix on this
runtime. If this runtime refuses the graph, shapes are those of the graph without the fault, as a runtime would show
them that does not mind.

A fault stands where the output is computed from it (`live`), or in a copy of a node that works on constants and that
nobody reads: a node outside the dialect ends the proof wherever it stands.
"""

import random
from collections.abc import Iterator

import numpy as np
import onnx
from file_faults import FILES
from node_faults import NODES
from planting import GRAPH, Planted, Site

#: How often another fault is tried if one does not fit.
TRIES = 4


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


def several(draw: random.Random, count: int, *given: object) -> Iterator[Planted]:
    """Some faults, each in a copy of its own."""
    for _ in range(count):
        found = planted(draw, *given)  # type: ignore[arg-type]
        if found is not None:
            yield found
