"""Fitted classifiers with the methods of scikit-learn's; the real ones are in tests/integrations."""

import threading

import numpy as np
import pytest

import soundsmooth as ss
from soundsmooth.models import model_of
from soundsmooth.models.estimators import EstimatorModel
from soundsmooth.models.load import recipe_of

BATCH = np.array([[[0.1, 0.2]], [[0.8, 0.9]], [[0.6, 0.1]]], np.float32)


class Estimator:
    """Its scores are the row itself, or one logit: how far the second number is above the first."""

    def __init__(self, classes: object = (0, 1)) -> None:
        self.classes_ = np.array(classes)

    def fit(self, x: np.ndarray, y: np.ndarray) -> "Estimator":
        return self


class Probable(Estimator):
    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        assert x.ndim == 2
        return x / x.sum(axis=1, keepdims=True)


class Decided(Estimator):
    def decision_function(self, x: np.ndarray) -> np.ndarray:
        assert x.ndim == 2
        return x[:, 1] - x[:, 0]


class Both(Decided, Probable):
    """As a support vector machine: its probabilities are fitted apart, and may contradict it."""

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return -x


@pytest.mark.parametrize("kind", [Probable, Decided, Both])
def test_an_estimator_gets_rows_of_floats_and_votes(kind: type[Estimator]) -> None:
    model = model_of(kind())
    assert isinstance(model, EstimatorModel)
    found = model.vote(BATCH.copy())
    assert (found.labels.tolist(), found.classes) == ([1, 1, 0], 2)


def test_it_is_certified_under_its_own_digest() -> None:
    estimator = Decided()
    image = np.array([[10, 250]], np.uint8)
    certificate = ss.Smoother(estimator, "0.25", batch_size=20).certify(image, n0=20, n=100, seed="s")
    assert certificate.label == 1
    assert certificate.promise.values["model kind"] == "callable"
    assert model_of(Decided()).identity() == model_of(estimator).identity()
    other = Decided()
    other.offset_ = np.ones(2)
    assert model_of(other).identity() != model_of(estimator).identity()
    assert recipe_of(estimator).build().identity() == model_of(estimator).identity()


@pytest.mark.parametrize("classes", [["cat", "dog"], [1, 2], [0, 2], [-1, 1]])
def test_classes_must_be_the_numbers_of_labels(classes: list[object]) -> None:
    with pytest.raises(ValueError, match=r"must be 0, 1, 2, ….*return_inverse=True"):
        model_of(Probable(classes))


def test_an_estimator_that_is_not_fitted() -> None:
    estimator = Probable()
    del estimator.classes_
    with pytest.raises(ValueError, match="fit it first"):
        model_of(estimator)


def test_as_many_scores_as_classes() -> None:
    with pytest.raises(ValueError, match="2 scores per row for 3 classes"):
        model_of(Probable([0, 1, 2])).vote(BATCH.copy())


def test_what_is_no_estimator() -> None:
    with pytest.raises(ValueError, match="a model is"):
        model_of(Estimator())
    with pytest.raises(ValueError, match="its own affair"):
        model_of(Probable(), device="cuda")


class Machine(Estimator):
    """A support vector machine as it is, or in a pipeline, with scores of pairs of classes."""

    def __init__(self, name: str, shape: str) -> None:
        super().__init__((0, 1, 2))
        self.params = {name: shape}

    def get_params(self, deep: bool = True) -> dict[str, str]:
        return self.params

    def decision_function(self, x: np.ndarray) -> np.ndarray:
        return np.tile([1.0, 2.0, 3.0], (len(x), 1))


@pytest.mark.parametrize("name", ["decision_function_shape", "svc__decision_function_shape"])
def test_three_scores_of_pairs_are_not_those_of_three_classes(name: str) -> None:
    with pytest.raises(ValueError, match=r'has scores of pairs of classes; .*decision_function_shape="ovr"'):
        model_of(Machine(name, "ovo"))
    assert model_of(Machine(name, "ovr")).vote(BATCH.copy()).classes == 3


def test_an_estimator_that_is_fitted_again_does_not_change_what_votes() -> None:
    class Fitted(Decided):
        sign = 1

        def decision_function(self, x: np.ndarray) -> np.ndarray:
            return self.sign * super().decision_function(x)

    source = Fitted()
    model = model_of(source)
    source.sign = -1
    assert model.vote(BATCH.copy()).labels.tolist() == [1, 1, 0]
    assert model.identity().digest != model_of(source).identity().digest


def test_an_estimator_that_cannot_be_copied_is_told_what_to_write() -> None:
    source = Decided()
    source.lock = threading.Lock()
    with pytest.raises(ValueError, match=r"the estimator cannot be copied .*; give a function that calls it instead"):
        model_of(source)
