"""Python functions as models."""

import ml_dtypes
import numpy as np
import pytest
import torch

from classifiers import brightness
from soundsmooth.models import model_of
from soundsmooth.models.callables import CallableModel
from soundsmooth.models.first_digest import code_digest


def test_votes_come_from_the_scores() -> None:
    model = CallableModel(brightness)
    batch = np.array([[0.1, 0.2], [0.8, 0.9]], np.float32)
    assert model.vote(batch).labels.tolist() == [0, 1]


class Elsewhere:
    """An array of another library, as JAX has them: NumPy can read it."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.values


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_scores_of_other_libraries_vote(dtype: type) -> None:
    model = CallableModel(lambda batch: Elsewhere(brightness(batch).astype(dtype)))
    assert model.vote(np.array([[0.1, 0.2], [0.8, 0.9]], np.float32)).labels.tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scores_in_torch_vote_with_and_without_gradients(dtype: torch.dtype) -> None:
    weight = torch.tensor([[1.0, -1.0]], requires_grad=True)
    model = CallableModel(lambda batch: (torch.from_numpy(batch) @ weight.T @ weight).to(dtype))
    assert model.vote(np.array([[1, 0], [0, 1]], np.float32)).labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    "function",
    [
        torch.nn.functional.relu,
        lambda batch: torch.nn.functional.linear(batch, torch.zeros(2, 2)),
        lambda batch: batch.unsqueeze(1),
        lambda batch: torch.nn.Conv2d(1, 1, 1)(batch),
    ],
)
def test_a_function_that_wants_tensors_is_told_the_line_to_write(function) -> None:
    with pytest.raises(ValueError, match=r"begin the function with batch = torch\.from_numpy\(batch\)"):
        CallableModel(function).vote(np.zeros((2, 2), np.float32))


def test_other_errors_of_a_function_are_its_own() -> None:
    def broken(batch: np.ndarray) -> np.ndarray:
        return batch + None

    with pytest.raises(TypeError, match="unsupported operand"):
        CallableModel(broken).vote(np.zeros((2, 2), np.float32))


def test_identity_follows_the_code() -> None:
    assert CallableModel(brightness).identity().kind == "callable"
    assert code_digest(brightness) == code_digest(brightness)
    assert code_digest(brightness) != code_digest(test_votes_come_from_the_scores)
    assert code_digest(eval("lambda x: x + 1")) != code_digest(eval("lambda x: x + 2"))  # no source to read


def test_proof_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be proved for a Python callable"):
        model_of(brightness, independence="proved")


def test_unknown_independence_is_refused() -> None:
    with pytest.raises(ValueError, match="independence must be"):
        model_of(brightness, independence="hoped")


@pytest.mark.parametrize("options", [{"device": "cuda"}, {"dtype": "bf16"}, {"channels_last": True}])
def test_options_that_mean_nothing_here_are_refused(options: dict) -> None:
    with pytest.raises(ValueError, match="its own affair"):
        model_of(brightness, **options)


def test_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="a model is"):
        model_of(42)
