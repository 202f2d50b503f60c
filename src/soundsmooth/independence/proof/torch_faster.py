"""Graphs with attention, without what torch.export adds to them: masks that let everything through, and copies.

A module may compute a mask only while it is exported, and torch's own attention layer copies queries, keys and values
there. Both cost time and compute nothing. The first layer, which cuts the image into patches, becomes one matrix
product: as a convolution it takes 9 % of a ViT-B/16's time on an H200, for 1 % of the operations.

The graph that is made here is proved and run like any other: nothing rests on its being equal to the one that was
exported, but rounding is all that should differ.
"""

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ...core.arrays import repeated_uniform
from .torch_axes import AxisPart, NotFollowedError, View
from .torch_export import Exported
from .torch_graph import check_rules, constants
from .torch_seen import Seen, watch, watched
from .values import Unproved

if TYPE_CHECKING:
    import torch
    from torch import fx

ATTENTION = "aten.scaled_dot_product_attention.default"
#: Operators that show the same entries in the same order.
RESHAPING = frozenset(
    f"aten.{name}"
    for name in ("view.default", "_unsafe_view.default", "reshape.default", "flatten.using_ints", "unflatten.int")
)
#: Operators that show the same entries at other places. Dropout is one: `check_rules` has seen that it does not train.
SHOWING: dict[str, Callable[..., View]] = {
    "aten.transpose.int": View.exchanged,
    "aten.swapaxes.default": View.exchanged,
    "aten.permute.default": View.permuted,
    "aten.unsqueeze.default": View.inserted,
    "aten.squeeze.dim": View.dropped,
    "aten.select.int": View.selected,
    "aten.dropout.default": lambda view, *_: view,
}
CONVOLUTION, NORMALISATION = "aten.conv2d.default", "aten.batch_norm.default"
#: What a convolution has after its weights, if nothing else is said: bias, stride, padding, dilation, groups.
CONVOLVED = (None, (1, 1), (0, 0), (1, 1), 1)
#: So many channels an image may have.
MOST_COLOURS = 4
#: Operators that copy and compute nothing.
COPYING = frozenset({"aten.contiguous.default", "aten.clone.default"})
#: Stands for the batch size while axes are followed: a prime that divides no other extent.
BATCH = 1_000_003
#: How far scores may be from those of the exported graph, as a share of the largest.
ROUNDING = {"float64": 1e-9, "float32": 1e-3, "float16": 0.1, "bfloat16": 0.2}


def without_detours(made: Exported, example: "torch.Tensor") -> Exported | None:
    """The same graph without masks that let everything through, without needless copies, and with a product for the
    image's patches.

    None if there is no attention or nothing to change, or if the scores come out otherwise.
    """
    if made.graph is None or ATTENTION not in made.operators:
        return None
    try:
        shorter = _without_masks(made.graph, watched(made.graph, example, constants(made.graph.graph)))
        shorter = _without_copies(shorter, example, made.batch)
        check_rules(shorter.graph)
        alike = scores_alike(made.graph, shorter, example)
    except (Unproved, NotFollowedError, RuntimeError, IndexError):
        return None
    saves = _detours(shorter) < _detours(made.graph)
    return Exported.of(shorter, made.batch) if alike and saves else None


def _detours(graph: "fx.GraphModule") -> int:
    """How many masks, copies and convolutions there are."""
    return sum(
        str(node.target) in {*COPYING, CONVOLUTION} or (str(node.target) == ATTENTION and _mask(node) is not None)
        for node in graph.graph.nodes
    )


def scores_alike(first: "fx.GraphModule", second: "fx.GraphModule", example: "torch.Tensor") -> bool:
    """Whether scores differ by rounding alone, on a batch whose rows and pixels differ. Each class is compared with its
    own scores, and with those of most classes: a class that is masked with −10⁹ excuses nothing in the others.
    """
    import torch

    noise = repeated_uniform(example.shape, 1).to(example)
    batch = noise.contiguous(memory_format=torch.channels_last) if is_channels_last(example) else noise
    with torch.inference_mode():
        one, other = first(batch).double(), second(batch).double()
    if one.shape != other.shape or not (one.isfinite() & other.isfinite()).all():
        return False
    largest = one.abs().reshape(len(one), -1).amax(0)
    limit = ROUNDING[str(example.dtype).removeprefix("torch.")] * largest.maximum(largest.median())
    return bool(((one - other).abs().reshape(len(one), -1) <= limit).all())


