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


ONE_LOGIT = [(1.5, 1), (1e-45, 1), (0.0, 0), (-0.0, 0), (-2.0, 0), (INF, 1), (-INF, 0), (NAN, NOBODY)]


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_logit_per_row_is_class_1_above_zero(shape: tuple[int, ...]) -> None:
    logits, expected = zip(*ONE_LOGIT, strict=True)
    found = votes(np.array(logits, np.float32).reshape(shape), len(logits))
    assert (found.labels.tolist(), found.classes) == ([*expected], 2)
    among_two = np.array([(0.0, logit) for logit in logits], np.float32)
    assert votes(among_two, len(logits)).labels.tolist() == [*expected]  # as if class 0 had the score 0


@pytest.mark.parametrize("dtype", ["float32", "bf16", "fp16"])
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_logit_per_row_in_torch_is_the_same(shape: tuple[int, ...], dtype: str) -> None:
    class Passing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(shape)

    logits = np.array([logit for logit, _ in ONE_LOGIT if logit != 1e-45], np.float32)
    found = TorchModel(Passing(), dtype=dtype).vote(logits.reshape(-1, 1))
    assert (found.labels.tolist(), found.classes) == (votes(logits, len(logits)).labels.tolist(), 2)


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_one_integer_per_row_is_a_label_and_no_score(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="these are labels"):
        votes(np.zeros(shape, np.int64), 4)


@pytest.mark.parametrize("shape", [(3,), (3, 1), (4, 0), (3, 2), (4, 2, 2), (4, 1, 1), ()])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"\[batch, classes\]"):
        votes(np.zeros(shape), 4)


@pytest.mark.parametrize("dtype", [np.complex64, np.bool_, object])
def test_scores_must_be_real_numbers(dtype: type) -> None:
    with pytest.raises(ValueError, match="real numbers"):
        votes(np.zeros((4, 2), dtype), 4)


def test_integer_scores_vote() -> None:
    assert votes(np.array([[0, 1], [1, 0]]), 2).labels.tolist() == [1, 0]
