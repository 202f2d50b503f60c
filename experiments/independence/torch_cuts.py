"""Many graphs from one: each value of a graph in turn is taken for its output."""

from collections.abc import Iterator

import torch
from torch import fx

#: What stays of a graph: all of it, what comes before the output, or what the output is computed from.
KEPT = ("all", "before", "needed")


def outputs(graph: fx.Graph) -> list[fx.Node]:
    """The nodes that could be the output: calls that make one tensor."""
    calls = [node for node in graph.nodes if node.op == "call_function"]
    return [node for node in calls if isinstance(node.meta.get("val"), torch.Tensor)]


def cuts(module: fx.GraphModule, node: fx.Node) -> Iterator[tuple[str, fx.GraphModule]]:
    """The graph with `node` as its output, in up to three forms; the same form is not given twice."""
    seen = set()
    for kept in KEPT:
        nodes = chosen(module.graph, node, kept)
        if len(nodes) not in seen:  # each form holds the next one
            seen.add(len(nodes))
            yield kept, copied(module, nodes, node)


def chosen(graph: fx.Graph, node: fx.Node, kept: str) -> list[fx.Node]:
    """The nodes of a form, in order, without the output."""
    order = [each for each in graph.nodes if each.op != "output"]
    if kept == "all":
        return order
    before = order[: order.index(node) + 1]
    needed = above(node) if kept == "needed" else set(before)
    return [each for each in before if each in needed or each.op == "placeholder"]


def above(node: fx.Node) -> set[fx.Node]:
    """The node and everything that it is computed from, by names; writes under other names are not followed."""
    found, left = {node}, [node]
    while left:
        fresh = [each for each in left.pop().all_input_nodes if each not in found]
        found.update(fresh)
        left += fresh
    return found


def copied(module: fx.GraphModule, nodes: list[fx.Node], output: fx.Node) -> fx.GraphModule:
    """A graph module of these nodes; its tensors are the module's own."""
    graph, copies = fx.Graph(), {}
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda argument: copies[argument])
    graph.output(copies[output])
    root = torch.nn.Module()
    for name in {node.target for node in nodes if node.op == "get_attr"}:
        root.register_buffer(name, getattr(module, name))
    return fx.GraphModule(root, graph)
