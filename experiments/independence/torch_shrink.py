"""A smaller graph that shows the same."""

import operator
from collections.abc import Callable, Iterator

import torch
from torch import fx
from torch_cuts import copied

TRIES = 150


def shrunk(module: fx.GraphModule, shows: Callable[[fx.GraphModule], bool]) -> fx.GraphModule:
    """Calls are left out, one by one, as long as the graph still `shows` what it shows."""
    tries = TRIES
    progress = True
    while progress and tries > 0:
        progress = False
        for smaller in _smaller(module):
            tries -= 1
            if _holds(smaller, shows):
                module, progress = smaller, True
                break
            if tries <= 0:
                break
    return module


def _holds(module: fx.GraphModule, shows: Callable[[fx.GraphModule], bool]) -> bool:
    try:
        return shows(module)
    except Exception:
        return False


def _smaller(module: fx.GraphModule) -> Iterator[fx.GraphModule]:
    """The graph without one of its nodes: unused, or replaced by an operand of the same shape."""
    nodes = [node for node in module.graph.nodes if node.op in ("call_function", "get_attr")]
    for number in reversed(range(len(nodes))):
        if set(nodes[number].users) <= {None}:
            yield _without(module, number, None)
    for number in reversed(range(len(nodes))):
        for place, operand in enumerate(nodes[number].all_input_nodes):
            if nodes[number].users and alike(nodes[number], operand):
                yield _without(module, number, place)


def alike(one: fx.Node, other: fx.Node) -> bool:
    a, b = one.meta.get("val"), other.meta.get("val")
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or one.target is operator.getitem:
        return False
    return a.dtype == b.dtype and str(a.shape) == str(b.shape)


def _without(module: fx.GraphModule, number: int, place: int | None) -> fx.GraphModule:
    order = [node for node in module.graph.nodes if node.op != "output"]
    (output,) = module.graph.find_nodes(op="output")
    copy = copied(module, order, output.args[0])
    node = [node for node in copy.graph.nodes if node.op in ("call_function", "get_attr")][number]
    if place is not None:
        node.replace_all_uses_with(node.all_input_nodes[place])
    copy.graph.erase_node(node)
    copy.recompile()
    return copy
