"""The only place of the torch fuzzer that knows how the inspector is called."""

from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch_cuts import copied
from torch_oracle import out_of_range

from soundsmooth.independence.proof import torch_export, torch_graph
from soundsmooth.independence.proof.torch_proof import prove_torch
from soundsmooth.independence.proof.torch_rules import RULES, by_operator
from soundsmooth.independence.proof.torch_seen import watched
from soundsmooth.independence.proof.values import Contradiction, Unproved, Value


class Verdict(NamedTuple):
    """What the inspector says of a graph at one batch size."""

    graph: fx.GraphModule | None
    proved: bool
    reason: str
    contradiction: bool = False
    """A rule and torch disagree about a shape."""


class Claims(NamedTuple):
    """What the inspector believes of a graph's values at one batch size, proved or not."""

    values: dict[fx.Node, Value]
    numbers: dict[fx.Node, Any]
    """Sizes, which are the same in every run."""
    constants: set[fx.Node]
    """Nodes whose entries may be overwritten by constants: whoever reads them reads a constant all the same."""
    contradictions: list[str]


class Refused(Exception):  # noqa: N818 (it is a verdict)
    """The module is not proved, because there is no graph to look at."""


def operators() -> list[str]:
    """The names of all ATen operators that have a rule and exist, as torch writes them."""
    return [str(operator) for operator in by_operator()]


def dead() -> list[str]:
    """Rules for operators that this version of torch does not have, or with other arguments."""
    return sorted(set(RULES) - {name.removeprefix("aten.") for name in operators()})


def prove(module: nn.Module, shape: tuple[int, ...], batch: int, witness: bool = False) -> Verdict:
    """What a user gets: the module exported and inspected, by the argument alone or with the witness beside it."""
    example = torch.ones(batch, *shape)
    made = torch_export.export_module(module, example)
    report = prove_torch(made, example, witness=witness)
    return Verdict(made.graph, report.proved, report.reason, report.contradiction)


def exported(module: nn.Module, shape: tuple[int, ...], batch: int) -> fx.GraphModule:
    """The graph that would be inspected; Refused if there is none. Calls without a rule may stand in it."""
    example = torch.ones(batch, *shape)
    try:
        program, _ = torch_export._export(module, example)
    except Exception as error:
        raise Refused(f"torch.export: {type(error).__name__}") from None
    try:
        return torch_export._plain(program, torch_export._tensors(program, module, example.device), example.device)
    except Unproved as reason:
        raise Refused(str(reason)) from None


def judge(graph: fx.GraphModule, example: torch.Tensor) -> Verdict:
    """Whether the inspector proves a graph as it stands, for batches like the example."""
    try:
        torch_graph.check_rules(graph.graph)
        seen = watched(graph, example, torch_graph.constants(graph.graph))
        torch_graph.Walk(graph.graph, seen, len(example)).check_output(torch_graph.output(graph.graph))
    except Unproved as reason:
        return Verdict(graph, False, str(reason), isinstance(reason, Contradiction))
    except (RuntimeError, IndexError) as error:
        if isinstance(error, IndexError) and not out_of_range(error):
            raise
        return Verdict(graph, False, "the graph could not be watched")
    return Verdict(graph, True, "")


def ruled(graph: fx.GraphModule) -> fx.GraphModule | None:
    """The graph up to the first call that ends every proof: it has no rule, or writes where it may not. None if nothing
    stays.
    """
    nodes: list[fx.Node] = []
    for node in graph.graph.nodes:
        if node.op == "output" or not _has_rule(node):
            break
        nodes.append(node)
    while any(node.op == "call_function" for node in nodes):
        part = copied(graph, nodes, nodes[-1])
        if _writes_well(part.graph):
            return part
        last = max(place for place, node in enumerate(nodes) if _writes(node))
        nodes = nodes[:last]
    return None


def _writes(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _writes_well(graph: fx.Graph) -> bool:
    try:
        torch_graph.overwritten(graph, torch_graph.constants(graph))
    except Unproved:
        return False
    return True


def _has_rule(node: fx.Node) -> bool:
    try:
        rule = torch_graph._rule(node) if node.op == "call_function" else None
        if rule is not None:
            torch_graph._check_arguments(node, rule)
    except Unproved:
        return False
    return True


def claims(graph: fx.GraphModule, example: torch.Tensor) -> Claims:
    """What is claimed of every value of a graph, all of whose calls have rules and write where they may."""
    constant = torch_graph.constants(graph.graph)
    walk = torch_graph.Walk(graph.graph, watched(graph, example, constant), len(example))
    known = {node: found for node, found in walk.found.items() if not isinstance(found, Unproved)}
    values = {node: found for node, found in known.items() if isinstance(found, Value)}
    numbers = {node: found for node, found in known.items() if isinstance(found, int | float)}
    broken = [str(found) for found in walk.found.values() if isinstance(found, Contradiction)]
    return Claims(values, numbers, {node for node in constant if node in known}, broken)
