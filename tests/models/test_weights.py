"""Weights from the files that people have: found in their wrappers, under names that wrappers have changed; no code."""

import argparse
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from architectures import parallel
from soundsmooth.models import model_of
from soundsmooth.models.load import recipe_of
from soundsmooth.models.weights import Weights, fitted, read_weights


def network() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2))


def normalised() -> torch.nn.Sequential:
    """As the field writes it: a first layer, then the network in DataParallel."""
    return torch.nn.Sequential(torch.nn.Identity(), parallel(network()))


@pytest.fixture
def trained() -> torch.nn.Sequential:
    torch.manual_seed(3)
    return network().eval()


def saved(path: Path, content: object) -> Path:
    torch.save(content, path)
    return path


def with_prefix(prefix: str, module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {prefix + name: tensor for name, tensor in module.state_dict().items()}


CHECKPOINTS: dict[str, Callable[[torch.nn.Module], object]] = {
    "plain.pth": lambda net: net.state_dict(),
    "training.pth.tar": lambda net: {
        "epoch": 90,
        "arch": "cifar_resnet110",
        "state_dict": parallel(net).state_dict(),
        "optimizer": torch.optim.Adam(net.parameters()).state_dict(),
    },
    "compiled.pt": lambda net: {"model": with_prefix("_orig_mod.", net), "step": torch.tensor(3)},
    "both.pt": lambda net: {"net": with_prefix("_orig_mod.module.", net), "acc": 91.2},
    "lightning.ckpt": lambda net: {
        "state_dict": with_prefix("model.", net),
        "callbacks": {"best": {"score": torch.tensor(0.9), "path": "x"}},
        "optimizer_states": [],
    },
    "hub.bin": lambda net: {"model_state_dict": net.state_dict(), "metrics": {"loss": torch.tensor(1.0)}},
    "deep.pth": lambda net: {"experiment": {"ema": {"module": net.state_dict()}}},
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_is_the_model_that_was_saved(name: str, trained: torch.nn.Sequential, tmp_path: Path) -> None:
    path = saved(tmp_path / name, CHECKPOINTS[name](trained))
    assert model_of(network(), weights=path).identity() == model_of(trained).identity()


def test_optimizer_state_is_no_set_of_weights(trained: torch.nn.Sequential, tmp_path: Path) -> None:
    """After a step it is full of tensors under names."""
    optimizer = torch.optim.Adam(trained.parameters())
    trained(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    path = saved(tmp_path / "w.pth", {"optimizer": optimizer.state_dict(), "net": trained.state_dict()})
    assert model_of(network(), weights=path).identity() == model_of(trained).identity()


@pytest.mark.parametrize(("inside", "made"), [(normalised, "plain"), (network, "wrapped")])
def test_names_with_and_without_data_parallel_fit_either_way(
    inside: Callable[[], torch.nn.Module], made: str, tmp_path: Path
) -> None:
    """`1.module.…` of a checkpoint, or of the module that it goes into."""
    torch.manual_seed(4)
    source = inside()
    target = torch.nn.Sequential(torch.nn.Identity(), network()) if made == "plain" else parallel(network())
    path = saved(tmp_path / "w.pth.tar", {"state_dict": source.state_dict()})
    assert model_of(target, weights=path).identity() == model_of(source).identity()


def test_safetensors_get_the_same_treatment(trained: torch.nn.Sequential, tmp_path: Path) -> None:
    save_file(with_prefix("module.", trained), tmp_path / "w.safetensors")
    assert model_of(network(), weights=tmp_path / "w.safetensors").identity() == model_of(trained).identity()


def test_the_module_that_is_given_stays_as_it_is(trained: torch.nn.Sequential, tmp_path: Path) -> None:
    given, path = network(), saved(tmp_path / "w.pth", trained.state_dict())
    before = model_of(given).identity()
    model_of(given, weights=path)
    assert model_of(given).identity() == before


def test_workers_get_the_weights_too(trained: torch.nn.Sequential, tmp_path: Path) -> None:
    path = saved(tmp_path / "w.pth", with_prefix("module.", trained))
    made = pickle.loads(pickle.dumps(recipe_of(network(), weights=path))).build()
    assert made.identity().digest == model_of(trained).identity().digest


def test_old_checkpoints_without_counters_are_loaded(trained: torch.nn.Sequential, tmp_path: Path) -> None:
    kept = {name: each for name, each in with_prefix("module.", trained).items() if "num_batches" not in name}
    path = saved(tmp_path / "w.pth", kept)
    assert model_of(network(), weights=path).identity() == model_of(trained).identity()


def refused(content: object, tmp_path: Path, name: str = "w.pth") -> str:
    with pytest.raises(ValueError, match=r"w\.pth|c\.pth\.tar") as caught:
        model_of(network(), weights=saved(tmp_path / name, content))
    return str(caught.value)


def test_missing_and_unexpected_names_are_told(trained: torch.nn.Sequential, tmp_path: Path) -> None:
    state = dict(trained.state_dict())
    del state["1.weight"]
    message = refused({"state_dict": {**state, "head.bias": torch.zeros(2)}, "epoch": 3}, tmp_path)
    assert "does not fit the model, by ['state_dict']: missing 1.weight; unexpected head.bias" in message
    assert "size mismatch" in refused({**trained.state_dict(), "1.bias": torch.zeros(3)}, tmp_path)


def test_two_sets_that_fit_are_an_error_that_lists_them(trained: torch.nn.Sequential, tmp_path: Path) -> None:
    message = refused({"state_dict": trained.state_dict(), "state_dict_ema": network().state_dict()}, tmp_path)
    assert "several sets of weights that fit the model: ['state_dict'], ['state_dict_ema']" in message
    assert "torch.save(torch.load('w.pth', weights_only=True)['state_dict'], 'weights.pth')" in message


def test_a_set_that_does_not_fit_is_no_rival(trained: torch.nn.Sequential, tmp_path: Path) -> None:
    path = saved(tmp_path / "w.pth", {"critic": {"weight": torch.zeros(3)}, "actor": trained.state_dict()})
    assert model_of(network(), weights=path).identity() == model_of(trained).identity()


class Opens:
    """Unpickled, it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_code_in_a_checkpoint_never_runs(trained: torch.nn.Sequential, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    message = refused({"state_dict": trained.state_dict(), "hook": Opens(opened)}, tmp_path)
    assert "never loaded" in message
    assert not opened.exists()


def test_a_checkpoint_that_needs_code_says_what_to_save(trained: torch.nn.Sequential, tmp_path: Path) -> None:
    message = refused({"state_dict": trained.state_dict(), "args": argparse.Namespace(lr=0.1)}, tmp_path, "c.pth.tar")
    assert "holds more than weights (argparse.Namespace)" in message
    assert "torch.save(torch.load('c.pth.tar', weights_only=False)['state_dict'], 'weights.pth')" in message
    whole = refused(trained, tmp_path)
    assert "never loaded" in whole
    assert "for a whole module .state_dict() instead of ['state_dict']" in whole


def test_what_is_no_checkpoint_is_told(trained: torch.nn.Sequential, tmp_path: Path) -> None:
    assert "no dictionary of tensors" in refused({"epoch": 3, "lists": [torch.zeros(2)]}, tmp_path)
    torch.jit.trace(trained, torch.zeros(2, 4)).save(str(tmp_path / "s.pt"))
    (tmp_path / "broken.pt").write_bytes(b"nothing")
    for name, reason in (("s.pt", "is a TorchScript program"), ("broken.pt", "'broken.pt'")):
        with pytest.raises(ValueError, match=reason):
            model_of(network(), weights=tmp_path / name)
    with pytest.raises(ValueError, match=r"into a torch\.nn\.Module only"):
        model_of(len, weights=saved(tmp_path / "w.pth", {"a": torch.zeros(2)}))


def test_names_are_changed_only_if_each_then_has_one_weight() -> None:
    one, two = torch.zeros(1), torch.ones(1)
    assert fitted({"module.a": one}, ["a"]) == {"a": one}
    assert fitted({"net.a": one, "net.b": two}, ["a", "b"]) == {"a": one, "b": two}
    assert fitted({"module.a": one, "a": two}, ["a"]) is None  # which of them?
    assert fitted({"x.a": one, "y.b": two}, ["a", "b"]) is None  # no part is shared
    assert fitted({"x.a": one, "y.a": two}, ["a"]) is None
    assert fitted({"a": one}, ["a", "b"]) is None
    assert fitted({"a": one, "b": two}, ["a"]) is None
    assert fitted({"module.a": one, "a": two}, ["module.a", "a"]) == {"module.a": one, "a": two}


def test_the_bytes_that_were_read_are_what_is_loaded(trained: torch.nn.Sequential, tmp_path: Path) -> None:
    path = saved(tmp_path / "w.pth.tar", trained.state_dict())
    weights = read_weights(path)
    assert weights == Weights("w.pth.tar", path.read_bytes())
    path.write_bytes(b"another file")
    filled = network()
    weights.load_into(filled)
    assert torch.equal(filled[1].weight, trained[1].weight)


@pytest.mark.parametrize("version", ["2.5.1+cu124", "1.13.0"])
def test_a_torch_that_would_run_code_reads_no_checkpoint(
    version: str, trained: torch.nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "w.pth", trained.state_dict())
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(ValueError, match=r"may run code of a checkpoint.*install torch 2\.6 or later.*safetensors"):
        read_weights(path).load_into(network())
