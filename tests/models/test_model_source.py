"""`package.module:factory` with optional safetensors weights."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from soundsmooth.models import model_of
from soundsmooth.models.torch_module import TorchModel

SOURCE = """
import torch

def network():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))

def function():
    return lambda batch: batch.reshape(len(batch), -1)[:, :2]

def needs(argument):
    return argument

def broken():
    return {}["weights"]
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "their_models.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "their_models", raising=False)
    return "their_models"


def test_a_factory_in_the_current_folder(module: str) -> None:
    path = list(sys.path)
    assert isinstance(model_of(f"{module}:network"), TorchModel)
    assert model_of(f"{module}:function").vote(np.ones((2, 1, 2, 2), np.float32)).labels.tolist() == [0, 0]
    assert sys.path == path


def test_weights_are_loaded(module: str, tmp_path: Path) -> None:
    weights = {"1.weight": torch.tensor([[0.0] * 4, [1.0] * 4]), "1.bias": torch.zeros(2)}
    save_file(weights, tmp_path / "w.safetensors")
    model = model_of(f"{module}:network", weights=tmp_path / "w.safetensors")
    assert model.vote(np.ones((1, 1, 2, 2), np.float32)).labels.tolist() == [1]
    assert model.vote(-np.ones((1, 1, 2, 2), np.float32)).labels.tolist() == [0]


def test_weights_that_do_not_fit(module: str, tmp_path: Path) -> None:
    save_file({"other": torch.zeros(2)}, tmp_path / "w.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    for name, reason in (
        ("w.safetensors", "does not fit"),
        ("broken.safetensors", "does not fit"),
        ("no.safetensors", "no weights file"),
    ):
        with pytest.raises(ValueError, match=reason):
            model_of(f"{module}:network", weights=tmp_path / name)
    with pytest.raises(ValueError, match=r"must be a \.safetensors file or a checkpoint"):
        model_of(f"{module}:network", weights="w.h5")
    with pytest.raises(ValueError, match=r"into a torch\.nn\.Module only"):
        model_of(f"{module}:function", weights=tmp_path / "w.safetensors")


@pytest.mark.parametrize(
    "name",
    ["nowhere:network", "their_models:missing", "their_models:needs", "their_models:broken", ":x", "their_models:"],
)
def test_names_that_lead_nowhere(module: str, name: str) -> None:
    with pytest.raises(ValueError, match="cannot make a model from"):
        model_of(name)
