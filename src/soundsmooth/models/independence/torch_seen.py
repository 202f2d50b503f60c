"""What torch was seen to compute: every value of a graph, or its shape alone, for one batch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from .values import Shape

if TYPE_CHECKING:
    import torch
    from torch import fx

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Sight:
    """A tensor as it was when it was computed: its shape, and its entries if they were kept."""

    shape: Shape
    entries: Array | None = None


#: By the name of the node: a tensor, a number, or several of them.
Seen = Mapping[str, Any]


def watched(graph: "fx.GraphModule", batch: "torch.Tensor", kept: "set[fx.Node] | None" = None) -> Seen:
    """What every node of the graph computes for a batch; the entries of the nodes `kept`, or of all.

    Parameters and the input are seen by their shapes alone.
    """
    import torch
    from torch import fx

    seen: dict[str, Any] = {}

    class Watch(fx.Interpreter):
        def run_node(self, n: "fx.Node") -> Any:
            result = super().run_node(n)
            own = n.op == "call_function" and (kept is None or n in kept)
            if n.op != "output":
                seen[n.name] = _sight(result, own)
            return result

    with torch.inference_mode():
        Watch(graph).run(batch)
    return seen


def _sight(value: Any, own: bool) -> Any:
    import torch

    if isinstance(value, list | tuple):
        return tuple(_sight(one, own) for one in value)
    if isinstance(value, torch.Tensor):
        return Sight(tuple(value.shape), as_array(value) if own else None)
    return value


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
