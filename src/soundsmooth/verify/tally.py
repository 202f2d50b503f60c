"""What the certificates say together. Whatever has no certificate is a wrong answer."""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ..report import RADII


@dataclass
class Tally:
    """Counted one certificate at a time; the denominator is the promised number of images."""

    promised: int = 0
    certified: int = 0
    abstained: int = 0
    failed: int = 0
    refused: int = 0
    """Records in a file of certificates that count for nothing."""
    accepted: int = 0
    """Certificates and abstentions whose arithmetic is accepted."""
    loose: int = 0
    """Accepted ones that claim less than their counts allow: sound, but not what this program issues."""
    unlabelled: int = 0
    """Certificates for images without a promised label."""
    above: Counter[Fraction] = field(default_factory=Counter)
    """For each radius, how many are correct with a larger one."""

    @property
    def finished(self) -> int:
        return self.certified + self.abstained

    @property
    def open(self) -> int:
        """Promised images with neither a certificate nor a failure."""
        return max(0, self.promised - self.finished - self.failed)

    def add(self, label: int | None, truth: int | None, radius: float, accepted: bool, tight: bool) -> None:
        self.certified += label is not None
        self.abstained += label is None
        self.accepted += accepted
        self.loose += accepted and not tight
        self.unlabelled += truth is None
        if label is not None and label == truth:
            self.above.update(r for r in RADII if Fraction(radius) > r)

    def accuracies(self, lost: int = 0) -> dict[Fraction, Fraction]:
        """The share of all promised images that are correct with a larger radius, as stated, less `lost` of them."""
        if self.unlabelled or not self.promised:
            return {}
        return {r: Fraction(max(0, self.above[r] - lost), self.promised) for r in RADII if r == 0 or self.above[r]}

    def to_dict(self) -> dict[str, Any]:
        return {
            "promised": self.promised,
            "certified": self.certified,
            "abstained": self.abstained,
            "failed": self.failed,
            "refused": self.refused,
            "open": self.open,
            "accepted": self.accepted,
            "loose": self.loose,
            "accuracy": {str(radius): str(share) for radius, share in self.accuracies().items()},
        }
