"""What the certificates say together. Whatever has no certificate is a wrong answer."""

from array import array
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ..audit import Report
from ..certification.report import RADII, count_above


def _no_radii() -> "array[float]":
    return array("d")


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
    correct: "array[float]" = field(default_factory=_no_radii)
    """The radii of those with the promised label."""

    @property
    def finished(self) -> int:
        return self.certified + self.abstained

    @property
    def open(self) -> int:
        """Promised images with neither a certificate nor a failure."""
        return max(0, self.promised - self.finished - self.failed)

    def add(self, label: int | None, truth: int | None, radius: float, report: Report) -> None:
        self.certified += label is not None
        self.abstained += label is None
        self.accepted += report.accepted
        self.loose += report.accepted and not report.tight
        self.unlabelled += truth is None
        if label is not None and label == truth:
            self.correct.append(radius)

    @property
    def above(self) -> dict[Fraction, int]:
        """For each radius, how many are correct with a larger one."""
        return dict(zip(RADII, count_above(self.correct, RADII), strict=True))

    def accuracies(self) -> dict[Fraction, Fraction]:
        """The share of all promised images that are correct with a larger radius, as stated."""
        if self.unlabelled or not self.promised:
            return {}
        return {r: Fraction(count, self.promised) for r, count in self.above.items() if r == 0 or count}

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
