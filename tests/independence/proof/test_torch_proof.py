"""torch modules: what torch.export makes of them is inspected and run; state and mixing are found out."""

import gc
import os
import platform
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from proofs import prove_module
from row_mixing import violation
from soundsmooth.independence.proof import torch_export, torch_proof, torch_rules
from soundsmooth.independence.proof.torch_graph import check_rules
from soundsmooth.independence.proof.values import Unproved

SHAPE = (2, 4, 4)


class Function(nn.Module):
    """A module from a function of a batch."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Counting(nn.Module):
    """The tenth call gives another answer."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = nn.Buffer(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x.flatten(1) * self.calls


class Averaging(nn.Module):
    """A running mean over calls."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Buffer(torch.zeros(SHAPE))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.mul_(0.5).add_(0.5 * x.mean(0))
        return (x - self.mean).flatten(1)


def trains_on_fresh_statistics(x: Tensor) -> Tensor:
    """Nobody reads the normalised rows; the mean over the batch is written into a tensor that is read."""
    mean, var = x.new_zeros(2), x.new_ones(2)
    functional.batch_norm(x, mean, var, training=True, momentum=1.0)
    return (x - mean[:, None, None]).flatten(1)


def normalises_instances_into_statistics(x: Tensor) -> Tensor:
    mean, var = x.new_zeros(2), x.new_ones(2)
    functional.instance_norm(x, mean, var, use_input_stats=True, momentum=1.0)
    return (x - mean[:, None, None]).flatten(1)


class Restoring(nn.Module):
    """The statistics are put back afterwards, so that no comparison of weights sees that they changed."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.var = nn.Buffer(torch.zeros(2)), nn.Buffer(torch.full((2,), 2.0))
        self.back = nn.Buffer(torch.tensor([-1.0, 1.0])[:, None].repeat(1, 2))

    def forward(self, x: Tensor) -> Tensor:
        functional.batch_norm(x, self.mean, self.var, training=True, momentum=1.0)
        y = (x - self.mean[:, None, None]).flatten(1)
        functional.batch_norm(self.back, self.mean, self.var, training=True, momentum=1.0)
        return y


def training(module: nn.Module) -> nn.Module:
    return module.train()


def rows_along(x: Tensor) -> Tensor:
    return torch.arange(len(x), dtype=x.dtype)[:, None]


def in_place_on_a_view(x: Tensor) -> Tensor:
    """What is read later has been overwritten through another name; rows mix in the view."""
    y = x.flatten(1) * 1
    y[0] += 1
    return y


def written_through_a_view(x: Tensor) -> Tensor:
    """What is returned has been overwritten, with a sum over all rows, under another name."""
    y = x.flatten(1) * 1
    z = y.view(-1)
    z.add_(x.sum((0, 1, 2, 3)))
    return y


def written_to_a_copy_that_is_none(x: Tensor) -> Tensor:
    """contiguous() and dropout in evaluation mode return the tensor itself."""
    y = x.flatten(1) * 1
    functional.dropout(y.contiguous(), training=False).add_(x.sum((0, 1, 2, 3)))
    return y


def written_twice(x: Tensor) -> Tensor:
    y = x.flatten(1) * 1
    y.mul_(y.t().contiguous().t())
    z = y.clone()
    z.add_(y.sum())
    return z


def writes_to_input(x: Tensor) -> Tensor:
    x.mul_(2)
    return x.flatten(1)


@torch.library.custom_op("traps::centred", mutates_args=())
def centred(x: Tensor) -> Tensor:
    return x - x.mean()


@centred.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def without_gradient(x: Tensor) -> Tensor:
    """A higher-order operator in the graph."""
    with torch.no_grad():
        y = x - x.mean()
    return y.flatten(1)


def mask_kept_in_a_constant(x: Tensor) -> Tensor:
    """A constant of the module that is overwritten in each call."""
    KEPT.add_(1)
    return (x + KEPT).flatten(1)


KEPT = torch.zeros(4, 4)


