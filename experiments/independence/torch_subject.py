"""The only place of the torch fuzzer that knows how the inspector is called."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import fx, nn

from soundsmooth.models.independence import export_and_inspect, torch_graph
from soundsmooth.models.independence.torch_memory import Memory
from soundsmooth.models.independence.torch_rules import RULES
from soundsmooth.models.independence.values import Unproved, Value


class Verdict(NamedTuple):
    graph: nn.Module
    """What runs: the graph, if it is proved; the module itself otherwise."""
    proved: bool
    reason: str
    batch: int | None = None
    """The batch size for which it is proved; None for all."""


class Refused(Exception):  # noqa: N818 (it is a verdict)
    """The module is not proved, because there is no graph to look at."""


def operators() -> list[str]:
    """The names of all ATen operators that have a rule and exist, as torch writes them."""
    return [f"aten.{name}" for name in RULES if _exists(*name.split("."))]


def _exists(name: str, overload: str) -> bool:
    return hasattr(torch.ops.aten, name) and overload in getattr(torch.ops.aten, name).overloads()


def prove(module: nn.Module, shape: tuple[int, ...], batch: int) -> Verdict:
    """What a user gets: the module exported and inspected."""
    graph, report = export_and_inspect(module, torch.ones(batch, *shape))
    return Verdict(graph, report.proved, report.reason, report.batch)


def exported(module: nn.Module, shape: tuple[int, ...], batch: int) -> tuple[fx.GraphModule, int | None]:
    """The graph that would be inspected, and the batch size if it has a fixed one; Refused if there is none."""
    example = torch.ones(batch, *shape)
    try:
        program, fixed = torch_graph._export(module, example)
    except Exception as error:
        raise Refused(f"torch.export: {type(error).__name__}") from None
    try:
        return torch_graph._plain(program, torch_graph._tensors(program, module, example.device), example.device), fixed
    except Unproved as reason:
        raise Refused(str(reason)) from None


def judge(graph: fx.GraphModule, batch: int | None) -> Verdict:
    """Whether the inspector proves a graph as it stands."""
    try:
        torch_graph._inspect(graph.graph, batch)
    except Unproved as reason:
        return Verdict(graph, False, str(reason), batch)
    return Verdict(graph, True, "", batch)


def claims(graph: fx.GraphModule, batch: int) -> Iterator[tuple[fx.Node, tuple[int, ...]]]:
    """The shape that the inspector believes each value of a proved graph to have at a batch size."""
    fixed = isinstance(next(iter(graph.graph.find_nodes(op="placeholder"))).meta["val"].shape[0], int)
    for node, found in _found(graph.graph, batch if fixed else None).items():
        if isinstance(found, Value) and isinstance(node.meta["val"], torch.Tensor):
            yield node, tuple(_number(extent, batch) for extent in found.shape)


def _number(extent: Any, batch: int) -> int:
    """-1 if a part of it is not known."""
    others = [symbol for symbol in extent.symbols if symbol != "batch"]
    return -1 if others else int(extent.count * batch ** len(extent.symbols))


def _found(graph: fx.Graph, batch: int | None) -> dict[fx.Node, Any]:
    """The inspector's loop once more, for what it keeps to itself."""
    (image,) = graph.find_nodes(op="placeholder")
    symbols, memory, found = torch_graph._Symbols(image), Memory(graph.nodes), {}
    for node in graph.nodes:
        if node.op == "call_function":
            found[node] = torch_graph._outcome(node, found, symbols, memory, batch)
        elif node.op != "output":
            shape = symbols.shape(node.meta["val"])
            rows = node.op == "placeholder"
            found[node] = Value((torch_graph.BATCH, *shape[1:]) if rows else shape, 0 if rows else None)
            memory.own(node, fixed=True)
    return found
