"""The rule that turns scores into votes is part of F: it must be one fixed rule, on every back end."""

import numpy as np
import pytest
import torch

from soundsmooth.models.protocol import NOBODY, votes
from soundsmooth.models.torch_module import TorchModel

NAN, INF = float("nan"), float("inf")
CASES = [
    ([1.0, 3.0, 2.0], 1),
    ([2.0, 2.0, 1.0], 0),  # ties fall to the lowest class
    ([1.0, 2.0, 2.0], 1),
    ([0.0, 0.0, 0.0], 0),
    ([-0.0, 0.0, -1.0], 0),  # both zeros are the same number
    ([NAN, 1.0, 2.0], NOBODY),
    ([5.0, 1.0, NAN], NOBODY),
    ([INF, 1.0, NAN], NOBODY),
    ([-INF, -INF, -INF], 0),
    ([1.0, INF, INF], 1),
    ([-INF, 1.0, INF], 2),
]


@pytest.mark.parametrize(("scores", "expected"), CASES)
def test_rule_in_numpy(scores: list[float], expected: int) -> None:
    assert votes(np.array([scores], np.float32), 1).labels.tolist() == [expected]


class Constant(torch.nn.Module):
    """Returns the same scores for every row."""

    def __init__(self, scores: list[float]) -> None:
        super().__init__()
        self.scores = torch.nn.Parameter(torch.tensor(scores))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores.expand(len(x), -1)


@pytest.mark.parametrize("dtype", ["float32", "bf16", "fp16"])
@pytest.mark.parametrize(("scores", "expected"), CASES)
def test_rule_in_torch_is_the_same(scores: list[float], expected: int, dtype: str) -> None:
    model = TorchModel(Constant(scores), dtype=dtype)
    assert model.vote(np.zeros((2, 3), np.float32)).labels.tolist() == [expected, expected]


def test_ties_among_many_classes_fall_to_the_lowest_in_torch() -> None:
    """torch's own argmax may return any of the maxima; with 1000 equal scores a wrong rule would show."""
    assert TorchModel(Constant([0.5] * 1000)).vote(np.zeros((64, 2), np.float32)).labels.tolist() == [0] * 64


@pytest.mark.parametrize("shape", [(4,), (4, 1), (3, 2), (4, 2, 2), ()])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"\[batch, classes\]"):
        votes(np.zeros(shape), 4)


@pytest.mark.parametrize("dtype", [np.complex64, np.bool_, object])
def test_scores_must_be_real_numbers(dtype: type) -> None:
    with pytest.raises(ValueError, match="real numbers"):
        votes(np.zeros((4, 2), dtype), 4)


def test_integer_scores_vote() -> None:
    assert votes(np.array([[0, 1], [1, 0]]), 2).labels.tolist() == [1, 0]
