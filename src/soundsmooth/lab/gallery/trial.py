"""A trial of the gallery: one entry against one certifier, and one verdict."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Finding(StrEnum):
    """The verdict. A sound certifier never gets FALSE or VOID."""

    FALSE_POINT = "FALSE (point)"
    """The certified ball holds a legal point whose other class is itself established."""
    FALSE_RATE = "FALSE (rate)"
    """Certificates are false more often than α allows: exact binomial P < 10⁻⁶."""
    FALSE_NUMBER = "FALSE (number)"
    """A printed or stored number exceeds the one proved in ball arithmetic."""
    VOID = "VOID"
    """The base classifier breaks the theorem's assumption, so the certificate says nothing."""
    REFUSED = "refused"
    """The certifier declined."""
    HOLDS = "holds"
    ABSTAINS = "abstains"

    @property
    def bad(self) -> bool:
        return self.name.startswith("FALSE") or self is Finding.VOID


@dataclass(frozen=True)
class Trial:
    """One row of the gallery's table."""

    entry: str
    certifier: str
    finding: Finding
    radius: float | None = None
    distance: float | None = None
    counts: tuple[tuple[int, ...], ...] = ()
    """The votes at the point that was certified, and at the one that contradicts it."""
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a line of JSON."""
        return {
            "entry": self.entry,
            "certifier": self.certifier,
            "verdict": str(self.finding),
            "radius": self.radius,
            "distance": self.distance,
            "counts": [list(counts) for counts in self.counts],
            "note": self.note,
        }
