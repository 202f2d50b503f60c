"""What a run says as a whole, counted inside the store: nothing is loaded, however many certificates there are."""

from collections.abc import Sequence
from fractions import Fraction

from ..exact import float_below
from .store import Store

#: Radii are added up in units of 2⁻³², each truncated: the sum is exact in integers, and never too large.
UNITS = 1 << 32
CORRECT = "FROM certificates JOIN images USING (place) WHERE label = truth"


def labelled(store: Store) -> bool:
    """Whether every image has a promised label."""
    return not store.db.one("SELECT EXISTS (SELECT 1 FROM images WHERE truth IS NULL)")


def certified_accuracies(store: Store, radii: Sequence[Fraction]) -> list[Fraction]:
    """For each radius, the share of all promised images that are correct with a larger one, compared exactly.

    Abstentions, failures and images that are not finished are wrong answers. (A double exceeds a rational exactly if
    it exceeds the largest double that does not.)
    """
    promised = store.db.one("SELECT COUNT(*) FROM images")
    bounds = [float_below(radius) for radius in radii]
    sums = ", ".join("COALESCE(SUM(radius > ?), 0)" for _ in bounds)
    (hits,) = store.db.rows(f"SELECT {sums} {CORRECT}", *bounds)
    return [Fraction(count, promised) for count in hits]


def average_certified_radius(store: Store) -> Fraction:
    """A lower bound, within 2⁻³², on the mean radius, where every wrong answer counts as 0."""
    promised = store.db.one("SELECT COUNT(*) FROM images")
    total = store.db.one(f"SELECT COALESCE(SUM(CAST(radius * {UNITS}.0 AS INTEGER)), 0) {CORRECT}")
    return Fraction(total, UNITS * promised)
