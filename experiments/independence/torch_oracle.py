"""torch itself as the judge: does what was proved of a graph hold when it runs?"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx
from torch_cuts import above

Run = Callable[[Tensor], Tensor]

#: Rows that a batch may hold beside small integers.
STRANGE = (float("nan"), float("inf"), 1e30, 1e-40, -float("inf"))
#: Below this all integers are floats, and sums of them are exact in any order.
EXACT = 1 << 24

#: Operators that make integers of small integers, without rounding.
_NAMES = """
    relu relu6 abs neg floor ceil round sign square logical_not hardtanh clamp clamp_min clamp_max add sub rsub
    mul maximum minimum logical_and logical_or eq ne lt gt le ge masked_fill addcmul where clone lift_fresh_copy
    contiguous detach alias dropout feature_dropout zeros ones full new_zeros new_ones new_full arange
    scalar_tensor linear matmul mm bmm addmm baddbmm conv1d conv2d conv3d einsum zero_ fill_ max_pool1d max_pool2d
    max_pool3d sum prod amax amin argmax argmin max min cumsum topk sort roll flip view _unsafe_view reshape
    flatten unflatten permute transpose swapaxes t numpy_T unsqueeze squeeze expand expand_as repeat cat stack
    split split_with_sizes chunk unbind select slice pad constant_pad_nd embedding index_select index
    pixel_shuffle upsample_nearest1d upsample_nearest2d upsample_nearest3d getitem sym_size
"""
WITHOUT_ROUNDING = frozenset(_NAMES.split())


class Finding(NamedTuple):
    """A way in which a proved graph was seen to depend on more than a row."""

    text: str
    certain: bool
    """False if rounding, which may differ from position to position, could be the cause; or if there is no output."""


def violation(graph: fx.GraphModule, shape: tuple[int, ...], batch: int, seed: int) -> Finding | None:
    """What is wrong with a graph that was proved for a batch size; None if nothing was seen."""
    with torch.no_grad():
        return next(_findings(graph, shape, batch, seed), None)


def _findings(graph: fx.GraphModule, shape: tuple[int, ...], batch: int, seed: int) -> Iterator[Finding]:
    generator = torch.Generator().manual_seed(seed)

    def integers(rows: int) -> Tensor:
        return torch.randint(-3, 4, (rows, *shape), generator=generator).float()

    def run(given: Tensor) -> Tensor:
        return graph(given.clone()).clone()  # type: ignore[no-any-return]

    x = integers(batch)
    try:
        whole = run(x)
    except IndexError:
        yield Finding("a row picks an entry that is not there, and its whole batch fails", False)
        return
    except Exception as error:
        yield Finding(f"it does not run: {str(error).splitlines()[0]}", True)
        return
    if whole.dim() == 0 or len(whole) != batch:
        yield Finding(f"{batch} rows go in, the output has shape {list(whole.shape)}", True)
        return
    yield from _state(graph, x, whole)
    yield from _company(run, x, whole, integers)
    yield from _order(graph, run, x, whole)


def _state(graph: fx.GraphModule, x: Tensor, whole: Tensor) -> Iterator[Finding]:
    """Two more runs change nothing: neither the output, nor the input, nor any weight."""
    before = {name: value.clone() for name, value in graph.state_dict().items()}
    given = x.clone()
    for _ in range(2):
        if not same(graph(given), whole):
            yield Finding("the same batch gives another output", True)
        if not same(given, x):
            yield Finding("the input is written to", True)
    for name, value in graph.state_dict().items():
        if not same(value, before[name]):
            yield Finding(f"the weight {name} is written to", True)


def _company(run: Run, x: Tensor, whole: Tensor, integers: Callable[[int], Tensor]) -> Iterator[Finding]:
    """Each row replaced in turn, and all but one: the bits of the other rows stay."""
    for row in range(len(x)):
        for what in (integers(1)[0], STRANGE[row % len(STRANGE)]):
            other = x.clone()
            other[row] = what
            if not same(without(run(other), row), without(whole, row)):
                yield Finding(f"row {row} is seen by others, as {_named(what)}", True)
    for number, what in enumerate(STRANGE):
        row = number % len(x)
        other = torch.full_like(x, what)
        other[row] = x[row]
        if not same(run(other)[row], whole[row]):
            yield Finding(f"row {row} sees that all others are {what}", True)


def _named(what: Any) -> str:
    return "other integers" if isinstance(what, Tensor) else str(what)


def _order(graph: fx.GraphModule, run: Run, x: Tensor, whole: Tensor) -> Iterator[Finding]:
    for order in (list(reversed(range(len(x)))), [*range(1, len(x)), 0]):
        if not close(run(x[order]), whole[order]):
            yield Finding(f"rows in the order {order} give other rows", _certain(graph, run(x[order]), whole[order], x))


def _certain(graph: fx.GraphModule, one: Tensor, other: Tensor, x: Tensor) -> bool:
    """Rounding cannot be the cause: all is computed in integers that floats hold."""
    (output,) = graph.graph.find_nodes(op="output")
    names = {_name(node) for node in above(output.args[0]) if node.op == "call_function"}
    return names <= WITHOUT_ROUNDING and largest(graph, x) < EXACT


def _name(node: fx.Node) -> str:
    """The operator without its overload, and without the mark of one that writes."""
    name = getattr(node.target, "__name__", str(node.target)).split(".")[0]
    return name if name in ("zero_", "fill_") else name.removesuffix("_")


def largest(graph: fx.GraphModule, x: Tensor) -> float:
    """The largest magnitude among all values; infinite if one is no number."""
    values = [value for value in values_of(graph, x).values() if isinstance(value, Tensor) and value.numel()]
    return max(float(value.double().abs().max().nan_to_num(float("inf"))) for value in values)


def values_of(graph: fx.GraphModule, x: Tensor) -> dict[fx.Node, Any]:
    """Every value of a run."""
    found: dict[fx.Node, Any] = {}

    class Recorder(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            found[n] = super().run_node(n)
            return found[n]

    with torch.no_grad():
        Recorder(graph, garbage_collect_values=False).run(x.clone())
    return found


def without(value: Tensor, row: int) -> Tensor:
    return torch.cat([value[:row], value[row + 1 :]])


def same(one: Tensor, other: Tensor) -> bool:
    """Equal bit for bit, except that any NaN equals any other."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())


def out_of_range(error: Exception) -> bool:
    """The graph does not take this batch: entries were used as indices and were too large, or an axis went with a call
    that was cut off.
    """
    texts = ("out of bounds", "out of range in self", "Dimension out of range")
    return isinstance(error, IndexError) and any(text in str(error) for text in texts)


def close(one: Tensor, other: Tensor) -> bool:
    """Equal up to rounding, if they are floats."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    return torch.allclose(one.double(), other.double(), rtol=1e-3, atol=1e-3, equal_nan=True)
