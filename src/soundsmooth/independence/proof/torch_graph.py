"""torch graphs: what is known of every value, at one batch size.

The walk is an induction over the nodes in their order. Shapes, numbers and the entries of constants are those that
torch was seen to compute (`torch_seen`). A call without a rule ends the proof wherever it stands.
"""

import operator
from typing import TYPE_CHECKING, Any

from ...core.errors import first_line
from .torch_call import Call
from .torch_memory import AliasSets
from .torch_rules import AtenRule, by_operator
from .torch_seen import FLOATS, INTEGERS, Seen, Sight, named
from .values import UNDEFINED, Shape, Unproved, Value

if TYPE_CHECKING:
    from torch import fx

#: A tensor, a number, several of them, or why nothing is known.
Found = Any

#: Python's arithmetic on sizes, and the choice of one of several results.
SIZES = frozenset({operator.getitem, operator.mul, operator.add, operator.sub, operator.floordiv})


def check_rules(graph: "fx.Graph") -> None:
    """Unproved unless every call has a rule, and none does more than compute.

    What is run afterwards leaves the module's parameters as they are.
    """
    for node in graph.nodes:
        rule = _rule(node) if node.op == "call_function" else None
        if rule is not None:
            _check_arguments(node, rule)
    overwritten(graph, constants(graph))


def _check_arguments(node: "fx.Node", rule: AtenRule) -> None:
    """Unproved if a call does more than compute its result, whether or not anybody reads that."""
    defaults = {one.name: one.default_value for one in node.target._schema.arguments}  # type: ignore[union-attr]
    found = defaults | _given(node, rule)
    if rule.only and not any(all(_is(found[name], one) for name, one in wanted.items()) for wanted in rule.only):
        ways = (", ".join(f"{name} {one}" for name, one in wanted.items()) for wanted in rule.only)
        raise Unproved(f"{node.target} {node.name!r}: the rule is for {' or for '.join(ways)}")


def _is(found: object, wanted: object) -> bool:
    """The same value, of the same type: 1 is not True."""
    return found is wanted or (type(found) is type(wanted) and found == wanted)


def output(graph: "fx.Graph") -> "fx.Node | None":
    """The node that votes."""
    from torch import fx

    last = next(node for node in graph.nodes if node.op == "output").args[0]
    return last if isinstance(last, fx.Node) else None


