"""Graphs without masks that let everything through, and without needless copies: the same scores, still proved."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import fx, nn, ops

from soundsmooth.independence.proof import export_module, prove_torch, without_detours
from soundsmooth.independence.proof.torch_axes import NotFollowedError, View
from soundsmooth.independence.proof.torch_faster import ATTENTION, COPYING, _mask, _without_copies, scores_alike
from soundsmooth.torch import Normalize

SHAPE = (8, 3, 3)
EXAMPLE = torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(5))


class Attention(nn.Module):
    """torch's own layer, which copies queries, keys and values while it is exported."""

    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, batch_first=batch_first)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(2).transpose(1, 2)
        seen = rows if self.attend.batch_first else rows.transpose(0, 1)
        found = self.attend(seen, seen, seen, need_weights=False)[0]
        return self.head((found if self.attend.batch_first else found.transpose(0, 1)).mean(1))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x.flatten(2).transpose(1, 2))[:, 0])


class Masked(nn.Module):
    """A mask that is computed from places alone, for every row of the batch."""

    def __init__(self, mask: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.keys, self.head, self.mask = nn.Linear(8, 8), nn.Linear(8, 3), mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(2).transpose(1, 2)
        at = torch.arange(9, device=x.device)
        mask = self.mask(at[:, None], at[None, :]).expand(x.shape[0], 9, 9)
        return self.head(
            nn.functional.scaled_dot_product_attention(rows, self.keys(rows), rows, attn_mask=mask).mean(1)
        )


class Convolution(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Conv2d(8, 4, 3), nn.Flatten(), nn.Linear(4, 3))


class Transformer(nn.Module):
    """A first layer, and attention among what it makes."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers, self.attend = nn.Sequential(*layers), Attention()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attend(self.layers(x))


class Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1, keepdim=True)


def open_mask(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return one + other >= 0


def zeros(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one + other) * 0.0


def causal(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return one >= other


def shortened(module: nn.Module, example: torch.Tensor = EXAMPLE) -> fx.GraphModule | None:
    """The graph without detours; it is proved and has the module's scores, in batches of any size."""
    torch.manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    made = export_module(module.eval(), example)
    assert made.graph is not None, made.why_not
    found = without_detours(made, example)
    if found is None:
        return None
    assert found.graph is not None
    assert prove_torch(found, example).proved
    assert found.scores is not None
    assert found.scores.shape[1:] == (3,)
    for rows in (1, 4, 7):
        batch = torch.rand(rows, *example.shape[1:])
        with torch.inference_mode():
            torch.testing.assert_close(found.graph(batch), module(batch), rtol=1e-4, atol=1e-4)
    return found.graph


def count(graph: fx.GraphModule, *names: str) -> int:
    return sum(str(node.target) in names for node in graph.graph.nodes)


@pytest.mark.parametrize(
    "module", [Attention(), Attention(batch_first=False), Encoder()], ids=["first", "second", "encoder"]
)
def test_queries_keys_and_values_are_not_copied(module: nn.Module) -> None:
    graph = shortened(module)
    assert graph is not None
    assert count(graph, *COPYING) == 0
    assert count(graph, ATTENTION) == (2 if isinstance(module, Encoder) else 1)


IMAGES = torch.rand(4, 3, 12, 8, generator=torch.Generator().manual_seed(6))
PATCHES = {
    "square": (nn.Conv2d(3, 8, 4, 4),),
    "oblong": (nn.Conv2d(3, 8, (6, 2), (6, 2)),),
    "no bias": (nn.Conv2d(3, 8, 4, 4, bias=False),),
    "one patch": (nn.Conv2d(3, 8, (12, 8), (12, 8)),),
    "grey": (Mean(), nn.Conv2d(1, 8, 4, 4)),
    "behind others": (Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)), nn.Conv2d(3, 8, 4, 4)),
}
NO_PATCHES = {
    "one after another": (nn.Conv2d(3, 8, 4, 2),),
    "with gaps": (nn.Conv2d(3, 8, 2, 4),),
    "padding": (nn.Conv2d(3, 8, 4, 4, padding=2),),
    "dilation": (nn.Conv2d(3, 8, 2, 2, dilation=3),),
    "groups": (nn.Conv2d(3, 9, 4, 4, groups=3), nn.Conv2d(9, 8, 1)),
    "a rest": (nn.Conv2d(3, 8, 5, 5),),
    "pixels": (nn.Conv2d(3, 8, 1),),
    "many channels": (nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 4, 4)),
    "normalisation": (nn.Conv2d(3, 8, 4, 4), nn.BatchNorm2d(8)),
}
CONVOLUTIONS = ("aten.conv2d.default", "aten.conv2d.padding")


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", PATCHES)
def test_patches_of_the_image_are_multiplied(name: str, layout: torch.memory_format) -> None:
    graph = shortened(Transformer(*PATCHES[name]).to(memory_format=layout), IMAGES.contiguous(memory_format=layout))
    assert graph is not None
    assert count(graph, *CONVOLUTIONS, *COPYING) == 0
    assert count(graph, "aten.permute.default") <= 5  # one of them is for the patches


