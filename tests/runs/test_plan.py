"""What is rejected before anything is promised, written or voted on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import soundsmooth as ss
from classifiers import brightness
from golden.models import differences
from golden.surface import DATA
from soundsmooth.runs import voter

X = np.array([[10, 220, 30, 40], [250, 40, 30, 20]], np.uint8).reshape(2, 1, 2, 2)


class Fitted:
    """As scikit-learn's."""

    classes_ = np.arange(3)

    def fit(self, x: np.ndarray, y: np.ndarray) -> "Fitted":
        return self

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return rows[:, :3]


class Unproved(torch.nn.Module):
    """There is no rule for `empty_like`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)[:, :3] + torch.empty_like(x.flatten(1)[:, :3]).fill_(0)


def no_votes(*_: object) -> None:
    raise AssertionError("somebody has voted, or is about to")


#: Models of three classes, how their rows are made sure of, and whether a commitment, which tries nothing, is told.
MODELS: dict[str, tuple[Callable[[], Any], str, bool]] = {
    "onnx": (lambda: DATA / "linear.onnx", "auto", True),
    "onnx, assumed": (lambda: DATA / "linear.onnx", "assumed", True),
    "torch, proved": (lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), "auto", True),
    "torch, assumed": (Unproved, "assumed", True),
    "estimator": (Fitted, "assumed", True),
    "function, checked": (lambda: differences, "checked", False),
    "function, measured": (lambda: differences, "measured", False),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_label_that_is_no_class_is_rejected_before_any_vote(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voter.Voter, "__init__", no_votes)
    make, independence, early = MODELS[name]
    smooth = ss.Smoother(make(), "1/4", independence=independence, threads=1)
    text = "label 3 is no class of the model: its classes are 0 to 2, and labels must be numbered like them$"
    with pytest.raises(ValueError, match=text):
        smooth.certify_all(X, [0, 3], n=10, out=tmp_path / "run.db")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match=text):
        smooth.certify(X[0], label=3, n=10)
    if early:
        with pytest.raises(ValueError, match=text):
            smooth.commit(X, [0, 3], n=10, seed="s")
    assert smooth.commit(X, [0, 2], n=10, seed="s").values["input count"] == "2"


def test_a_model_that_does_not_tell_is_asked_by_the_first_block(tmp_path: Path) -> None:
    smooth = ss.Smoother(brightness, "1/4", independence="assumed")
    with pytest.raises(ValueError, match=r"label 3 is no class.* delete '.*run\.db', which holds no votes yet"):
        smooth.certify_all(X, [0, 3], n=10, out=tmp_path / "run.db")


def test_a_graph_that_leaves_its_classes_open_does_not_tell(tmp_path: Path) -> None:
    graph = onnx.load(DATA / "linear.onnx")
    graph.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "classes"
    onnx.save(graph, tmp_path / "open.onnx")
    smooth = ss.Smoother(tmp_path / "open.onnx", "1/4", threads=1)
    assert smooth.commit(X, [0, 3], n=10, seed="s").values["model kind"] == "onnx"
    with pytest.raises(ValueError, match="its classes are 0 to 2"):
        smooth.certify_all(X, [0, 3], n=10)
