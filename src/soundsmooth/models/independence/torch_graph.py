"""torch modules: exported to a graph that is inspected and then run in the module's place.

torch.export turns a module into a graph of ATen operators. We take from it the operators and the tensors, and nothing
else: no guards, no hooks, no Python of the module. The graph module that is returned runs this graph, line for line.
"""

import copy
import logging
import operator
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any, TypeGuard

from ..protocol import first_line
from .extents import BATCH, ONE, Extent
from .flow import data
from .report import Report, not_proved, proved
from .torch_call import Call, Shape
from .torch_memory import Memory
from .torch_rules import RULES, AtenRule
from .values import UNDEFINED, Unproved, Value

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.export import ExportedProgram

Found = Value | Extent | tuple[Any, ...] | Unproved

#: Calls that compute nothing: they assert what was true when the graph was made.
ASSERTIONS = frozenset({"aten._assert_tensor_metadata.default", "aten._assert_scalar.default"})
#: What torch.export may hang before a graph's inputs and after its outputs without any effect on the way.
INPUTS = frozenset({"PARAMETER", "BUFFER", "CONSTANT_TENSOR"})
#: Calls that take floats and give integers which are not made from them by rounding: indices, and what is filled.
NO_CASTS = frozenset(
    [
        "argmax.default",
        "argmin.default",
        "max.dim",
        "min.dim",
        "topk.default",
        "sort.default",
        "new_zeros.default",
        "new_ones.default",
        "new_full.default",
        "expand_as.default",
    ]
)


def export_and_inspect(module: "torch.nn.Module", example: "torch.Tensor") -> "tuple[torch.nn.Module, Report]":
    """The module as a plain graph for any batch size (or that of the example), and what is proved of that graph.

    Run what is returned, and if the report names a batch size, with batches of that size alone: the report is about
    that. The graph shares its parameters' memory with `module`. If torch cannot export the module, or if nothing is
    proved, `module` itself is returned.

    Guarantee: see `Report`.
    """
    try:
        program, batch = _export(_on_cpu(module), example.cpu())
    except Exception as error:  # it is their code: anything can happen
        return module, not_proved(f"torch.export cannot turn the module into a graph: {first_line(error)}")
    operators = Counter(str(node.target) for node in program.graph.nodes if node.op == "call_function")
    try:
        graph = _plain(program, _tensors(program, module, example.device), example.device)
        _inspect(graph.graph, batch)
    except Unproved as reason:
        return module, not_proved(str(reason), batch, operators)
    return graph, proved(batch, operators)


def _on_cpu(module: "torch.nn.Module") -> "torch.nn.Module":
    """The module where a graph depends on nothing but the module: for a GPU torch compares sizes to choose kernels
    (batch normalisation asks whether cuDNN can), and would export a graph for these sizes alone.
    """
    tensors = [*module.parameters(), *module.buffers()]
    return module if all(tensor.device.type == "cpu" for tensor in tensors) else copy.deepcopy(module).cpu()


def _tensors(program: "ExportedProgram", module: "torch.nn.Module", home: "torch.device") -> "dict[str, torch.Tensor]":
    """What the graph reads, by name: the module's own parameters and buffers, and copies of constants.

    A constant may be anybody's tensor. The copy is the graph's alone: nobody else can write to it.
    """
    own = dict(module.named_parameters(remove_duplicate=False))
    own |= dict(module.named_buffers(remove_duplicate=False))  # type: ignore[arg-type]
    exported = {**program.state_dict, **program.constants}
    tensors: dict[str, torch.Tensor] = {}
    for spec in program.graph_signature.input_specs:
        name = str(spec.target)
        if spec.kind.name in INPUTS and name in exported and _is_plain(exported[name], name):
            constant = spec.kind.name == "CONSTANT_TENSOR"
            tensors[name] = _copied(exported[name], home) if constant else _same(name, own.get(name), exported[name])
    return tensors


def _copied(tensor: "torch.Tensor", home: "torch.device") -> "torch.Tensor":
    return tensor.detach().clone().to(home)


def _same(name: str, own: "torch.Tensor | None", exported: "torch.Tensor") -> "torch.Tensor":
    """The module's tensor of that name, if it is like the exported one: the proof is about these shapes."""
    if not _is_plain(own, name) or (own.shape, own.dtype) != (exported.shape, exported.dtype):
        raise Unproved(f"the graph reads {name!r}, which the module itself does not have, or in another shape")
    return own


def _is_plain(tensor: object, name: str) -> "TypeGuard[torch.Tensor]":
    """Whether it is a tensor. One that brings code of its own (a subclass) would run that, and not the graph."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        return False
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
        raise Unproved(f"{name!r} is no plain tensor, but a {type(tensor).__name__}")
    return True


def _export(module: "torch.nn.Module", example: "torch.Tensor") -> "tuple[ExportedProgram, int | None]":
    """With a symbol for the batch size if the module allows it, else for the size of the example."""
    import torch
    from torch.export import Dim, export

    two = example[:1].repeat(2, *[1] * (example.dim() - 1))  # one row would be taken for a constant
    with _silence(), torch.enable_grad():  # without gradients torch takes short cuts through fused operators
        try:
            return export(module, (two,), dynamic_shapes=({0: Dim("batch")},), strict=False), None
        except Exception:
            return export(module, (example,), strict=False), len(example)


@contextmanager
def _silence() -> Iterator[None]:
    """torch.export talks to itself: in the log, and if it fails also on the terminal, where it prints whole graphs."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            yield
    finally:
        logging.disable(before)


