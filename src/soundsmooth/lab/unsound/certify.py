"""UNSOUND, for comparison only: Certify and Predict, which the paper's Algorithms 1 and 2 have in common.

The two algorithms differ in SampleUnderNoise alone; `standard` and `paper64` each bring their own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ...exact import (
    Rational,
    clopper_pearson_below,
    fair_coin_rejected,
    hoeffding_below,
    positive,
    probability,
    radius_below,
)

Counts = npt.NDArray[np.int64]
#: The votes of the copies from `first` on, `copies` of them; one that votes for nobody is left out.
Votes = Callable[[int, int], npt.NDArray[Any]]

#: A batch [B, *shape] of floats, NumPy's or torch's, to scores [B, classes] of the same kind.
Classifier = Callable[[Any], Any]

# The field takes scipy's beta.ppf and norm.ppf, which may lie above the true values (ledger, row 5). Rounding is not
# the point of this room, and scipy is no dependency of ours: here these two steps are the proved ones.
LOWER_CONF_BOUND: dict[str, Callable[[int, int, Fraction], float]] = {
    "clopper-pearson": clopper_pearson_below,
    "hoeffding": hoeffding_below,
}


@dataclass(frozen=True)
class UnsoundResult:
    """The result of Certify. It is NOT a certificate: the radius may be false."""

    label: int | None
    """The class, or None for an abstention."""
    radius: float
    """σ·Φ⁻¹(p_lower); 0 for an abstention."""
    p_lower: float
    """The confidence bound for the class found in selection."""
    counts: tuple[int, ...]
    """The votes of the estimation, class by class; a copy whose noise failed is in none of them."""
    selection: tuple[int, ...]
    """The votes of the selection, class by class: p_lower is about their top class."""


class UnsoundSmooth(ABC):
    """UNSOUND, for comparison only: a classifier smoothed as in the paper's Algorithm 1 or 2."""

    def __init__(self, classifier: Classifier, num_classes: int, sigma: Rational) -> None:
        """`classifier` maps a batch [B, *shape] of floats to scores [B, num_classes]; the argmax is its vote."""
        if num_classes < 2:
            raise ValueError(f"a classifier needs at least 2 classes, not {num_classes}")
        self.classifier = classifier
        self.num_classes = num_classes
        self.sigma = positive(sigma, "sigma")

    @abstractmethod
    def sample_under_noise(self, x: Any, n: int, batch_size: int = 1000) -> Counts:
        """SampleUnderNoise: the votes of n noisy copies of x, class by class."""

    def certify(
        self,
        x: Any,
        n0: int = 100,
        n: int = 100_000,
        alpha: Rational = "0.001",
        batch_size: int = 1000,
        bound: str = "clopper-pearson",
    ) -> UnsoundResult:
        """Certify, line for line. `bound` is "clopper-pearson" or "hoeffding".

        The field says of it: with probability at least 1 − α, the smoothed classifier has this label everywhere
        within the radius. On a computer that sentence does not hold.
        """
        level = probability(alpha, "alpha")
        if bound not in LOWER_CONF_BOUND:
            raise ValueError(f"bound must be one of {', '.join(LOWER_CONF_BOUND)}, not {bound!r}")
        counts0 = self.sample_under_noise(x, n0, batch_size)
        guess = int(counts0.argmax())
        counts = self.sample_under_noise(x, n, batch_size)
        p = LOWER_CONF_BOUND[bound](int(counts[guess]), n, level)
        votes, votes0 = (tuple(int(count) for count in each) for each in (counts, counts0))
        if p > 0.5:
            return UnsoundResult(guess, radius_below(p, self.sigma), p, votes, votes0)
        return UnsoundResult(None, 0.0, p, votes, votes0)

    def predict(self, x: Any, n: int = 1000, alpha: Rational = "0.001", batch_size: int = 1000) -> int | None:
        """The field's Predict: the class with the most votes if a binomial test can tell the top two apart."""
        level = probability(alpha, "alpha")
        counts = self.sample_under_noise(x, n, batch_size)
        top, runner_up = (int(i) for i in np.argsort(-counts, kind="stable")[:2])
        return top if fair_coin_rejected(int(counts[top]), int(counts[runner_up]), level) else None

    def _scores(self, batch: Any) -> Any:
        """The classifier's scores for a batch, which must have one row for each copy and one column for each class."""
        scores = self.classifier(batch)
        expected = (batch.shape[0], self.num_classes)
        if tuple(scores.shape) != expected:
            raise ValueError(f"the classifier returned shape {tuple(scores.shape)}, not [batch, classes] = {expected}")
        return scores


def count_votes(votes: Votes, n: int, num_classes: int, batch_size: int) -> Counts:
    """The loop of SampleUnderNoise: ask for the votes of n copies, batch by batch, and count them by class."""
    counts = np.zeros(num_classes, np.int64)
    for first, copies in batches(n, batch_size):
        counts += np.bincount(votes(first, copies), minlength=num_classes)
    return counts


def batches(n: int, batch_size: int) -> Iterator[tuple[int, int]]:
    """The first copy and the size of each batch. The last batch may be smaller, as the field runs it."""
    if n < 1 or batch_size < 1:
        raise ValueError(f"n and batch_size must be at least 1, not {n} and {batch_size}")
    for first in range(0, n, batch_size):
        yield first, min(batch_size, n - first)
