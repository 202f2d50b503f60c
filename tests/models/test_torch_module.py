"""torch modules as models: a private copy, in evaluation mode, in the precision that was asked for."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import soundsmooth as ss
from soundsmooth.independence.proof import ProofReport, prove_torch
from soundsmooth.independence.proof.report import not_proved
from soundsmooth.models import model_of, torch_module
from soundsmooth.models.artifact import Artifact, Way
from soundsmooth.models.torch_devices import check_no_kernel_is_timed, machine_text
from soundsmooth.models.torch_module import TorchModel, as_noise_lies


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.flatten(1))


def some_batch(rows: int = 3) -> np.ndarray:
    return np.linspace(-1, 2, rows * 4, dtype=np.float32).reshape(rows, 1, 2, 2)


def test_later_changes_of_the_callers_module_do_not_reach_the_model() -> None:
    module = Linear()
    model = TorchModel(module)
    before = model.identity()
    with torch.no_grad():
        module.layer.weight.zero_()
    assert model.identity() == before
    assert TorchModel(module).identity() != before


def test_evaluation_mode_is_enforced_without_touching_the_callers_module() -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.9), torch.nn.Linear(4, 2)).train()
    model = TorchModel(module)
    assert module.training
    first = model.vote(some_batch(64)).labels
    assert all((model.vote(some_batch(64)).labels == first).all() for _ in range(5))


class TrainsItself(Linear):
    """Goes into training mode from inside its own forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.train()
        return super().forward(x)


def test_a_module_that_leaves_evaluation_mode_is_caught() -> None:
    model = TorchModel(TrainsItself())
    model.vote(some_batch())
    with pytest.raises(ValueError, match="training mode"):
        model.vote(some_batch())


class Spy(torch.nn.Module):
    """Remembers what it was given, in a place that survives the private copy."""

    given: list[torch.Tensor] = []  # noqa: RUF012

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Spy.given.append(x)
        return torch.stack([x.flatten(1).sum(1), -x.flatten(1).sum(1)], dim=1)


@pytest.mark.parametrize(
    ("dtype", "expected"), [("bf16", torch.bfloat16), ("fp16", torch.float16), (None, torch.float32)]
)
def test_inputs_are_cast_once_from_float32(dtype: str | None, expected: torch.dtype) -> None:
    Spy.given.clear()
    TorchModel(Spy(), dtype=dtype).vote(some_batch())
    assert Spy.given[0].dtype == expected
    assert torch.equal(Spy.given[0], torch.from_numpy(some_batch()).to(expected))


def test_channels_last() -> None:
    Spy.given.clear()
    batch = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    TorchModel(Spy(), channels_last=True).vote(batch)
    assert Spy.given[0].is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(Spy.given[0], torch.from_numpy(batch))


@pytest.mark.parametrize("shape", [(5, 1, 4, 4), (5, 3, 4, 4), (5, 3, 1, 1), (1, 1, 1, 1)], ids=str)
def test_all_batches_with_channels_last_have_the_same_strides(shape: tuple[int, ...]) -> None:
    """Those that a GPU makes noise in, and those that are made of others: compiled code takes one kind only."""
    made = torch.empty(shape, memory_format=torch.channels_last)
    given = torch.rand(shape).contiguous(memory_format=torch.channels_last)
    found = as_noise_lies(given)
    assert found.stride() == made.stride()
    assert torch.equal(found, given)
    assert as_noise_lies(made) is made


@pytest.mark.parametrize(("device", "enabled"), [("cuda", False), ("cpu", True), ("cpu", False)])
def test_kernels_that_are_fixed_are_accepted(device: str, enabled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda.tunable, "is_enabled", lambda: enabled)
    check_no_kernel_is_timed(torch.device(device))


def test_kernels_that_each_process_would_choose_by_timing_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No flag of the promise says which ones were chosen."""
    monkeypatch.setattr(torch.cuda.tunable, "is_enabled", lambda: True)
    with pytest.raises(ValueError, match=r"torch's TunableOp is on, .*: switch it off .*; compile tuned chooses"):
        check_no_kernel_is_timed(torch.device("cuda", 0))


def test_an_artifact_names_every_gpu_but_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is written into compiled code: it would be on another one for nothing."""
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__="3.6.0"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    first, second = (machine_text(torch.device("cuda", number)) for number in (0, 1))
    assert first.startswith("NVIDIA H200, torch")
    assert second == first.replace("H200", "H200 as cuda:1")


