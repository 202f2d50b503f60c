"""UNSOUND: stands for the file that scripts for randomized smoothing copy, so that they run here as they are."""

from typing import Any

from soundsmooth.lab.unsound import UnsoundStandard


class Smooth:
    """A smoothed classifier in floats, with the usual signatures."""

    ABSTAIN = -1

    def __init__(self, base_classifier: Any, num_classes: int, sigma: float) -> None:
        self._smooth = UnsoundStandard(base_classifier, num_classes, sigma, backend="torch")

    def certify(self, x: Any, n0: int, n: int, alpha: float, batch_size: int) -> tuple[int, float]:
        found = self._smooth.certify(x, n0, n, alpha, batch_size)
        return (self.ABSTAIN if found.label is None else found.label), found.radius

    def predict(self, x: Any, n: int, alpha: float, batch_size: int) -> int:
        found = self._smooth.predict(x, n, alpha, batch_size)
        return self.ABSTAIN if found is None else found
