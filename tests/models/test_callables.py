"""Python functions as models."""

import numpy as np
import pytest

from classifiers import brightness
from soundsmooth.models import model_of
from soundsmooth.models.callables import CallableModel
from soundsmooth.models.first_digest import code_digest


def test_votes_come_from_the_scores() -> None:
    model = CallableModel(brightness)
    batch = np.array([[0.1, 0.2], [0.8, 0.9]], np.float32)
    assert model.vote(batch).labels.tolist() == [0, 1]


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
