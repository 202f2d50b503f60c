"""A second judge: what is never proved, by the words of docs/independence.md and not by the inspector's table.

Some faults cannot be seen in a run: a random layer nobody reads, a cast whose result happens to be right. So the calls
themselves are looked at, with the tensors that one run gave. A proof of a graph with a fault is a finding.
"""

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx
from torch_oracle import values_of

#: What rows are made of. Other types are in no rule.
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
#: Calls that turn numbers into those of another type.
CASTS = {"to", "_to_copy", "type_as", "sum", "prod", "cumsum"}
#: Calls that take a shape or a type from an operand, and none of its entries.
WITHOUT_ENTRIES = {"sym_size", "new_zeros", "new_ones", "new_full"}
ONLY_THE_FIRST = {"expand_as", "view_as", "reshape_as", "type_as"}
#: What draws at random if an argument says so.
RANDOM = {"dropout": "train", "dropout_": "train", "feature_dropout": "train"}
RANDOM["scaled_dot_product_attention"] = "dropout_p"
PYTHON = (operator.getitem, operator.mul, operator.add, operator.sub, operator.floordiv)


def fault(graph: fx.GraphModule, x: Tensor) -> str | None:
    """Why the graph must not be proved; None if there is no such reason."""
    values = values_of(graph, x)
    (last,) = graph.graph.find_nodes(op="output")
    return next(_faults(graph.graph, values, last.args[0]), None)


def _faults(graph: fx.Graph, values: dict[fx.Node, Any], output: Any) -> Iterator[str]:
    if not isinstance(output, fx.Node) or not isinstance(values[output], Tensor):
        yield "no tensor comes out"
        return
    rows = _of_rows(graph)
    kept = {_place(values[node]) for node in graph.nodes if node.op in ("placeholder", "get_attr")} - {None}
    for node in graph.nodes:
        if node.op == "call_function":
            yield from _anywhere(node, values, rows, kept)
    for node in _read_for(output):
        if node in rows and node.op == "call_function":
            yield from _on_the_way(node, values, rows)


def _anywhere(node: fx.Node, values: dict[fx.Node, Any], rows: set[fx.Node], kept: set[int | None]) -> Iterator[str]:
    """Faults of a call that nobody need read."""
    if node.target not in PYTHON and not str(node.target).startswith("aten."):
        yield f"{node}: no operator of torch"
        return
    name = _name(node)
    if name in RANDOM and argument(node, RANDOM[name]):
        yield f"{node}: it draws at random"
    if name in ("batch_norm", "instance_norm"):
        has_statistics = any(argument(node, one) is not None for one in ("running_mean", "running_var"))
        if has_statistics and (name == "instance_norm" or argument(node, "training")):
            yield f"{node}: it may write over its statistics"
    for value in _tensors(values[node]):
        if value.layout != torch.strided or value.dtype not in (*FLOATS, *INTEGERS, torch.bool):
            yield f"{node}: its numbers are of type {value.dtype}"
    if node.target not in PYTHON and node.target._schema.is_mutable:  # type: ignore[union-attr]
        written = values[node.args[0]]  # type: ignore[index]
        if _place(written) in kept:
            yield f"{node}: it writes into the input or a weight"
        if (
            node in rows
            and written.numel()
            and any(step == 0 and size > 1 for step, size in zip(written.stride(), written.shape, strict=True))
        ):
            yield f"{node}: it writes where rows lie on each other"


def _on_the_way(node: fx.Node, values: dict[fx.Node, Any], rows: set[fx.Node]) -> Iterator[str]:
    """Faults of what the output is computed from."""
    if _name(node) == "batch_norm" and argument(node, "training"):
        yield f"{node}: it normalises by the batch"
    if any(value.numel() == 0 for value in _tensors(values[node])):
        yield f"{node}: it has no entries"
    given = [one for each in _read(node) if each in rows for one in _tensors(values[each])]
    rounds = any(one.dtype in FLOATS for one in given) and any(one.dtype in INTEGERS for one in _tensors(values[node]))
    if _name(node) in CASTS and rounds:
        yield f"{node}: it casts floats to integers"


def _of_rows(graph: fx.Graph) -> set[fx.Node]:
    """The nodes whose entries are computed from the input's."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op == "placeholder" or any(each in found for each in _read(node)):
            found.add(node)
    return found


def _read_for(output: fx.Node) -> set[fx.Node]:
    """The nodes whose entries the output is computed from."""
    found, left = {output}, [output]
    while left:
        fresh = [each for each in _read(left.pop()) if each not in found]
        found.update(fresh)
        left += fresh
    return found


def _read(node: fx.Node) -> list[fx.Node]:
    name = _name(node)
    if name in WITHOUT_ENTRIES:
        return []
    return node.all_input_nodes[:1] if name in ONLY_THE_FIRST else node.all_input_nodes


def argument(node: fx.Node, name: str) -> Any:
    """An argument of a call, by name."""
    names = [one.name for one in node.target._schema.arguments]  # type: ignore[union-attr]
    place = names.index(name)
    default = node.target._schema.arguments[place].default_value  # type: ignore[union-attr]
    return node.args[place] if place < len(node.args) else node.kwargs.get(name, default)


def _name(node: fx.Node) -> str:
    parts = str(node.target).split(".")
    return parts[1] if parts[0] == "aten" else parts[0]


def _tensors(value: Any) -> list[Tensor]:
    several = value if isinstance(value, list | tuple) else [value]
    return [one for one in several if isinstance(one, Tensor)]


def _place(value: Any) -> int | None:
    """Where a tensor's memory begins; None of one that has none."""
    plain = isinstance(value, Tensor) and value.layout == torch.strided
    return (value.untyped_storage().data_ptr() or None) if plain else None
