"""An estimator of the Adversarial Robustness Toolbox (ART): `certify` and `predict` on batches, as its own have them.

It needs `pip install adversarial-robustness-toolbox`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from art.estimators.classification.classifier import ClassifierMixin
from art.estimators.estimator import BaseEstimator

from ..certification.certificate import Certificate
from ..exact import Rational
from ..smoother import Smoother
from .smooth import ABSTAIN, check_class_count

Array = npt.NDArray[Any]


class SmoothedClassifier(ClassifierMixin, BaseEstimator):
    """A smoothed classifier for ART. As in ART's own, `sample_size` copies select a class and answer `predict`.

    `model` and `options` are those of `ss.Smoother`. Images are floats in [0, 1], or integer levels.
    """

    def __init__(
        self,
        model: Any,
        nb_classes: int,
        input_shape: tuple[int, ...],
        sample_size: int = 100,
        scale: Rational = "0.25",
        alpha: Rational = "0.001",
        **options: Any,
    ) -> None:
        super().__init__(model=model, clip_values=(0.0, 1.0))
        self.nb_classes, self._input_shape = nb_classes, input_shape
        self.sample_size, self.scale, self.alpha = sample_size, scale, alpha
        self._smoother = Smoother(model, scale, **options)
        self.certificates: list[Certificate] = []
        """Those behind the last answer of `certify`."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self._input_shape

    def fit(self, x: Array, y: Array, **kwargs: Any) -> None:
        """Not here: the model must have been trained, under noise of about the same scale."""
        raise ValueError("train the model itself, under noise, and give it to SmoothedClassifier")

    def predict(self, x: Array, batch_size: int = 128, **kwargs: Any) -> Array:
        """One row for each image: 1 for the class that the smoothed classifier gives it; all 0 where it abstains."""
        answers = np.zeros((len(x), self.nb_classes))
        for row, image in zip(answers, x, strict=True):
            found = self._smoother.predict(image, n=self.sample_size, alpha=self.alpha)
            check_class_count("nb_classes", self.nb_classes, len(found.counts.classes))
            if found.label is not None:
                row[found.label] = 1
        return answers

    def certify(self, x: Array, n: int, batch_size: int = 32) -> tuple[Array, Array]:
        """The classes (−1 for an abstention) and the ℓ₂ radii of the images, all under one promise.

        Guarantee: that of `Smoother.certify_all`; α holds for each image.
        """
        run = self._smoother.certify_all(x, n=n, n0=self.sample_size, alpha=self.alpha)
        self.certificates = list(run)
        for each in self.certificates:
            check_class_count("nb_classes", self.nb_classes, len(each.estimation.classes))
        found = {each.index: each for each in self.certificates}
        labels = [found[i].label if i in found else None for i in range(len(x))]
        radii = [found[i].radius if i in found else 0.0 for i in range(len(x))]
        return np.array([ABSTAIN if label is None else label for label in labels]), np.array(radii)