def is_channels_last(tensor: "torch.Tensor") -> bool:
    import torch

    return tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)


def _without_masks(graph: "fx.GraphModule", seen: Seen) -> "fx.GraphModule":
    """A copy in which attention has no mask where the mask is a constant that lets everything through."""
    from torch import fx

    made, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    made.output(made.graph_copy(graph.graph, copies))
    for before, node in copies.items():
        if str(node.target) == ATTENTION:
            _drop_mask(node, _mask(before), seen)
    made.eliminate_dead_code()
    return fx.GraphModule(graph, made)


def _mask(node: "fx.Node") -> Any:
    return node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")


def _drop_mask(node: "fx.Node", mask: Any, seen: Seen) -> None:
    entries = None if mask is None else getattr(seen[mask.name], "entries", None)
    if entries is None or not (entries.all() if entries.dtype == bool else (entries == 0).all()):
        return
    node.args = (*node.args[:3], None, *node.args[4:]) if len(node.args) > 3 else node.args
    node.kwargs = {name: value for name, value in node.kwargs.items() if name != "attn_mask"}


def _without_copies(graph: "fx.GraphModule", example: "torch.Tensor", fixed: int | None) -> "fx.GraphModule":
    """Axes are followed from one operator that computes to the next, and brought there by the shortest way."""
    from torch import fx

    rewriting = _Rewriting(_shapes(graph, example, BATCH if fixed is None else fixed))
    for node in graph.graph.nodes:
        rewriting.take(node)
    rewriting.graph.eliminate_dead_code()
    return fx.GraphModule(graph, rewriting.graph)