def unwrapped(row: Tensor) -> Tensor:
    """vmap hands one row to its function, which can take the whole batch out of it."""
    whole = torch._C._functorch.get_unwrapped(row) if torch._C._functorch.is_batchedtensor(row) else row
    return row - whole.mean()


def written_where_rows_lie_on_each_other(x: Tensor) -> Tensor:
    """All rows of an expanded tensor are one place in memory; torch warns of this operator there, and goes on."""
    return x.new_zeros(1, 32).expand(x.shape[0], 32).masked_fill_(x.flatten(1) > 0.5, 1.0)


def written_under_the_name_before(x: Tensor) -> Tensor:
    """The same, through a view of a view."""
    rows = x.new_zeros(1, 32).expand_as(x.flatten(1))
    return rows.view(x.shape[0], 2, 16).transpose(1, 2).masked_fill_(x.flatten(2).transpose(1, 2) > 0.5, 1.0).flatten(1)


class Centring(Tensor):
    """A tensor that brings code of its own: what is multiplied by it loses its mean over the batch."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        plain = [each.as_subclass(Tensor) if isinstance(each, Centring) else each for each in args]
        if "mul" in str(func):
            plain = [each - each.mean(0) if each.dim() > 1 else each for each in plain]
        return func(*plain, **(kwargs or {}))


class WithCode(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("factor", torch.ones(32).as_subclass(Centring))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) * self.factor


FLAT: dict[str, Callable[[Tensor], Tensor]] = {
    "trains_on_fresh_statistics": trains_on_fresh_statistics,
    "normalises_instances_into_statistics": normalises_instances_into_statistics,
    "mean_over_all_axes": lambda x: (x - x.mean((0, 1, 2, 3))).flatten(1),
    "mean_of_all": lambda x: (x - x.mean()).flatten(1),
    "mean_of_itself_in_its_own_shape": lambda x: (x - x.view_as(x).mean(0, keepdim=True)).flatten(1),
    "mean_of_itself_in_its_own_type": lambda x: (x - x.type_as(x).mean(0, keepdim=True)).flatten(1),
    "mean_over_rows": lambda x: (x - x.mean(0)).flatten(1),
    "mean_over_negative_axis": lambda x: (x - x.mean(-4, keepdim=True)).flatten(1),
    "softmax_over_rows": lambda x: x.softmax(0).flatten(1),
    "sum_by_negative_axes": lambda x: x + x.sum((-1, -4), keepdim=True),
    "max_over_rows": lambda x: x.flatten(1) - x.flatten(1).max(0).values,
    "cumsum_over_rows": lambda x: x.cumsum(0).flatten(1),
    "sort_over_rows": lambda x: x.sort(dim=0).values.flatten(1),
    "batch_size": lambda x: x.flatten(1) / x.shape[0],
    "batch_size_as_tensor": lambda x: x.flatten(1) * torch.full((1,), x.shape[0]),
    "batch_size_counted_from": lambda x: x.flatten(1)[:, :3] + torch.arange(x.shape[0], x.shape[0] + 3),
    "batch_size_in_linspace": lambda x: x.flatten(1)[:, :3] + torch.linspace(0, x.shape[0], 3),
    "batch_size_in_scalar": lambda x: x.flatten(1) + torch.scalar_tensor(x.shape[0]),
    "position": lambda x: x.flatten(1) + rows_along(x),
    "position_by_cumsum": lambda x: x.flatten(1) + torch.ones(x.shape[0], 1).cumsum(0),
    "position_by_eye": lambda x: x.flatten(1)[:, :1] + torch.eye(x.shape[0]),
    "roll_rows": lambda x: x.roll(1, 0).flatten(1),
    "roll_without_dims": lambda x: x.roll(1).flatten(1),
    "flip_rows": lambda x: x.flip(0).flatten(1),
    "first_row": lambda x: (x - x[:1]).flatten(1),
    "first_row_selected": lambda x: (x - x[0]).flatten(1),
    "other_rows": lambda x: torch.cat([x[1:], x[:1]]).flatten(1),
    "split_rows": lambda x: torch.cat(x.chunk(2)[::-1]).flatten(1),
    "row_by_row": lambda x: x.flatten(1) @ x.flatten(1).t(),
    "gram": lambda x: x.flatten(1) @ (x.flatten(1).t() @ x.flatten(1)),
    "reshape_folds": lambda x: x.reshape(4, -1).softmax(1).reshape(x.shape[0], -1),
    "interleaved": lambda x: x.reshape(x.shape[0], 2, -1).transpose(0, 1).reshape(x.shape[0], -1),
    "outer_sum": lambda x: x.flatten(1)[:, :1] + x.flatten(1)[:, 0],
    "attention_over_rows": lambda x: functional.scaled_dot_product_attention(*[x.flatten(1)[None]] * 3)[0],
    "conv_without_batch": lambda x: functional.conv2d(x[:, 0], torch.ones(8, 8, 1, 1)),
    "batch_norm_without_statistics": lambda x: functional.batch_norm(x, None, None, training=True).flatten(1),
    "batch_norm_with_constants": lambda x: functional.batch_norm(
        x, torch.zeros(2), torch.ones(2), training=True
    ).flatten(1),
    "rows_in_two_orders": lambda x: (x.flatten(1).t().reshape(-1) + x.reshape(-1)).reshape(x.shape[0], -1),
    "layer_norm_over_all": lambda x: functional.layer_norm(x, x.shape).flatten(1),
    "instance_norm_of_rows": lambda x: functional.instance_norm(x.permute(1, 2, 3, 0)).permute(3, 0, 1, 2).flatten(1),
    "squeeze_all": lambda x: x.mean((1, 2, 3), keepdim=True).squeeze(),
    "random": lambda x: x.flatten(1) + torch.randn(1, 1),
    "random_like": lambda x: x.flatten(1) + torch.rand_like(x.flatten(1)),
    "bernoulli": lambda x: x.sigmoid().bernoulli().flatten(1),
    "dropout": lambda x: functional.dropout(x, 0.5, training=True).flatten(1),
    "attention_dropout": lambda x: functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5).flatten(1),
    "uninitialised": lambda x: x.flatten(1) + torch.empty(1, 1),
    "sorted_out": lambda x: x.flatten(1)[x.flatten(1).sum(1).argsort()],
    "unique": lambda x: x.flatten(1) + x.unique().sum(),
    "nonzero": lambda x: x.flatten(1) + x.nonzero().sum(),
    "custom_operator": lambda x: centred(x).flatten(1),
    "higher_order": without_gradient,
    "in_place_on_a_view": in_place_on_a_view,
    "written_through_a_view": written_through_a_view,
    "written_to_a_copy_that_is_none": written_to_a_copy_that_is_none,
    "written_twice": written_twice,
    "written_where_rows_lie_on_each_other": written_where_rows_lie_on_each_other,
    "written_under_the_name_before": written_under_the_name_before,
    "writes_to_input": writes_to_input,
    "region_of_the_batch": lambda x: region_of_the_batch(x),
    "mask_kept_in_a_constant": mask_kept_in_a_constant,
    "einsum_over_rows": lambda x: torch.einsum("bi,bj->ij", x.flatten(1), x.flatten(1))[: x.shape[0]],
    "einsum_of_all_pairs": lambda x: torch.einsum("bi,ci->bc", x.flatten(1), x.flatten(1)),
    "cast_out_of_range": lambda x: (x.flatten(1)[:, :3] * 1e10).to(torch.uint32).float(),
    "sum_of_integers": lambda x: (x * 1e10).flatten(1).unsqueeze(2).sum(2, dtype=torch.int32).float(),
    "quantized_by_all_rows": lambda x: torch.fake_quantize_per_tensor_affine(
        x, *torch._choose_qparams_per_tensor(x), 0, 255
    ).flatten(1),
    "unwrapped_in_vmap": lambda x: torch.func.vmap(unwrapped)(x).flatten(1),
    "eight_bits": lambda x: x.flatten(1).to(torch.float8_e4m3fn).float(),
    "complex": lambda x: x.flatten(1).to(torch.complex64).abs(),
    "sparse": lambda x: (torch.zeros(2, layout=torch.sparse_coo), x.flatten(1))[1],
    "constant_output": lambda x: torch.zeros(3, 2),
    "two_outputs": lambda x: (x.flatten(1), x),  # type: ignore[dict-item,return-value]
}

MODULES: dict[str, Callable[[], nn.Module]] = {
    "counting": Counting,
    "restoring": Restoring,
    "averaging": Averaging,
    "tensor_with_code": WithCode,
    "batch_norm_training": lambda: training(nn.Sequential(nn.BatchNorm2d(2), nn.Flatten())),
    "batch_norm_own_statistics": lambda: nn.Sequential(
        nn.BatchNorm2d(2, track_running_stats=False), nn.Flatten()
    ).eval(),
    "instance_norm_running": lambda: training(
        nn.Sequential(nn.InstanceNorm2d(2, track_running_stats=True), nn.Flatten())
    ),
    "dropout_training": lambda: training(nn.Sequential(nn.Dropout(), nn.Flatten())),
    "transformer_over_rows": lambda: nn.Sequential(nn.Flatten(), nn.TransformerEncoderLayer(32, 2, 8)).eval(),
    **{name: (lambda function=function: Function(function)) for name, function in FLAT.items()},  # type: ignore[misc]
}

#: Not shown: state that no output depends on, memory that happens to be zero, an output that is no tensor, and types of
#: numbers that have no rules.
NOT_SHOWN = {"uninitialised", "two_outputs", "writes_to_input", "instance_norm_running", "sum_of_integers"}
NOT_SHOWN |= {"eight_bits", "complex", "sparse"}
if platform.machine() not in ("x86_64", "AMD64"):  # undefined, but perhaps the same at all positions
    NOT_SHOWN.add("cast_out_of_range")


@pytest.mark.parametrize("name", MODULES)
def test_no_trap_is_proved(name: str) -> None:
    module = MODULES[name]()
    ran, report = prove_module(module, torch.rand(8, *SHAPE))
    assert not report.proved, report.reason
    assert "\n" not in report.reason
    assert ran is module


@pytest.mark.parametrize("name", [name for name in MODULES if name not in NOT_SHOWN])
def test_the_trap_is_real(name: str) -> None:
    module = MODULES[name]()

    def run(batch: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return module(torch.from_numpy(batch.copy())).numpy()

    sizes = (8,) if name in ("conv_without_batch", "reshape_folds") else (1, 2, 4, 8)
    assert violation(run, SHAPE, sizes) is not None


def mask_of_regions(x: Tensor) -> Tensor:
    """A constant that is written to in parts, as in Swin transformers."""
    mask = x.new_zeros(4, 4)
    mask[:2, :2] = 1
    mask[2:] = 2
    return (x + mask).flatten(1)


def region_of_the_batch(x: Tensor) -> Tensor:
    """The same mask, with a part that comes from the batch."""
    mask = x.new_zeros(4, 4)
    mask[:2, :2] = x.mean((0, 1, 2, 3))
    return (x + mask).flatten(1)


GOOD: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "weights_standardised_by_their_own_mean": lambda x: functional.conv2d(
        x, functional.batch_norm(torch.arange(36.0).reshape(1, 2, 18), None, None, training=True).reshape(2, 2, 3, 3)
    ).flatten(1),
    "rows_written_over_a_constant": lambda x: x.new_zeros(x.shape[0], 32).add_(x.flatten(1)),
    "grouped_heads": lambda x: functional.scaled_dot_product_attention(x, x[:, :1], x[:, :1], enable_gqa=True).flatten(
        1
    ),
    "in_place_chain": lambda x: x.mul(2).add_(1).relu_().flatten(1),
    "in_place_after_use": lambda x: (lambda y: y.sin() + y.relu_())(x.flatten(1) * 1),
    "rows_folded_and_back": lambda x: x.reshape(-1, 4).softmax(1).reshape(x.shape[0], -1),
    "sequence_first": lambda x: (
        x.flatten(2).permute(1, 0, 2).reshape(-1, 16).tanh().reshape(2, -1, 16).permute(1, 0, 2)
    ),
    "zeros_for_each_row": lambda x: torch.cat([x.flatten(1), x.new_zeros(x.shape[0], 3)], 1),
    "constant_positions": lambda x: x + torch.arange(4.0) + torch.linspace(0, 1, 4)[:, None],
    "swin_like_windows": lambda x: (
        x.reshape(-1, 2, 2, 2, 2, 2)
        .permute(0, 2, 4, 1, 3, 5)
        .reshape(-1, 2, 2, 2)
        .mean((1, 2, 3))
        .reshape(x.shape[0], -1)
    ),
    "mask_of_regions": mask_of_regions,
    "einsum": lambda x: torch.einsum("bchw,cd->bdhw", x, torch.ones(2, 3)).flatten(1),
    "roll_pixels": lambda x: x.roll((1, 1), (2, 3)).flatten(1),
    "last_token": lambda x: x.flatten(2)[:, -1],
    "attention": lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True).flatten(1),
    "top": lambda x: x.flatten(1).topk(3, dim=1).values,
    "glu": lambda x: functional.glu(x, 1).flatten(1),
    "resized": lambda x: functional.interpolate(x, scale_factor=2.0).flatten(1),
    "resized_to_a_size": lambda x: functional.interpolate(x, (3, 5), mode="bicubic", align_corners=True).flatten(1),
    "resized_line": lambda x: functional.interpolate(x.flatten(2), scale_factor=0.5, mode="linear").flatten(1),
    "resized_volume": lambda x: functional.interpolate(x[:, :, None], (2, 3, 3), mode="trilinear").flatten(1),
    "index_of_the_largest": lambda x: x.flatten(1).argmax(1, keepdim=True).float(),
    "zeros_that_are_integers": lambda x: x.flatten(1) + x.new_zeros(x.shape[0], 1, dtype=torch.int64),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_is_proved_holds_when_it_runs(name: str) -> None:
    module = Function(GOOD[name])
    graph, report = prove_module(module, torch.rand(8, *SHAPE))
    assert report.proved, report.reason
    assert report.batch == 8

    def run(batch: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return graph(torch.from_numpy(batch.copy())).numpy()

    assert violation(run, SHAPE) is None
    batch = torch.rand(3, *SHAPE)
    torch.testing.assert_close(graph(batch), module(batch.clone()))


def test_the_graph_that_runs_is_the_graph_that_was_inspected() -> None:
    """No hook, no guard, no module of the user's: the code is one line for each node."""
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(12, 2)).eval()
    graph, report = prove_module(module, torch.rand(4, *SHAPE))
    assert report.proved
    assert isinstance(graph, torch.fx.GraphModule)
    assert not list(graph.children())
    assert not any(getattr(graph, name) for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"))
    assert {node.op for node in graph.graph.nodes} == {"placeholder", "get_attr", "call_function", "output"}
    calls = [line for line in graph.code.splitlines() if "torch.ops" in line]
    assert len(calls) == report.nodes == 4


class Elsewhere(nn.Module):
    """Parameters, batch normalisation, a table that is no parameter, and a tensor made on the input's device."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))
        self.table = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x) * self.table.to(x.device) + torch.arange(3, device=x.device)


def test_a_graph_of_another_device_is_made_on_the_cpu_and_runs_there() -> None:
    """torch's device without numbers stands in for a GPU: everything that the graph reads or makes is there."""
    module, home = Elsewhere().eval(), torch.device("meta")
    program, batch = torch_export._export(module, torch.rand(2, *SHAPE))
    assert batch is None
    there = Elsewhere().eval().to(home)
    tensors = torch_export._tensors(program, there, home)
    assert {each.device for each in tensors.values()} == {home}
    assert len(tensors) > len(own := {*there.parameters(), *there.buffers()})
    assert {*tensors.values()} > own - {there.layers[1].num_batches_tracked}
    graph = torch_export._plain(program, tensors, home)
    check_rules(graph.graph)
    assert graph(torch.rand(5, *SHAPE, device=home)).device == home


def test_a_constant_belongs_to_the_graph_alone() -> None:
    """Whoever else has the tensor may write to it: the graph goes on as it was inspected."""
    table = torch.ones(32)
    graph, report = prove_module(Function(lambda x: x.flatten(1) * table), torch.rand(4, *SHAPE))
    assert report.proved
    batch = torch.rand(3, *SHAPE)
    before = graph(batch)
    table.zero_()
    assert torch.equal(graph(batch), before)


def test_a_graph_reads_the_modules_own_parameters_or_is_not_proved() -> None:
    """They are what the digest is of, and what is compared after every image."""
    module = Elsewhere().eval()
    program, _ = torch_export._export(module, torch.rand(2, *SHAPE))
    other = Elsewhere()
    other.layers[3] = nn.Linear(16, 5)
    for wrong in (other, nn.Sequential()):
        with pytest.raises(Unproved, match="which the module itself does not have, or in another shape"):
            torch_export._tensors(program, wrong, torch.device("cpu"))
    own = {each.data_ptr() for each in [*module.parameters(), *module.buffers()]}
    assert own <= {each.data_ptr() for each in torch_export._tensors(program, module, torch.device("cpu")).values()}


def test_a_constant_with_the_name_of_a_buffer_stays_a_constant() -> None:
    """Other shapes than the exported ones would break the proof."""
    program, _ = torch_export._export(Elsewhere().eval(), torch.rand(2, *SHAPE))
    (name,) = program.constants
    other = Elsewhere()
    delattr(other, name)
    other.register_buffer(name, torch.zeros(2, 3))
    assert torch_export._tensors(program, other, torch.device("cpu"))[name].shape == (3,)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_module_on_a_gpu_is_proved_for_any_batch_size(dtype: torch.dtype) -> None:
    """Whatever torch thinks of cuDNN's limits; the graph lies on the GPU and shares the module's memory."""
    module = Elsewhere().eval().to("cuda", dtype)
    batch = torch.rand(5, *SHAPE, device="cuda", dtype=dtype)
    graph, report = prove_module(module, batch)
    assert report.proved, report.reason
    with torch.inference_mode():
        assert torch.equal(graph(batch), module(batch))
        module.layers[3].bias += 100
        assert torch.equal(graph(batch), module(batch))


class WritesUnderAnotherName(nn.Module):
    """Its parameter is written through a view that torch takes for a tensor of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(32))

    def forward(self, x: Tensor) -> Tensor:
        self.scale.detach().add_(1)
        return x.flatten(1) * self.scale


def test_nothing_is_run_that_would_change_the_module() -> None:
    """The graph is refused before anybody watches it."""
    module = WritesUnderAnotherName()
    made = torch_export.export_module(module, torch.rand(4, *SHAPE))
    before = module.scale.detach().clone()
    assert not torch_proof.prove_torch(made, torch.rand(4, *SHAPE)).proved
    assert torch.equal(module.scale, before)


def test_a_fixed_batch_size_is_said() -> None:
    """A module that only takes batches of 8 is proved for batches of 8."""
    module = Function(lambda x: x.reshape(8, 32).relu())
    graph, report = prove_module(module, torch.rand(8, *SHAPE))
    assert report.proved
    assert report.batch == 8
    assert graph(torch.ones(8, *SHAPE)).shape == (8, 32)


@pytest.mark.parametrize("batch", [8, 100])
def test_nothing_that_was_looked_at_is_kept(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a graph for one batch size, values of two runs live at once, and of a large batch eight rows each."""
    usual, alive, most = torch_proof.as_array, weakref.WeakSet[Any](), [0]

    class Kept(np.ndarray):
        """NumPy's own arrays cannot be hashed."""

        __hash__ = object.__hash__

    def as_array(tensor: Tensor) -> Any:
        kept = usual(tensor).view(Kept)
        alive.add(kept)
        most[0] = max(most[0], sum(each.size for each in alive))
        return kept

    monkeypatch.setattr(torch_proof, "as_array", as_array)
    gc.disable()
    try:
        module = Function(lambda x: x.reshape(batch, 32).relu().exp().sin().cos())
        assert prove_module(module, torch.rand(batch, *SHAPE))[1].proved
        assert not alive
    finally:
        gc.enable()
    of_one_run = 5 * min(batch, 8) * 32 + batch * 32
    assert most[0] <= 2 * of_one_run + batch * 32


def weights_picked_by(x: Tensor) -> Tensor:
    """Rows pick from a constant table, and what they pick is then taken for weights."""
    return x @ torch.arange(64.0).reshape(8, 8)[x.argmax(1)]


FIXED: dict[str, Callable[[Tensor], Tensor]] = {
    "crossed": lambda x: x.reshape(4, 64).softmax(1).reshape(8, 32),
    "weights_picked_by_rows": lambda x: weights_picked_by(x.reshape(8, 32)[:, :8]),
    "constant_along_rows": lambda x: x.reshape(8, 32) + torch.arange(8.0)[:, None],
    "weights_along_rows": lambda x: torch.ones(8, 8) @ x.reshape(8, 32),
    "bias_for_each_row": lambda x: functional.linear(
        x.reshape(8, 32), torch.ones(3, 32), torch.arange(24.0).view(8, 3)
    ),
    "added_for_each_row": lambda x: torch.addmm(torch.arange(24.0).view(8, 3), x.reshape(8, 32), torch.ones(32, 3)),
    "mask_for_each_row": lambda x: functional.scaled_dot_product_attention(
        x, x, x, attn_mask=torch.arange(8.0).view(8, 1, 1, 1).expand(8, 1, 4, 4)
    ).flatten(1),
}


@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_batch_size_hides_nothing(name: str) -> None:
    """The same with a batch size written into the graph, where every extent is a plain number."""
    assert not prove_module(Function(FIXED[name]), torch.rand(8, *SHAPE))[1].proved


def test_rules_are_for_operators_that_write_into_their_first_argument_alone() -> None:
    """Nothing but the schema tells what a call writes to."""
    for operator, rule in torch_rules.by_operator().items():
        written = [one.name for one in operator._schema.arguments if one.alias_info and one.alias_info.is_write]
        assert written in ([], [rule.arguments[0]]), operator


def test_an_operator_with_other_arguments_has_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of torch may mean something else by them."""
    relu = torch_rules.RULES["relu.default"]
    monkeypatch.setitem(torch_rules.RULES, "relu.default", replace(relu, arguments=("self", "inplace")))
    torch_rules.by_operator.cache_clear()
    try:
        report = prove_module(Function(lambda x: x.flatten(1).relu()), torch.rand(4, *SHAPE))[1]
        assert "no rule" in report.reason
    finally:
        torch_rules.by_operator.cache_clear()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(2))[0][:, -1]


def test_warnings_about_the_export_are_nobodys() -> None:
    """torch warns of what its own trace of a recurrent layer assigns."""
    with warnings.catch_warnings(action="error"):
        _, report = prove_module(Recurrent().eval(), torch.rand(4, 2, 2, 4))
    assert "'gru': there is no rule" in report.reason


def test_a_module_that_cannot_be_exported_is_not_proved(capfd: pytest.CaptureFixture[str]) -> None:
    def decides(x: Tensor) -> Tensor:
        return x.flatten(1) if float(x.sum()) > 0 else -x.flatten(1)

    ran, report = prove_module(Function(decides), torch.rand(8, *SHAPE))
    assert not report.proved
    assert "torch.export" in report.reason
    assert isinstance(ran, Function)
    assert capfd.readouterr() == ("", ""), "torch prints the graphs that it fails on"


def test_a_folder_that_torch_cannot_make_is_no_missing_proof(tmp_path: Path) -> None:
    """It says nothing of the module. Without it an honest run was refuted, and a new one had measured rows."""
    (tmp_path / "file").touch()
    code = (
        "import torch, warnings; warnings.simplefilter('ignore')\n"
        "from soundsmooth.models.torch_module import TorchModel\n"
        "for _ in range(2):\n"
        "    try: TorchModel(torch.nn.Flatten(), 'cpu').prepare((1, 2, 2), 3)\n"
        "    except ValueError as error: print(error)\n"
    )
    where = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "file" / "caches")}
    done = subprocess.run([sys.executable, "-c", code], env=where, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    assert all(line.startswith("torch cannot make a folder for its files") for line in lines)