def test_no_gradients_are_recorded() -> None:
    """Not even where the module asks for them."""
    made = []

    class Greedy(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = torch.nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                made.append(self.head(x.flatten(1)))
            return made[-1]

    TorchModel(Greedy()).vote(some_batch())
    assert made[0].is_inference()
    assert not made[0].requires_grad


@pytest.mark.parametrize(
    "broken", [lambda x: (x, x), lambda x: x.sum(), lambda x: x.flatten(1).long()[:, :1], lambda x: x]
)
def test_outputs_that_are_not_scores_are_refused(broken) -> None:
    class Broken(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return broken(x)

    with pytest.raises(ValueError, match=r"\[batch, classes\]"):
        TorchModel(Broken()).vote(some_batch())


@pytest.mark.parametrize(
    ("broken", "said"), [(lambda x: x.argmax(1), "these are labels"), (lambda x: x[..., None], "at least 2"),
                         (lambda x: x > 0, "real numbers")],
)  # fmt: skip
def test_a_proved_graph_without_scores_is_refused_before_any_vote(broken, said: str, tmp_path: Path) -> None:
    class Broken(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return broken(x.flatten(1))

    smooth, images = ss.Smoother(Broken(), "1/4"), np.zeros((2, 1, 2, 2), np.uint8)
    for ask in (
        lambda: smooth.certify(images[0], n=10),
        lambda: smooth.certify_all(images, [3, 3], out=tmp_path / "r.db"),
    ):
        with pytest.raises(ValueError, match=f"^the model's output .*{said}"):
            ask()
    assert not list(tmp_path.iterdir())


def test_flags_are_part_of_the_identity() -> None:
    model = TorchModel(Linear())
    before = torch.get_num_threads()
    flags = model.flags()
    try:
        torch.set_num_threads(before + 1)
        assert model.flags() != flags
    finally:
        torch.set_num_threads(before)
    assert model.identity().flags == flags


def test_options_of_torch() -> None:
    assert isinstance(model_of(Linear()), TorchModel)
    with pytest.raises(ValueError, match="dtype must be"):
        model_of(Linear(), dtype="int4")
    with pytest.raises(ValueError, match="independence must be"):
        model_of(Linear(), independence="hoped")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot run on cuda"):
        model_of(Linear(), device="cuda")


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(ValueError, match="device must be cpu"):
        model_of(Linear(), device="gpu")


@pytest.mark.parametrize("shape", [(10**6, 10**6, 10**3), (10**30,)])
def test_a_shape_that_no_memory_holds_is_refused(shape: tuple[int, ...]) -> None:
    """A promise may say so."""
    with pytest.raises(ValueError, match=r"a batch of 2 inputs of shape .* needs .* GiB"):
        TorchModel(Linear()).prepare(shape, 2)


def test_a_module_that_cannot_take_the_batch_is_named() -> None:
    with pytest.raises(ValueError, match=r"the model failed on a batch of shape \[2, 7\]"):
        TorchModel(Linear()).vote(np.zeros((2, 7), np.float32))


class Doubled(Linear):
    """The same weights, another forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * self.layer(x.flatten(1))


def test_code_and_architecture_are_in_the_digest() -> None:
    one, two = Linear(), Doubled()
    two.load_state_dict(one.state_dict())
    assert TorchModel(one).identity().digest != TorchModel(two).identity().digest
    wide, narrow = (torch.nn.Conv2d(1, 2, 3, stride=stride) for stride in (1, 2))
    narrow.load_state_dict(wide.state_dict())
    assert TorchModel(wide).identity().digest != TorchModel(narrow).identity().digest


class Shifted(torch.nn.BatchNorm2d):
    """A layer of torch's with another forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1


def test_the_digest_is_the_same_in_every_version_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch prints of its layers changes, and so does their source; the digest is written down here."""
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 2, 3, stride=2), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.Linear(2, 2)
    )
    with torch.no_grad():
        for number, tensor in enumerate(module.parameters()):
            tensor.fill_(number)
    shifted = torch.nn.Sequential(*module)
    shifted[1] = Shifted(2)
    before = [TorchModel(each).identity() for each in (module, shifted)]
    assert before[0].first_digest == "4cb6666bcc337ee42f01ce5916817f229cb334de120711c547b78d5dd46a7275"
    assert before[0].digest == "1ff24648bfffa5c1cf263e86f0b07822eb3ea9949d1bcda479a7429edbd052f1"
    for kind, name in ((torch.nn.modules.batchnorm._NormBase, "extra_repr"), (torch.nn.BatchNorm2d, "added_later")):
        of_torch = FunctionType((lambda _: "printed otherwise").__code__, vars(torch.nn.modules.batchnorm))
        monkeypatch.setattr(kind, name, of_torch, raising=False)
    assert [TorchModel(each).identity() for each in (module, shifted)] == before
    monkeypatch.setattr("inspect.getsource", lambda kind: f"another source of {kind.__name__}")
    assert TorchModel(module).identity() == before[0]
    assert TorchModel(shifted).identity().first_digest != before[1].first_digest  # its own source is another


BATCH = torch.zeros(3, 1, 2, 2)


@pytest.mark.parametrize(
    "made",
    [
        torch.fx.symbolic_trace,
        lambda module: torch.export.export(module, (BATCH,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)).module(),
        lambda module: torch.jit.trace(module, (BATCH,)),
        torch.jit.script,
    ],
    ids=["traced by fx", "exported", "traced", "scripted"],
)
@pytest.mark.filterwarnings("ignore")  # torch's own, of what it calls deprecated
def test_the_program_of_a_graph_is_in_the_digest(made: Callable[[torch.nn.Module], torch.nn.Module]) -> None:
    one, two = Linear(), Doubled()
    two.load_state_dict(one.state_dict())
    digests = [TorchModel(made(each)).identity().digest for each in (one, one, two)]
    assert digests[0] == digests[1] != digests[2]


def test_a_layer_that_is_used_twice_is_another_architecture() -> None:
    one = torch.nn.Linear(4, 4)
    twice, once = torch.nn.Sequential(one, one), torch.nn.Sequential(one)
    assert TorchModel(twice).identity().digest != TorchModel(once).identity().digest


def test_batch_normalisation_over_the_batch_is_refused() -> None:
    """Without running statistics it averages over the batch even in evaluation mode: ledger, row 7."""
    layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(4, track_running_stats=False))
    with pytest.raises(ValueError, match="normalises over the batch"):
        TorchModel(layers)
    TorchModel(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(4)))


class Uncopyable(Linear):
    def __deepcopy__(self, memo: object) -> "Uncopyable":
        raise RuntimeError("one of a kind")


def test_a_module_that_cannot_be_copied_is_refused_with_advice() -> None:
    with pytest.raises(ValueError, match="wrap it in a function"):
        TorchModel(Uncopyable())


class Folding(torch.nn.Module):
    """Rows of 8 numbers are kept apart; rows of 4 too, but in another way: the first one would put two into one."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x[0].numel() == 4:
            return x.flatten(1) * self.scale
        rows = x.reshape(-1, 8)
        return (rows - rows.mean(1, keepdim=True)).reshape(x.shape[0], -1) * self.scale


def test_each_shape_is_voted_on_by_the_graph_that_was_proved_for_it() -> None:
    """A run may be under way when another one begins with other inputs."""
    model = TorchModel(Folding(), independence="proved")
    batch = np.array([[0, 1, 0, 0], [9, 9, 9, 8]], np.float32)
    model.prepare((4,), 2)
    before = model.forward(torch.from_numpy(batch))
    model.prepare((8,), 2)
    assert torch.equal(model.forward(torch.from_numpy(batch)), before)
    assert model.vote(batch).labels.tolist() == [1, 0]
    identity = model.identity()
    model.prepare((4,), 2)
    assert model.identity() == identity


def test_what_is_watched_is_what_the_graph_reads() -> None:
    """Another tensor in the module's place is not read, and must not divert attention from the one that is."""
    model = TorchModel(Folding(), independence="proved")
    model.prepare((4,), 4)
    (read,) = model._module.parameters()
    model._module.scale = torch.nn.Parameter(torch.ones(1))
    assert not model.changes()()
    with torch.no_grad():
        read.neg_()
    assert model.vote(np.eye(4, dtype=np.float32)).labels.tolist() == [1, 0, 0, 0]
    assert model.changes()()


class Attending(torch.nn.Module):
    """torch's own layer, around which the exported graph copies."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = torch.nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(2).transpose(1, 2)
        return self.attend(rows, rows, rows, need_weights=False)[0][:, 0]


def test_a_graph_with_fewer_copies_votes_and_is_promised() -> None:
    """Its rounding may be another: no run goes on with it that was begun with the exported graph."""
    module = Attending().eval()
    model, plain = TorchModel(module, independence="proved"), TorchModel(Linear(), independence="proved")
    model.prepare((4, 3, 3), 5)
    plain.prepare((1, 2, 2), 5)
    assert (model.flags()["graph"], model.flags()["runs"]) == ("shortened", "exported-graph")
    assert "graph" not in plain.flags()
    batch = torch.rand(5, 4, 3, 3)
    torch.testing.assert_close(model.forward(batch), module(batch))
    graph = model._voting[5, 4, 3, 3]
    assert graph is not None
    assert graph.shortened


def test_where_the_shorter_graph_is_not_proved_the_exported_one_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    from soundsmooth.models import voting_graphs

    def prove_the_longer(made: Any, example: torch.Tensor) -> ProofReport:
        longer = "aten.contiguous.default" in made.operators
        return prove_torch(made, example) if longer else not_proved("no", len(example), made.operators)

    monkeypatch.setattr(voting_graphs, "prove_torch", prove_the_longer)
    model = TorchModel(Attending(), independence="proved")
    model.prepare((4, 3, 3), 5)
    assert model.identity().independence.proved
    assert "graph" not in model.flags()


def test_an_artifact_that_runs_already_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have many megabytes, and every run names it."""
    model = TorchModel(Linear())
    held = Artifact(model.identity().digest, "here", (1, 2, 2), Way(5), "cd" * 32, b"")
    model._voting.run_as("tuned", held)
    monkeypatch.setattr(torch_module.Artifact, "of", lambda _: pytest.fail("it was read again"))
    for content in (held.content, bytes(bytearray(held.content))):
        model.run_as("tuned", content)
        assert model._voting.artifact is held
        assert model.artifact is held.content
