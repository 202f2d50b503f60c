"""The interface that the field copied, with certificates that hold: `Smooth(model, classes, sigma).certify(x, …)`.

    from soundsmooth.compat import ABSTAIN, Smooth

    smooth = Smooth(model, 10, 0.25)
    prediction, radius = smooth.certify(x, n0=100, n=100_000, alpha=0.001, batch_size=1000)

`soundsmooth.compat.art` has the same for the Adversarial Robustness Toolbox. docs/from-smoothing.md says what changes.
"""

from typing import Any

from ..certification.certificate import Certificate
from ..core.integers import integer
from ..exact import Rational
from ..smoother import Smoother

#: What `certify` and `predict` return instead of a class when they abstain.
ABSTAIN = -1


class Smooth:
    """A smoothed classifier g, called as scripts for randomized smoothing call it.

    `base_classifier` is anything that `ss.Smoother` takes; it sees values in [0, 1] plus noise, so normalisation is its
    first layer. `options` are those of `ss.Smoother`, such as `device` and `dtype`. The model's number of classes must
    be `num_classes`.
    """

    ABSTAIN = ABSTAIN

    def __init__(self, base_classifier: Any, num_classes: int, sigma: Rational, **options: Any) -> None:
        self.num_classes = integer(num_classes, "num_classes")
        self.base_classifier, self.sigma = base_classifier, sigma
        self._smoother = Smoother(base_classifier, sigma, **options)
        self.certificate: Certificate | None = None
        """The certificate behind the last answer of `certify`."""

    def certify(self, x: Any, n0: int, n: int, alpha: Rational, batch_size: int) -> tuple[int, float]:
        """The class and the ℓ₂ radius around x within which the smoothed classifier keeps it; or ABSTAIN and 0.0.

        Guarantee: that of `Smoother.certify`. The radius is proved and rounded down.
        """
        found = self._smoother.with_batch_size(batch_size).certify(x, n0=n0, n=n, alpha=alpha)
        check_class_count("num_classes", self.num_classes, len(found.estimation.classes))
        self.certificate = found
        return (ABSTAIN if found.label is None else found.label), found.radius

    def predict(self, x: Any, n: int, alpha: Rational, batch_size: int) -> int:
        """The class that the smoothed classifier gives x, or ABSTAIN; wrong with probability at most alpha."""
        found = self._smoother.with_batch_size(batch_size).predict(x, n=n, alpha=alpha)
        check_class_count("num_classes", self.num_classes, len(found.counts.classes))
        return ABSTAIN if found.label is None else found.label


def check_class_count(name: str, expected: int, found: int) -> None:
    """A ValueError if a model has another number of classes than was said under that name."""
    if found != expected:
        raise ValueError(f"the model has {found} classes, and {name} is {expected}")
