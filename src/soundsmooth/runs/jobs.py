"""What a worker has to know of a run, what it is given to do, and what comes of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..grid import Levels
from ..models import Identity
from ..noise.sources import FreshNoise, SharedNoise, Source
from ..settings import Settings
from ..smoothing.classifier import Replica, check_unchanged
from ..smoothing.voting import CopyVotes, Voting
from .blocks import Bits, VoteBlock


@dataclass(frozen=True)
class VotingJob:
    """What a worker has to know of a run: the key but not the seed, and neither labels nor other inputs."""

    identity: Identity
    settings: Settings
    shape: tuple[int, ...]
    batch: int
    key: bytes = field(repr=False)

    def noise(self, replica: Replica, keep: int | None = None) -> Callable[[int], Source]:
        """The noise for the input of a number: its own, or one for all, of which the last `keep` batches are kept."""
        if self.settings.noise == "fresh":
            return lambda index: FreshNoise(replica.sampler, self.key, index)
        shared = SharedNoise(replica.sampler, self.key, keep)
        return lambda index: shared

    def voting(self, replica: Replica) -> Voting:
        return Voting(replica.model, self.batch, self.identity.flags)

    def check_model(self, replica: Replica, changed: Callable[[], bool]) -> None:
        """A ModelChangedError unless the promised model is the one that voted, as far as can be seen from outside."""
        check_unchanged(replica.model, self.identity, changed, "certified")


class Image(NamedTuple):
    """What a worker sees of an image: its number, which names the noise, and its levels."""

    number: int
    levels: Levels


class Again(NamedTuple):
    """Rows that were hits in their batch and are voted again, each alone."""

    label: int
    rows: tuple[int, ...]
    """Numbers of copies for estimation, in order, each once."""


class Task(NamedTuple):
    """A block of the image at a place; or some of its rows again, each alone."""

    place: int
    block: VoteBlock
    again: Again | None = None


class Outcome(NamedTuple):
    """What came of a task: its votes, or None if every attempt failed; and the errors on the way.

    What comes of rows alone is which of them are hits.
    """

    task: Task
    votes: CopyVotes | Bits | None
    errors: tuple[str, ...]
    seconds: float