def constants(graph: "fx.Graph") -> "set[fx.Node]":
    """The nodes whose values are the same in every run at one batch size."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op == "get_attr" or (node.op == "call_function" and all(i in found for i in _entries_of(node))):
            found.add(node)
    return found


def _entries_of(node: "fx.Node") -> "list[fx.Node]":
    """The nodes whose entries, and not only whose shape or type, go into a call."""
    rule = _rule(node)
    if rule is None:
        return [] if str(node.target) == "aten.sym_size.int" else node.all_input_nodes
    return _nodes([value for name, value in _given(node, rule).items() if name != rule.lends])


def _nodes(value: Any) -> "list[fx.Node]":
    """All nodes in an argument, or in several."""
    from torch.fx.node import map_arg

    found: list[fx.Node] = []
    map_arg(value, found.append)
    return found


def _given(node: "fx.Node", rule: AtenRule) -> dict[str, Any]:
    return dict(zip(rule.arguments, node.args, strict=False)) | dict(node.kwargs)


def overwritten(graph: "fx.Graph", fixed: "set[fx.Node]") -> "dict[fx.Node, list[fx.Node]]":
    """For each call that writes into memory of constants, the nodes that share it. Unproved if a call writes elsewhere
    than into what is seen through its result alone.
    """
    memory = AliasSets(graph.nodes)
    found: dict[fx.Node, list[fx.Node]] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            memory.own(node, fixed=node.op != "output")
            continue
        rule = _rule(node)
        target = None if rule is None else _written(node, rule)
        if rule is None:
            memory.share(node, node.all_input_nodes if node.target is operator.getitem else [])  # else a number
        elif target is None:
            memory.own(node) if rule.fresh else memory.share(node, node.all_input_nodes, rule.overlaps)
        elif fixed.issuperset([*memory.sharers(target), *node.all_input_nodes]) and _made_here(memory.sharers(target)):
            found[node] = memory.sharers(target)
            memory.share(node, [target])
        else:
            try:
                memory.write(node, target, [other for other in node.all_input_nodes if other is not target])
            except Unproved as reason:
                raise Unproved(f"{node.target} {node.name!r}: {reason}") from None
    return found


def _written(node: "fx.Node", rule: AtenRule) -> "fx.Node | None":
    """The operand that a call writes into, by its schema: the first. No operator with a rule writes elsewhere."""
    if not node.target._schema.is_mutable:  # type: ignore[union-attr]
        return None
    target: fx.Node = _given(node, rule)[rule.arguments[0]]
    return target


def _made_here(nodes: "list[fx.Node]") -> bool:
    """Neither an input nor a parameter is among the nodes: writing there would be state."""
    return all(node.op == "call_function" for node in nodes)


class Walk:
    """What is known of every node of a graph, given what was seen at a batch size."""

    def __init__(self, graph: "fx.Graph", seen: Seen, batch: int) -> None:
        self._seen, self._batch = seen, batch
        self._constants = constants(graph)
        self._overwritten = overwritten(graph, self._constants)
        self.found: dict[fx.Node, Found] = {}
        for node in graph.nodes:
            if node.op == "call_function":
                self.found[node] = self._outcome(node)
            elif node.op != "output":
                self.found[node] = Value(seen[node.name].shape, 0 if node.op == "placeholder" else None)

    def check_output(self, node: "fx.Node | None") -> None:
        """The output votes: its rows must be the batch's rows, in their order."""
        value = None if node is None else self.found[node]
        if isinstance(value, Unproved):
            raise value
        if not isinstance(value, Value) or value.axis != 0 or value.shape[0] != self._batch:
            raise Unproved(f"the output is [{value}], not one row for each row of the input")

    def _outcome(self, node: "fx.Node") -> Found:
        """What is known of a call's result."""
        rule = _rule(node)
        for each in self._overwritten.get(node, ()):  # it is still a constant, but no longer these entries
            self.found[each] = _without_entries(self.found[each])
        operands = [self.found[each] for each in _entries_of(node)]
        broken = next((one for one in operands if isinstance(one, Unproved)), None)
        if broken is not None:
            return broken
        try:
            if node in self._constants:
                return _constant(self._seen[node.name])
            if rule is None:
                return self._known(node.args[0])[node.args[1]]  # one of several results
            if self._batch == 1:  # with one row there is nothing to mix
                return _rows(self._seen[node.name])
            result = rule.flow(self._call(node, rule))
            if not rule.indices and self._rounds_rows(node):
                raise Unproved(UNDEFINED)
        except Unproved as reason:
            return type(reason)(f"{node.target} {node.name!r}: {reason}")
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError, AttributeError) as error:
            return Unproved(f"{node.target} {node.name!r}: it is not understood ({first_line(error)})")
        return tuple(result) if isinstance(result, list) else result

    def _call(self, node: "fx.Node", rule: AtenRule) -> Call:
        """The call with all its arguments by name, defaults put in."""
        schema = node.target._schema.arguments  # type: ignore[union-attr]
        given = _given(node, rule)
        arguments = {
            one.name: self._known(given[one.name]) if one.name in given else one.default_value
            for one in schema
            if one.name != rule.lends
        }
        shapes = _shapes(self._seen[node.name])
        if any(0 in shape for shape in shapes):
            raise Unproved("a tensor has no entries")
        return Call(shapes, self._batch, str(node.target), arguments)

    def _known(self, value: Any) -> Any:
        """An argument with what is known in the place of nodes."""
        from torch.fx.node import map_arg

        return map_arg(value, self.found.__getitem__)

    def _rounds_rows(self, node: "fx.Node") -> bool:
        """Whether floats made of rows become integers. Out of range that is undefined, and not the same everywhere."""
        known = [each for each in _entries_of(node) if isinstance(self.found[each], Value)]
        rows = [self._seen[each.name].type for each in known if self.found[each].axis is not None]
        results = [one.type for _, one in named("", self._seen[node.name])]
        return not FLOATS.isdisjoint(rows) and not INTEGERS.isdisjoint(results)


def _constant(seen: Any) -> Found:
    if isinstance(seen, tuple):
        return tuple(map(_constant, seen))
    return Value(seen.shape, entries=seen.entries) if isinstance(seen, Sight) else seen


def _rows(seen: Any) -> Found:
    if isinstance(seen, tuple):
        return tuple(map(_rows, seen))
    return Value(seen.shape, 0 if seen.shape else None)


def _without_entries(found: Found) -> Found:
    if isinstance(found, tuple):
        return tuple(map(_without_entries, found))
    return Value(found.shape, found.axis, found.outer) if isinstance(found, Value) else found


def _shapes(seen: Any) -> list[Shape]:
    return [one.shape for one in (seen if isinstance(seen, tuple) else (seen,))]


def _rule(node: "fx.Node") -> AtenRule | None:
    """The rule for a call; None for arithmetic on sizes. Others end the proof, wherever they stand."""
    if node.target in SIZES or str(node.target) == "aten.sym_size.int":
        return None
    rule = by_operator().get(node.target)
    if rule is None:
        raise Unproved(f"{node.target} {node.name!r}: there is no rule for this operator")
    return rule
