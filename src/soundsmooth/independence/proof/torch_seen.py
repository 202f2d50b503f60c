"""What torch was seen to compute: every value of a graph, or its shape alone, for one batch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from .values import Shape, Unproved

if TYPE_CHECKING:
    import torch
    from torch import fx

Array = npt.NDArray[Any]


#: The types of numbers that rules are for. Others (complex, quantized …) end the proof wherever they stand.
FLOATS = frozenset(("float16", "bfloat16", "float32", "float64"))
INTEGERS = frozenset(("uint8", "int8", "int16", "int32", "int64"))
NUMBERS = FLOATS | INTEGERS | {"bool"}


@dataclass(frozen=True)
class Sight:
    """A tensor as it was when it was computed: its shape, its type, and its entries if they were kept."""

    shape: Shape
    type: str
    entries: Array | None = None


#: By the name of the node: a tensor, a number, or several of them.
Seen = Mapping[str, Any]


def watched(graph: "fx.GraphModule", batch: "torch.Tensor", kept: "set[fx.Node] | None" = None) -> Seen:
    """What every node of the graph computes for a batch; the entries of the nodes `kept`, or of all.

    Parameters are seen by their shapes and types alone. Unproved if there is a tensor of numbers that no rule is for.
    """
    import torch

    seen: dict[str, Any] = {}

    def note(node: "fx.Node", result: Any) -> None:
        if node.op != "output":
            seen[node.name] = _sight(result, node.op != "get_attr" and (kept is None or node in kept))

    with torch.inference_mode():
        watch(graph, batch, note)
    for name, one in ((name, one) for whole, value in seen.items() for name, one in named(whole, value)):
        if isinstance(one, Sight) and one.type not in NUMBERS:
            raise Unproved(f"{name!r} is a tensor of type {one.type}, for which there are no rules")
    return seen


def watch(
    graph: "fx.GraphModule",
    batch: "torch.Tensor",
    note: "Callable[[fx.Node, Any], None]",
    fetched: Callable[[Any], Any] | None = None,
) -> None:
    """Run a graph node by node, and note what comes of each. What is `fetched` takes the place of parameters."""
    _watching()(graph, note, fetched).run(batch)


@cache
def _watching() -> Any:
    """The class that does it, made once: each class is a cycle, which would keep what was noted alive."""
    from torch import fx

    class Watching(fx.Interpreter):
        def __init__(self, graph: Any, note: Any, fetched: Any) -> None:
            super().__init__(graph)
            self._note, self._fetched = note, fetched

        def run_node(self, n: fx.Node) -> Any:
            result = super().run_node(n)
            self._note(n, result)
            return result

        def fetch_attr(self, target: str) -> Any:
            held = super().fetch_attr(target)
            return held if self._fetched is None else self._fetched(held)

    return Watching


def _sight(value: Any, own: bool) -> Any:
    import torch

    if isinstance(value, list | tuple):
        return tuple(_sight(one, own) for one in value)
    if isinstance(value, torch.Tensor):
        type = _type(value)
        return Sight(tuple(value.shape), type, as_array(value) if own and type in NUMBERS else None)
    return value


def _type(tensor: "torch.Tensor") -> str:
    """The type of its numbers; the layout, where it is not a plain one."""
    import torch

    return str(tensor.dtype if tensor.layout == torch.strided else tensor.layout).removeprefix("torch.")


def as_array(tensor: "torch.Tensor") -> Array:
    """A private copy in NumPy; bfloat16, which NumPy lacks, as float32, which holds it exactly."""
    import torch

    plain = tensor.detach().float() if tensor.dtype == torch.bfloat16 else tensor.detach()
    return plain.cpu().clone().numpy()


def named(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A value, or several of them, with names of their own."""
    if isinstance(value, tuple):
        yield from ((f"{name}[{number}]", one) for number, one in enumerate(value))
    else:
        yield name, value
