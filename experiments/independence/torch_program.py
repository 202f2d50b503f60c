"""Random torch modules as data: a list of steps, each of which calls one operator on the values before it."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn


@dataclass(frozen=True)
class Ref:
    """The value of a step, by its number; 0 is the input."""

    number: int

    def __str__(self) -> str:
        return f"v{self.number}" if self.number else "x"


@dataclass(frozen=True)
class Const:
    """A weight of the program, by its number."""

    number: int

    def __str__(self) -> str:
        return f"w{self.number}"


#: What a module may make of the batch size.
SIZES: dict[str, Callable[[Any], Any]] = {
    "B": lambda size: size,
    "2*B": lambda size: 2 * size,
    "3*B": lambda size: 3 * size,
    "4*B": lambda size: 4 * size,
    "8*B": lambda size: 8 * size,
    "B*B": lambda size: size * size,
    "B+1": lambda size: size + 1,
    "B-1": lambda size: size - 1,
    "B//2": lambda size: size // 2,
    "-B": lambda size: -size,
}


@dataclass(frozen=True)
class Sym:
    """A number that is computed from the batch size."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Step:
    """One call. Of several results the one with number `pick` is the value."""

    target: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    pick: int | None = None

    def __str__(self) -> str:
        named = [f"{name}={shown(value)}" for name, value in self.kwargs.items()]
        call = f"{self.target}({', '.join([*map(shown, self.args), *named])})"
        return call if self.pick is None else f"{call}[{self.pick}]"


@dataclass(frozen=True)
class Weight:
    """A tensor that the module brings; `kind` is parameter, buffer or constant (an attribute that is neither)."""

    kind: str
    tensor: Tensor


@dataclass
class Program:
    steps: list[Step] = field(default_factory=list)
    weights: list[Weight] = field(default_factory=list)
    output: int = 0
    goal: str = ""
    """The operator that it is drawn around."""

    def __str__(self) -> str:
        lines = [f"w{n}: {w.kind} {list(w.tensor.shape)} {w.tensor.dtype}" for n, w in enumerate(self.weights)]
        lines += [f"v{number} = {step}" for number, step in enumerate(self.steps, 1)]
        return "\n".join([*lines, f"return v{self.output}"])


def shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    return repr(value) if isinstance(value, str) else str(value)


def filled(value: Any, fill: Callable[[Any], Any]) -> Any:
    """An argument with its references replaced."""
    if isinstance(value, list | tuple):
        return [filled(one, fill) for one in value]
    return fill(value) if isinstance(value, Ref | Const | Sym) else value


def resolved(target: str, outside: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    """What a step calls: an ATen operator or a Python function."""
    if not target.startswith("aten."):
        return outside[target]
    _, name, overload = target.split(".")
    return getattr(getattr(torch.ops.aten, name), overload)  # type: ignore[no-any-return]


def performed(step: Step, fill: Callable[[Any], Any], outside: dict[str, Callable[..., Any]]) -> Any:
    """The value of a step."""
    args = [filled(one, fill) for one in step.args]
    kwargs = {name: filled(one, fill) for name, one in step.kwargs.items()}
    result = resolved(step.target, outside)(*args, **kwargs)
    return result if step.pick is None else result[step.pick]


class Module(nn.Module):
    """The program as a module, for torch.export and for eager runs."""

    def __init__(self, program: Program, outside: dict[str, Callable[..., Any]]) -> None:
        super().__init__()
        self.program, self.outside = program, outside
        for number, weight in enumerate(program.weights):
            tensor = weight.tensor.clone()
            if weight.kind == "parameter" and tensor.is_floating_point():
                self.register_parameter(f"w{number}", nn.Parameter(tensor, requires_grad=False))
            elif weight.kind == "constant":
                setattr(self, f"w{number}", tensor)
            else:
                self.register_buffer(f"w{number}", tensor)

    def forward(self, x: Tensor) -> Tensor:
        values: list[Any] = [x]

        def fill(one: Any) -> Any:
            if isinstance(one, Ref):
                return values[one.number]
            return SIZES[one.text](x.shape[0]) if isinstance(one, Sym) else getattr(self, f"w{one.number}")

        for step in self.program.steps:
            values.append(performed(step, fill, self.outside))
        return values[self.program.output]


Functions = dict[str, Callable[..., Any]]


def built(program: Program, shape: tuple[int, ...], batch: int, outside: Functions) -> fx.GraphModule:
    """The program as a plain graph for one batch size, without torch.export: each step is one node.

    As after an export, each node carries what is known of its result: here, the shape of a real run.
    """
    root, graph = nn.Module(), fx.Graph()
    nodes, values = [graph.placeholder("x")], [torch.ones(batch, *shape)]
    nodes[0].meta["val"] = shape_of(values[0])
    weights = []
    for number, weight in enumerate(program.weights):
        root.register_buffer(f"w{number}", weight.tensor.clone())
        weights.append(graph.get_attr(f"w{number}"))
        weights[-1].meta["val"] = shape_of(weight.tensor)
    scratch = [weight.tensor.clone() for weight in program.weights]

    def real(one: Any) -> Any:
        if isinstance(one, Ref):
            return values[one.number]
        return SIZES[one.text](batch) if isinstance(one, Sym) else scratch[one.number]

    def symbolic(one: Any) -> Any:
        if isinstance(one, Ref):
            return nodes[one.number]
        return SIZES[one.text](batch) if isinstance(one, Sym) else weights[one.number]

    for step in program.steps:
        args = tuple(filled(one, symbolic) for one in step.args)
        kwargs = {name: filled(one, symbolic) for name, one in step.kwargs.items()}
        node = graph.call_function(resolved(step.target, outside), args, kwargs)
        result = performed(Step(step.target, step.args, step.kwargs), real, outside)
        node.meta["val"] = shape_of(result)
        if step.pick is not None:
            node, result = graph.call_function(operator.getitem, (node, step.pick)), result[step.pick]
            node.meta["val"] = shape_of(result)
        nodes.append(node)
        values.append(result)
    graph.output(nodes[program.output])
    return fx.GraphModule(root, graph)


def shape_of(result: Any) -> Any:
    """Tensors without memory, of the same shapes and types."""
    if isinstance(result, Tensor):
        return torch.empty(result.shape, dtype=result.dtype, device="meta")
    return [shape_of(one) for one in result] if isinstance(result, list | tuple) else result
