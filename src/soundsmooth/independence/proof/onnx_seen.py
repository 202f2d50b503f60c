"""What the runtime was seen to compute: shapes of all values of a graph, and entries of its constants.

A graph is instrumented: its values, or their shapes alone, become outputs. It is otherwise node for node the graph
that votes, so what comes out is what that graph computes on its way.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .values import Shape, Unproved

if TYPE_CHECKING:
    import onnx

#: Constants of the file with more entries are not looked into.
MOST_ENTRIES = 1 << 14
#: A model and names of its outputs → what the runtime computes for a batch, in their order.
Probe = Callable[[bytes, Sequence[str]], Callable[[npt.NDArray[Any]], Sequence[npt.NDArray[Any]]]]


@dataclass(frozen=True)
class Seen:
    """At one batch size."""

    shapes: Mapping[str, Shape]
    entries: Mapping[str, npt.NDArray[Any]]
    """Of constants; of those that the file holds only if they are few integers."""

    def shape(self, name: str) -> Shape:
        if name not in self.shapes:
            raise Unproved(f"the runtime did not show the shape of {name!r}")
        return self.shapes[name]


def survey(proto: "onnx.ModelProto", constants: Iterable[str], probe: Probe, batch: npt.NDArray[Any]) -> Seen:
    """Shapes of all values of a graph and entries of its constants, by one run that keeps no other value."""
    graph = proto.graph
    small = {tensor.name for tensor in graph.initializer if _is_small(tensor)}
    held = {tensor.name for tensor in graph.initializer}
    shapes = [*(entry.name for entry in graph.input), *sorted(held), *computed(proto)]
    entries = sorted(name for name in constants if name in small or (name and name not in held))
    found = list(map(np.asarray, probe(*instrumented(proto, shapes, entries))(batch)))
    seen = {name: tuple(map(int, one)) for name, one in zip(shapes, found, strict=False)}
    return Seen(seen, dict(zip(entries, found[len(shapes) :], strict=True)))


def instrumented(proto: "onnx.ModelProto", shapes: Sequence[str], values: Sequence[str]) -> tuple[bytes, list[str]]:
    """The graph with these shapes and values as further outputs; the outputs' names, shapes first."""
    import onnx
    from onnx import helper

    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    graph, names = changed.graph, []
    held = {tensor.name for tensor in graph.initializer} | {entry.name for entry in graph.input}
    there = {entry.name for entry in graph.output}
    for number, name in enumerate(shapes):
        names.append(f"soundsmooth shape {number}")
        graph.node.append(helper.make_node("Shape", [name], [names[-1]]))
    for number, name in enumerate(values):
        names.append(f"soundsmooth value {number}" if name in held else name)
        if name in held:
            graph.node.append(helper.make_node("Identity", [name], [names[-1]]))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in there)
    return changed.SerializeToString(), names


def computed(proto: "onnx.ModelProto") -> list[str]:
    """The names of all values that the nodes of a graph compute."""
    return [name for node in proto.graph.node for name in node.output if name]


def _is_small(tensor: "onnx.TensorProto") -> bool:
    """A constant that may be a list of axes and the like."""
    import onnx

    kinds = (onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.BOOL)
    return tensor.data_type in kinds and int(np.prod(tensor.dims, dtype=object)) <= MOST_ENTRIES
