"""What a run says as a whole, one certificate after the other: nothing is loaded, however many there are."""

from collections.abc import Sequence
from fractions import Fraction

from ..certification.report import count_above, sum_of_radii
from .reader import RunReader


def certified_accuracies(run: RunReader, radii: Sequence[Fraction]) -> list[Fraction]:
    """For each radius, the share of all promised images that are correct with a larger one, compared exactly.

    Abstentions, failures and images that are not finished are wrong answers.
    """
    promised = run.progress().images
    return [Fraction(count, promised) for count in count_above(run.correct_radii(), radii)]


def average_certified_radius(run: RunReader) -> Fraction:
    """The mean radius, where every wrong answer counts as 0."""
    return sum_of_radii(run.correct_radii()) / run.progress().images