@pytest.mark.parametrize("name", NO_PATCHES)
def test_other_convolutions_stay(name: str) -> None:
    graph = shortened(Transformer(*NO_PATCHES[name]), IMAGES)
    assert graph is not None
    assert count(graph, *CONVOLUTIONS) == len([layer for layer in NO_PATCHES[name] if isinstance(layer, nn.Conv2d)])


class Plain(nn.Module):
    """Attention among patches, without masks and copies."""

    def __init__(self, patches: nn.Conv2d) -> None:
        super().__init__()
        self.patches, self.head = patches, nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.patches(x).flatten(-2).transpose(-1, -2)
        return self.head(nn.functional.scaled_dot_product_attention(rows, rows, rows).mean(-2))


def test_a_convolution_of_something_else_than_a_batch_of_images_stays() -> None:
    """Four channels and no rows: there is nothing to prove, and no error either."""
    example = torch.rand(4, 8, 2)
    exported = export_module(Plain(nn.Conv2d(4, 8, 2, 2)).eval(), example)
    assert ATTENTION in exported.operators
    assert without_detours(exported, example) is None


def test_a_product_for_patches_is_enough_to_take_the_graph() -> None:
    """There is nothing else to gain."""
    graph = shortened(Plain(nn.Conv2d(3, 8, 4, 4)), IMAGES)
    assert graph is not None
    assert count(graph, *CONVOLUTIONS) == 0


@pytest.mark.parametrize("mask", [open_mask, zeros])
def test_masks_that_let_everything_through_are_dropped(mask: Callable) -> None:
    graph = shortened(Masked(mask))
    assert graph is not None
    (attention,) = (node for node in graph.graph.nodes if str(node.target) == ATTENTION)
    assert _mask(attention) is None
    assert count(graph, "aten.arange.default", "aten.expand.default") == 0


@pytest.mark.parametrize("module", [Masked(causal), Convolution()], ids=["causal", "convolution"])
def test_other_graphs_stay_as_they_are(module: nn.Module) -> None:
    """A mask that hides something counts, and graphs without attention are those that promises were made for."""
    assert shortened(module) is None


