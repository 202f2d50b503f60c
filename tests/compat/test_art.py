"""The estimator for ART answers as ours does, in ART's shapes."""

import numpy as np
import pytest

pytest.importorskip("art", reason="needs adversarial-robustness-toolbox")

from art.estimators.classification.classifier import ClassifierMixin

from classifiers import brightness
from soundsmooth.compat.art import SmoothedClassifier

IMAGES = np.stack([np.full((1, 4, 4), level / 255, np.float32) for level in (5, 250)])


def estimator(**given: object) -> SmoothedClassifier:
    return SmoothedClassifier(brightness, 2, (1, 4, 4), **given)


def test_it_is_one_of_arts_classifiers() -> None:
    made = estimator()
    assert isinstance(made, ClassifierMixin)
    assert made.input_shape == (1, 4, 4)
    assert made.nb_classes == 2


def test_certificates_are_those_of_a_run() -> None:
    made = estimator()
    labels, radii = made.certify(IMAGES, n=400)
    assert labels.tolist() == [0, 1]
    assert [each.radius for each in made.certificates] == radii.tolist()
    assert (radii > 0.3).all()


def test_predictions_are_rows_of_one_and_zero() -> None:
    assert estimator().predict(IMAGES).tolist() == [[1, 0], [0, 1]]


def test_an_abstention_is_a_row_of_zeros_and_a_radius_of_zero() -> None:
    made = SmoothedClassifier(lambda batch: np.zeros((len(batch), 2)) * np.nan, 2, (1, 4, 4))
    assert made.predict(IMAGES[:1]).tolist() == [[0, 0]]
    labels, radii = made.certify(IMAGES[:1], n=100)
    assert (labels.tolist(), radii.tolist()) == ([-1], [0.0])


def test_it_does_not_train_and_knows_its_classes() -> None:
    with pytest.raises(ValueError, match="train the model itself"):
        estimator().fit(IMAGES, np.array([0, 1]))
    with pytest.raises(ValueError, match="the model has 2 classes, and nb_classes is 3"):
        SmoothedClassifier(brightness, 3, (1, 4, 4)).predict(IMAGES)
