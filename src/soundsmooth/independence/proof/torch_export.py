"""torch modules as plain graphs, which are inspected and then run in the module's place.

torch.export turns a module into a graph of ATen operators. We take from it the operators and the tensors, and nothing
else: no guards, no hooks, no Python of the module. The graph module that is returned runs this graph, line for line.
"""

import copy
import logging
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, Any, TypeGuard

from ...core.errors import first_line
from .torch_graph import check_rules, output
from .values import Unproved

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.export import ExportedProgram

#: Calls that compute nothing: they assert what was true when the graph was made.
ASSERTIONS = frozenset({"aten._assert_tensor_metadata.default", "aten._assert_scalar.default"})
#: What torch.export may hang before a graph's inputs and after its outputs without any effect on the way.
INPUTS = frozenset({"PARAMETER", "BUFFER", "CONSTANT_TENSOR"})


@dataclass(frozen=True)
class Exported:
    """A module as a plain graph, or why there is none."""

    graph: "fx.GraphModule | None"
    operators: Mapping[str, int]
    batch: int | None
    """The only batch size that the graph takes, if torch could not export it for any."""
    why_not: str = ""

    @classmethod
    def of(cls, graph: "fx.GraphModule", batch: int | None) -> "Exported":
        """A graph that was made of an exported one."""
        operators = Counter(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return cls(graph, operators, batch)

    @property
    def scores(self) -> "torch.Tensor | None":
        """The graph's output as torch.export inferred it, without numbers; sizes that it left open are no integers."""
        found = output(self.graph.graph) if self.graph is not None else None
        return None if found is None else found.meta.get("val")


def export_module(module: "torch.nn.Module", example: "torch.Tensor") -> Exported:
    """The module as a plain graph for any batch size, or for that of the example.

    The graph shares its parameters' memory with `module`. Run it in the module's place. A ValueError if torch has no
    folder for its files: that says nothing of the module.
    """
    why_not = _why_no_folder()
    if why_not is not None:
        raise ValueError(why_not)
    try:
        program, batch = _export(_on_cpu(module), example.cpu())
    except Exception as error:  # it is their code: anything can happen
        return Exported(None, {}, None, f"torch.export cannot turn the module into a graph: {first_line(error)}")
    operators = Counter(str(node.target) for node in program.graph.nodes if node.op == "call_function")
    try:
        graph = _plain(program, _tensors(program, module, example.device), example.device)
        check_rules(graph.graph)
    except Unproved as reason:
        return Exported(None, operators, batch, str(reason))
    return Exported(graph, operators, batch)


@cache
def _why_no_folder() -> str | None:
    """Why torch cannot make its folder, which it wants when its compiler is first imported; a second import would fail
    for another reason.
    """
    try:
        from torch._dynamo import aot_compile  # noqa: F401
    except OSError as error:
        return f"torch cannot make a folder for its files ({error}): name another one in TORCHINDUCTOR_CACHE_DIR"
    except Exception:  # an older torch has no such part, or it failed before: torch.export says more
        pass
    return None


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
            found, constant = exported[name], spec.kind.name == "CONSTANT_TENSOR"
            tensors[name] = found.detach().clone().to(home) if constant else _same(name, own.get(name), found)
    return tensors


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
    """torch.export talks to itself: in the log, in warnings about its own traces of a module, and if it fails also on
    the terminal, where it prints whole graphs.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()), warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)


def _check_outputs(program: "ExportedProgram") -> None:
    """Unproved, unless the one output is what the module returns."""
    kinds = [spec.kind.name for spec in program.graph_signature.output_specs]
    if kinds != ["USER_OUTPUT"]:
        others = ", ".join(sorted({*kinds} - {"USER_OUTPUT"}))
        raise Unproved(f"the module keeps state, writes to its input or has several outputs ({others or 'outputs'})")


def _plain(program: "ExportedProgram", tensors: "dict[str, torch.Tensor]", home: "torch.device") -> "fx.GraphModule":
    """A graph module with one input, the exported operators on the device `home`, and tensors; nothing else."""
    import torch
    from torch import fx

    _check_outputs(program)
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}

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