def _shapes(graph: "fx.GraphModule", example: "torch.Tensor", batch: int) -> "dict[fx.Node, tuple[int, ...]]":
    """The shapes of all tensors for batches of a size; nothing is computed."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    found: dict[fx.Node, tuple[int, ...]] = {}

    def note(node: "fx.Node", result: Any) -> None:
        if isinstance(result, torch.Tensor):
            found[node] = tuple(result.shape)

    with FakeTensorMode() as mode:
        made = torch.empty((batch, *example.shape[1:]), dtype=example.dtype, device=example.device)
        watch(graph, made, note, mode.from_tensor)
    return found


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class _Rewriting:
    """A second graph, which grows operator by operator."""

    def __init__(self, shapes: "dict[fx.Node, tuple[int, ...]]") -> None:
        from torch import fx, ops

        self.graph, self._shapes, self._aten = fx.Graph(), shapes, ops.aten
        self._views: dict[fx.Node, View] = {}
        self._others: dict[fx.Node, fx.Node] = {}
        """What is no tensor: sizes, and several tensors."""
        self._made: dict[Any, fx.Node] = {}

    def take(self, node: Any) -> None:
        """The next operator of the first graph."""
        view = self._view(node) if node.op == "call_function" else None
        if view is not None:
            self._views[node] = view
        elif node.op == "output":
            scores = self._tensor(node.args[0])
            scores.meta.setdefault("val", node.args[0].meta.get("val"))
            self.graph.output(scores)
        else:
            self._copy(node)

    def _copy(self, node: Any) -> None:
        if node.op == "call_function" and getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            raise NotFollowedError(f"{node.target} writes into its operand")
        copied = self.graph.node_copy(node, self._tensor)
        if node in self._shapes:
            self._views[node] = View.of(copied, self._shapes[node])
        else:
            self._others[node] = copied

    def _view(self, node: Any) -> View | None:
        """Of an operator that only shows, copies or multiplies along the last axis; None for others."""
        name, first = str(node.target), self._views.get(node.args[0]) if node.args else None
        if first is None or node.kwargs.keys() - {"memory_format"}:
            return None
        try:
            return self._shown(name, first, node)
        except NotFollowedError:
            return None

    def _shown(self, name: str, first: View, node: Any) -> View | None:
        if name in SHOWING:
            return SHOWING[name](first, *node.args[1:])
        if name in RESHAPING:
            return first.reshaped(self._shapes[node])
        if name in COPYING:
            return first if self._needless(node, first) else None
        if name == "aten.linear.default":
            if first.plain or not first.axes[-1]:
                return None
            return self._product(first, map(self._tensor, node.args[1:]), self._shapes[node][-1])
        if name == CONVOLUTION and not any(str(user.target) == NORMALISATION for user in node.users):
            return self._of_patches(first, *node.args[1:])
        return None

    def _needless(self, node: Any, first: View) -> bool:
        import torch

        plain = node.kwargs.get("memory_format") in (None, torch.contiguous_format, torch.preserve_format)
        return plain and len(node.args) == 1 and first.ends_alike

    def _of_patches(self, image: View, weights: Any, *rest: Any) -> View | None:
        """A convolution of an image whose windows lie side by side: each is multiplied. None for any other.

        Before normalisation it stays, since that can be folded into a convolution.
        """
        given: list[Any] = [*map(_as_tuple, rest), *CONVOLVED[len(rest) :]]
        bias, stride, *others = given
        scores, *window = self._shapes[weights]
        beside = (*window[1:], *others) == (*stride, *CONVOLVED[2:])
        if not beside or prod(stride) == 1 or window[0] > MOST_COLOURS or len(image.extents) != 4:
            return None
        (batch, channels, height, width), (down, along) = image.extents, stride
        cut = image.reshaped((batch, channels, height // down, down, width // along, along))
        rows = cut.permuted((0, 2, 4, 1, 3, 5)).reshaped((batch, height // down, width // along, prod(window)))
        matrix = self._call(self._aten.reshape.default, self._tensor(weights), (scores, prod(window)))
        return self._product(rows, (matrix, self._tensor(bias)), scores).permuted((0, 3, 1, 2))

    def _product(self, first: View, operands: Iterable[Any], scores: int) -> View:
        """The product along the last axis; all others stay where they are in memory."""
        last = first.axes[-1]
        others = tuple(part for part in first.left if part not in last)
        rows = self._bring(
            View(first.source, first.shape, first.parts, (*((part,) for part in others), last), first.picked)
        )
        product = self.graph.call_function(self._aten.linear.default, (rows, *operands))
        made = AxisPart(scores)
        shape = (*(part.extent for part in others), scores)
        return View(product, shape, (*others, made), (*first.axes[:-1], (made,)))

    def _tensor(self, node: Any) -> Any:
        """What stands for an operand of the first graph."""
        from torch import fx

        if not isinstance(node, fx.Node):
            return node
        return self._bring(self._views[node]) if node in self._views else self._others[node]

    def _bring(self, view: View) -> Any:
        """The operators that make a view of its source: cut, select, permute and merge, as far as needed."""
        if view.plain:
            return view.source
        found, at = view.source, view.shape
        if view.picked or view.flat != view.parts:
            found, at = self._reshape(found, at, [(part,) for part in view.parts])
            for number in reversed(range(len(view.parts))):
                if view.parts[number] in view.picked:
                    found = self._call(self._aten.select.int, found, number, view.picked[view.parts[number]])
            order = tuple(view.left.index(part) for part in view.flat)
            found = found if order == tuple(range(len(order))) else self._call(self._aten.permute.default, found, order)
            at = tuple(part.extent for part in view.flat)
        return self._reshape(found, at, view.axes)[0]

    def _reshape(
        self, found: "fx.Node", at: Sequence[int], axes: Sequence[Sequence[AxisPart]]
    ) -> "tuple[fx.Node, tuple[int, ...]]":
        wanted = View(None, (), (), tuple(map(tuple, axes))).extents
        if wanted == tuple(at):
            return found, wanted
        sizes = tuple(
            -1 if any(part.extent == BATCH for part in axis) else size for axis, size in zip(axes, wanted, strict=True)
        )
        return self._call(self._aten.reshape.default, found, sizes), wanted

    def _call(self, operator: Any, *arguments: Any) -> "fx.Node":
        """The same call twice is one."""
        key = (operator, *arguments)
        if key not in self._made:
            given = [list(each) if isinstance(each, tuple) else each for each in arguments]
            self._made[key] = self.graph.call_function(operator, tuple(given))
        return self._made[key]