def _plain(program: "ExportedProgram", tensors: "dict[str, torch.Tensor]", home: "torch.device") -> "fx.GraphModule":
    """A graph module with one input, the exported operators on the device `home`, and tensors; nothing else."""
    import torch
    from torch import fx

    signature = program.graph_signature
    if [spec.kind.name for spec in signature.output_specs] != ["USER_OUTPUT"]:
        kinds = ", ".join(sorted({spec.kind.name for spec in signature.output_specs} - {"USER_OUTPUT"}))
        raise Unproved(f"the module keeps state, writes to its input or has several outputs ({kinds or 'outputs'})")
    specs = {spec.arg.name: spec for spec in signature.input_specs}

    def at_home(argument: Any) -> Any:
        return home if isinstance(argument, torch.device) else argument

    root, graph, copies = torch.nn.Module(), fx.Graph(), {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            spec = specs[node.name]
            if spec.kind.name == "USER_INPUT":
                copies[node] = graph.placeholder(node.name)
            elif spec.kind.name in INPUTS and spec.target in tensors:
                root.register_buffer(node.name, tensors[spec.target].detach())
                copies[node] = graph.get_attr(node.name)
            else:
                raise Unproved(f"the module has an input that is no tensor: {node.name}")
            copies[node].meta = dict(node.meta)
        elif node.op == "output":
            graph.output(copies[node.args[0][0]] if isinstance(node.args[0][0], fx.Node) else None)
        elif node.op != "call_function":
            raise Unproved(f"the module has parts that are no operators: {node.op} {node.target}")
        elif str(node.target) not in ASSERTIONS or node.users:
            copies[node] = graph.node_copy(node, lambda argument: copies[argument])
            copies[node].args = fx.node.map_aggregate(copies[node].args, at_home)
            copies[node].kwargs = fx.node.map_aggregate(copies[node].kwargs, at_home)
    return fx.GraphModule(root, graph)


def _inspect(graph: "fx.Graph", batch: int | None) -> None:
    """The induction over the nodes, in their order; Unproved unless the output is made of the batch's rows."""
    images = [node for node in graph.nodes if node.op == "placeholder"]
    if len(images) != 1:
        raise Unproved(f"the module has {len(images)} inputs, not one")
    symbols = _Symbols(images[0])
    memory = Memory(graph.nodes)
    found: dict[fx.Node, Found] = {}
    for node in graph.nodes:
        if node.op == "output":
            _check_output(found[node.args[0]] if node.args[0] is not None else Unproved("there is no output"))
        elif node.op == "call_function":
            found[node] = _outcome(node, found, symbols, memory, batch)
        else:
            shape = symbols.shape(node.meta["val"])
            rows = node.op == "placeholder"
            found[node] = Value((BATCH, *shape[1:]) if rows else shape, 0 if rows else None)
            memory.own(node, fixed=True)


class _Symbols:
    """From torch's symbolic sizes to extents. The only symbol is the batch size."""

    def __init__(self, image: "fx.Node") -> None:
        size = image.meta["val"].shape[0]
        self._batch = None if isinstance(size, int) else size.node.expr

    def extent(self, size: Any) -> Extent:
        if isinstance(size, int):
            return Extent(size)
        expression = size.node.expr
        count, factors = expression.as_coeff_mul()
        if not count.is_Integer or any(factor != self._batch for factor in factors):
            raise Unproved(f"a size is {expression}, not a multiple of the batch size")
        return Extent(int(count), ("batch",) * len(factors))

    def shape(self, tensor: Any) -> Shape:
        return tuple(self.extent(size) for size in tensor.shape)

    def shapes(self, result: Any) -> list[Shape]:
        return [self.shape(one) for one in (result if isinstance(result, list | tuple) else [result])]


def _outcome(
    node: "fx.Node", found: dict["fx.Node", Found], symbols: _Symbols, memory: Memory, batch: int | None
) -> Found:
    """What is known of a call's result."""
    rule = _rule(node)
    _remember(node, rule, memory, found)
    broken = next((one for one in (found[i] for i in node.all_input_nodes) if isinstance(one, Unproved)), None)
    if broken is not None:
        return broken
    try:
        if rule is None:
            return _sizes(node, found, symbols)
        arguments = _arguments(node, rule, found)
        call = Call(str(node.target), arguments, symbols.shapes(node.meta["val"]), batch)
        result = rule.flow(call)
        if _rounds_rows(node, found):
            raise Unproved(UNDEFINED)
    except Unproved as reason:
        return Unproved(f"{node.target} {node.name!r}: {reason}")
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        return Unproved(f"{node.target} {node.name!r}: it is not understood ({first_line(error)})")
    return tuple(result) if isinstance(result, list) else result


def _rule(node: "fx.Node") -> AtenRule | None:
    """The rule for a call; None for arithmetic on sizes. Others end the proof, wherever they stand."""
    import torch

    if node.target in SIZES or str(node.target) == "aten.sym_size.int":
        return None
    name = str(node.target).removeprefix("aten.")
    if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten" or name not in RULES:
        raise Unproved(f"{node.target} {node.name!r}: there is no rule for this operator")
    rule = RULES[name]
    if tuple(argument.name for argument in node.target._schema.arguments) != rule.arguments:
        raise Unproved(f"{node.target} {node.name!r}: this version of torch has other arguments than the rule knows")
    return rule


def _remember(node: "fx.Node", rule: AtenRule | None, memory: Memory, found: dict["fx.Node", Found]) -> None:
    """Which memory a result lies in. A call that writes where it may not ends the proof: others would see it."""
    import torch
    from torch import fx

    inputs = node.all_input_nodes
    if node.target is operator.getitem:
        memory.share(node, inputs)
        return
    if rule is None or not isinstance(node.target, torch._ops.OpOverload):
        memory.own(node)  # a number
        return
    written = [argument.name for argument in node.target._schema.arguments if _is_written(argument)]
    if not written:
        memory.own(node) if rule.fresh else memory.share(node, inputs, rule.overlaps)
        return
    target = node.args[0] if node.args else None
    try:
        if written != [rule.arguments[0]] or not isinstance(target, fx.Node):
            raise Unproved("it writes into more than its first operand")
        if _all_constant([*memory.sharers(target), *inputs], found) and not _is_fixed(memory.sharers(target)):
            memory.share(node, [target])  # whoever sees it sees the same in every run
            return
        memory.write(node, target, [other for other in inputs if other is not target])
    except Unproved as reason:
        raise Unproved(f"{node.target} {node.name!r}: {reason}") from None


def _all_constant(nodes: "list[fx.Node]", found: dict["fx.Node", Found]) -> bool:
    """None of the nodes depends on the batch."""
    values = [found[node] for node in nodes]
    return all(isinstance(value, Value) and value.axis is None for value in values)


def _is_fixed(nodes: "list[fx.Node]") -> bool:
    """An input or a parameter is among the nodes: writing there would be state."""
    return any(node.op != "call_function" for node in nodes)


def _rounds_rows(node: "fx.Node", found: dict["fx.Node", Found]) -> bool:
    """Whether floats made of rows become integers. Out of range that is undefined, and not the same everywhere."""
    if str(node.target).removeprefix("aten.") in NO_CASTS:
        return False
    results = node.meta["val"] if isinstance(node.meta["val"], list | tuple) else [node.meta["val"]]
    rows = [each for each in node.all_input_nodes if isinstance(value := found[each], Value) and value.axis is not None]
    return any(each.meta["val"].is_floating_point() for each in rows) and any(
        not result.is_floating_point() and str(result.dtype) != "torch.bool" for result in results
    )


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _is_node(value: object) -> bool:
    from torch import fx

    return isinstance(value, fx.Node)


def _arguments(node: "fx.Node", rule: AtenRule, found: dict["fx.Node", Found]) -> dict[str, Any]:
    """All arguments by name, defaults put in; no batch size among them except in sizes."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    given = dict(zip(rule.arguments, node.args, strict=False)) | dict(node.kwargs)
    arguments = {one.name: _seen(given[one.name], found) if one.name in given else one.default_value for one in schema}
    for name, value in arguments.items():
        if name not in rule.sizes and _has_batch(value):
            raise Unproved(f"the batch size reaches the data, as {name}")
    return arguments


def _has_batch(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_batch, value))
    return isinstance(value, Extent) and value.of_batch


def _seen(value: Any, found: dict["fx.Node", Found]) -> Any:
    """An argument with what is known in the place of nodes."""
    if isinstance(value, list | tuple):
        return [_seen(one, found) for one in value]
    if not _is_node(value):
        return value
    seen = found[value]
    return data(seen) if isinstance(seen, Value) else seen


def _sizes(node: "fx.Node", found: dict["fx.Node", Found], symbols: _Symbols) -> Found:
    """Sizes of axes, arithmetic on them, and one of several results."""
    if node.target is operator.getitem:
        results, number = found[node.args[0]], node.args[1]  # type: ignore[index]
        if not isinstance(results, tuple) or not isinstance(number, int) or not 0 <= number < len(results):
            raise Unproved("it takes something that is not one of several results")
        if results[number] is None:
            raise Unproved("this result is not covered by the proof")
        return results[number]  # type: ignore[no-any-return]
    return symbols.extent(node.meta["val"])


#: Python's arithmetic on sizes; torch knows the result as an expression in the batch size.
SIZES = frozenset({operator.getitem, operator.mul, operator.add, operator.sub, operator.floordiv})


def _check_output(value: Found) -> None:
    if isinstance(value, Unproved):
        raise value
    if not isinstance(value, Value) or value.axis != 0 or value.outer != ONE or value.shape[0] != BATCH:
        raise Unproved(f"the output is [{value}], not one row for each row of the input")
    data(value)
