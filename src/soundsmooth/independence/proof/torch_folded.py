"""Graphs with batch normalisation folded into the convolutions before it: fewer operators for the same function.

The graph that is made here is proved and run like any other. Nothing rests on its being equal to the one before, but
rounding is all that should differ.
"""

from typing import TYPE_CHECKING, Any

from .torch_export import Exported
from .torch_faster import NORMALISATION, is_channels_last, scores_alike

if TYPE_CHECKING:
    import torch
    from torch import fx

CONVOLUTIONS = frozenset(f"aten.conv{axes}d.default" for axes in (1, 2, 3))


def with_folded_norms(made: Exported, example: "torch.Tensor") -> Exported | None:
    """The same graph with convolutions that normalise too; None if it has none, or if scores come out otherwise."""
    from torch import fx

    if made.graph is None:
        return None
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    graph.output(graph.graph_copy(made.graph.graph, copies))
    for before, node in copies.items():
        node.meta = dict(before.meta)
    folded = fx.GraphModule(made.graph, graph)
    norms = [node for node in graph.nodes if _can_be_folded(node)]
    for number, norm in enumerate(norms):
        _fold(folded, norm, number)
    if not norms:
        return None
    graph.eliminate_dead_code()
    folded.delete_all_unused_submodules()
    folded.recompile()
    _drop_unread(folded)
    alike = scores_alike(made.graph, folded, example)
    return Exported.of(folded, made.batch) if alike else None


def _can_be_folded(node: "fx.Node") -> bool:
    """A normalisation by fixed statistics, after a convolution that nothing else reads, all by constants."""
    from torch import fx

    if str(node.target) != NORMALISATION or node.kwargs or len(node.args) != 9 or node.args[5] is not False:
        return False
    first = node.args[0]
    fits = isinstance(first, fx.Node) and str(first.target) in CONVOLUTIONS and list(first.users) == [node]
    if not fits or not isinstance(first, fx.Node) or first.kwargs:
        return False
    constants = [*first.args[1:3], *node.args[1:5]]
    if not all(each is None or (isinstance(each, fx.Node) and each.op == "get_attr") for each in constants):
        return False
    return None not in node.args[3:5]


def _fold(folded: "fx.GraphModule", norm: "fx.Node", number: int) -> None:
    """Weights and bias that do both, computed in double precision and rounded once."""
    import torch

    convolution: Any = norm.args[0]
    weight, bias, *statistics = (
        None if each is None else _constant(folded, each) for each in (*_read(convolution), *norm.args[1:5])
    )
    scale, shift, mean, variance = statistics
    assert weight is not None
    assert mean is not None
    assert variance is not None
    factor = torch.rsqrt(variance.double() + _epsilon(norm))
    factor = factor if scale is None else factor * scale.double()
    moved = (0.0 if bias is None else bias.double()) - mean.double()
    new_bias = moved * factor + (0.0 if shift is None else shift.double())
    new_weight = weight.double() * factor.reshape(-1, *[1] * (weight.dim() - 1))
    graph, places = folded.graph, []
    for name, value in ((f"folded_weight_{number}", new_weight), (f"folded_bias_{number}", new_bias)):
        last = is_channels_last(weight) and not weight.is_contiguous() and value.dim() == 4
        layout = torch.channels_last if last else torch.contiguous_format
        folded.register_buffer(name, value.to(weight.dtype).contiguous(memory_format=layout))
        with graph.inserting_before(convolution):
            places.append(graph.get_attr(name))
            places[-1].meta["val"] = value.to(weight.dtype)
    convolution.args = (convolution.args[0], *places, *convolution.args[3:])
    norm.replace_all_uses_with(convolution)
    graph.erase_node(norm)


def _read(convolution: "fx.Node") -> tuple[Any, Any]:
    """Its weights and its bias, which may be missing."""
    return convolution.args[1], convolution.args[2] if len(convolution.args) > 2 else None


def _constant(folded: "fx.GraphModule", node: Any) -> "torch.Tensor":
    found: torch.Tensor = getattr(folded, str(node.target))
    return found


def _epsilon(norm: "fx.Node") -> float:
    epsilon = norm.args[7]
    assert isinstance(epsilon, float)
    return epsilon


def _drop_unread(folded: "fx.GraphModule") -> None:
    """Leave no numbers behind that the graph does not read."""
    read = {str(node.target) for node in folded.graph.nodes if node.op == "get_attr"}
    for name in [name for name, _ in folded.named_buffers() if name not in read]:
        delattr(folded, name)