def test_scores_that_come_out_otherwise_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a view goes wrong: axes are left where they were."""
    monkeypatch.setattr(View, "ends_alike", property(lambda self: True))
    monkeypatch.setitem(
        __import__("soundsmooth.independence.proof.torch_faster", fromlist=["SHOWING"]).SHOWING,
        "aten.select.int",
        lambda view, axis, index: view.selected(axis, 0),
    )
    assert shortened(Attention()) is None


@pytest.mark.parametrize("entry", [float("inf"), float("-inf"), float("nan"), 1e9, -1e9])
def test_a_score_that_is_huge_excuses_no_other(entry: float) -> None:
    """Classes may be masked: with −10⁹ in one of them, scores of the others are compared as ever."""

    class Scores(nn.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = factor

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores = x.flatten(1)[:, :4] * self.factor
            return torch.cat([scores, torch.full_like(scores[:, :1], entry)], 1)

    usual, rounded, double = (fx.symbolic_trace(Scores(factor)) for factor in (1.0, 1.0 + 1e-6, 2.0))
    assert not scores_alike(usual, double, EXAMPLE)
    with torch.device("meta"):  # as a user may have set it for new tensors
        assert scores_alike(usual, rounded, EXAMPLE) == (abs(entry) < float("inf"))


def test_a_score_that_is_infinite_in_one_graph_only_is_another() -> None:
    """Compared with infinity, any difference would be small."""
    finite = fx.symbolic_trace(nn.Flatten())
    huge = fx.GraphModule(finite, fx.Graph())
    start = huge.graph.call_function(ops.aten.flatten.using_ints, (huge.graph.placeholder("x"), 1))
    huge.graph.output(huge.graph.call_function(ops.aten.div.Tensor, (start, 0.0)))
    huge.recompile()
    assert not scores_alike(huge, finite, EXAMPLE)


def test_a_graph_that_writes_is_left_alone() -> None:
    class Writing(Attention):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).mul_(2)

    assert shortened(Writing()) is None


VIEWS = st.one_of(
    st.tuples(st.just("transpose"), st.integers(-4, 3), st.integers(-4, 3)),
    st.tuples(st.just("permute"), st.permutations(range(4)), st.none()),
    st.tuples(
        st.just("reshape"), st.sampled_from([(-1, 4, 6, 1), (-1, 24, 1, 1), (-1, 2, 3, 4), (4, -1, 2, 3)]), st.none()
    ),
    st.tuples(st.just("contiguous"), st.none(), st.none()),
    st.tuples(st.just("linear"), st.none(), st.none()),
    st.tuples(st.just("squeezed"), st.integers(0, 3), st.none()),
    st.tuples(st.just("selected"), st.integers(0, 3), st.integers(-1, 0)),
)


def applied(graph: fx.Graph, node: fx.Node, value: torch.Tensor, view: tuple) -> tuple[fx.Node, torch.Tensor]:
    """One more operator, and what it makes of a value."""
    name, one, other = view
    aten, weight = ops.aten, torch.eye(value.shape[-1]).flip(0)
    calls = {
        "transpose": [(aten.transpose.int, (one, other))],
        "permute": [(aten.permute.default, (one,))],
        "reshape": [(aten.reshape.default, (one,))],
        "contiguous": [(aten.contiguous.default, ())],
        "linear": [(aten.linear.default, ())],
        "squeezed": [(aten.unsqueeze.default, (one,)), (aten.squeeze.dim, (one,))],
        "selected": [
            (aten.unsqueeze.default, (one,)),
            (aten.repeat.default, ([2, 1, 1, 1, 1],)),
            (aten.select.int, (0, other)),
        ],
    }[name]
    for operator, arguments in calls:
        given = (weight,) if name == "linear" else arguments
        value = operator(value, *given)
        if name == "linear":
            attribute = f"weight{len(graph.nodes)}"
            graph.owning_module.register_buffer(attribute, weight)
            given = (graph.get_attr(attribute),)
        node = graph.call_function(operator, (node, *given))
    return node, value


@settings(deadline=None, max_examples=150)
@given(st.lists(VIEWS, max_size=8))
def test_any_chain_of_views_shows_the_same(views: list[tuple]) -> None:
    """Entries are compared exactly: numbers that are all different, moved and never added up."""
    module = fx.GraphModule(nn.Module(), fx.Graph())
    graph = fx.Graph(owning_module=module)
    start = torch.arange(5 * 24, dtype=torch.float32).reshape(5, 2, 3, 4)
    node, value = graph.placeholder("x"), start
    for view in views:
        try:
            node, value = applied(graph, node, value, view)
        except (RuntimeError, IndexError):  # not for this shape; what was begun is left out
            continue
    graph.output(graph.call_function(ops.aten.clone.default, (node,)))
    made = fx.GraphModule(module, graph)
    made.graph.eliminate_dead_code()
    try:
        found = _without_copies(made, start, 5)
    except (NotFollowedError, RuntimeError):
        pytest.fail("plain views are followed")
    assert torch.equal(found(start), made(start))
    assert torch.equal(made(start), value)


def test_what_cannot_be_followed_is_said() -> None:
    view = View.of(None, (2, 6))
    for shape in [(4, 3, 2), (2, 4), (4, 3)]:
        with pytest.raises(NotFollowedError):
            view.exchanged(0, 1).reshaped(shape)
    with pytest.raises(NotFollowedError):
        view.reshaped((12,)).selected(0, 1).reshaped((2,))
    with pytest.raises(NotFollowedError):
        view.inserted(0).selected(0, 0)
