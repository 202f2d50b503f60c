"""What a run's file holds, as values."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ..certification.certificate import Certificate
from ..certification.certify import Counts
from ..certification.goal import Goal, GoalOptions
from ..certification.promise import Promise, Secret
from ..certification.settings import Settings, promised_settings
from ..smoothing.blocks import VoteBlock


@dataclass(frozen=True)
class RunTerms:
    """What a run is fixed to when it begins: the promise and the key, and what is stored of the votes."""

    promise: Promise
    secret: Secret
    block: int
    votes: bool
    """Whether the bitmaps of hits are kept."""
    noted: GoalOptions | None = None
    """The options that say when to stop, where they were noted."""

    @property
    def batch(self) -> int:
        return int(self.promise.values["batch"])

    @property
    def asked(self) -> GoalOptions:
        """The same; where they were not noted, what the promise tells of them."""
        looks = self.settings.looks
        if self.noted is not None or looks is None:
            return self.noted or {}
        radii = tuple(radius for radius, _ in looks.radii)
        return Goal(radii or None, skip_wrong=looks.skip_wrong).options

    @cached_property
    def settings(self) -> Settings:
        return promised_settings(self.promise.values)


class StoredBlock(NamedTuple):
    """A block as it is in the file, after its form was checked."""

    block: VoteBlock
    counts: Counts
    hits: bytes | None
    """`blocks.hits_of` unpacks them; None for selection, or where they were left out."""
    environment: int
    seconds: float


class StoredCertificate(NamedTuple):
    """A certificate as it is in the file: the record, its JSON, and whether that fits the stored digest."""

    certificate: Certificate
    record: dict[str, Any]
    line: str
    fits: bool


@dataclass(frozen=True)
class Failure:
    """An image on which the model failed again and again: no certificate, and a wrong answer in every count."""

    index: int
    truth: int | None
    attempts: int
    error: str
    radius = p_lower = 0.0
    correct = False
    status = "failed"


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    images: int
    certified: int
    abstained: int
    failed: int
    findings: int
    skipped: int = 0
    """Images that ended after selection, which chose another class than the label."""
    aborted: int = 0
    """Of all finished images, those that were ended from outside."""

    @property
    def finished(self) -> int:
        return self.certified + self.abstained + self.skipped

    @property
    def open(self) -> int:
        return self.images - self.finished - self.failed


def whole(text: str, name: str) -> int:
    """A positive whole number, written in the one way; a ValueError for anything else."""
    if not text.isascii() or not text.isdecimal() or str(int(text[:20])) != text or int(text) < 1:
        raise ValueError(f"the run's {name} is no positive whole number: {text!r:.80}")
    return int(text)
