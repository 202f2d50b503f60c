"""What has to be known of a run by the one who votes in it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ..certification.settings import Settings
from ..models import Identity
from ..noise import Purpose
from ..noise.sources import FreshNoise, SharedNoise, Source
from .classifier import Replica, check_unchanged, voting_batch
from .voting import Voting


@dataclass(frozen=True)
class VotingJob:
    """What a worker has to know of a run: the key but not the seed, and neither labels nor other inputs."""

    identity: Identity
    settings: Settings
    shape: tuple[int, ...]
    batch: int
    key: bytes = field(repr=False)
    artifact: bytes | None = field(default=None, repr=False)
    """The model's kernels, if they were chosen by timing."""

    def noise(self, replica: Replica, keep: int | None = None) -> Callable[[int], Source]:
        """The noise for the input of a number: its own, or one for all, of which the last `keep` batches are kept."""
        if self.settings.noise == "fresh":
            return lambda index: FreshNoise(replica.sampler, self.key, index)
        shared = SharedNoise(replica.sampler, self.key, keep)
        return lambda index: shared

    def voting(self, replica: Replica, purpose: Purpose) -> Voting:
        """Who votes on copies of a purpose, in batches of the promised size, or of a sample that is smaller."""
        batch = voting_batch(replica.model, self.batch, self.settings, purpose)
        return Voting(replica.model, batch, self.identity.flags)

    def check_model(self, replica: Replica, changed: Callable[[], bool]) -> None:
        """A ModelChangedError unless the promised model is the one that voted, as far as can be seen from outside."""
        check_unchanged(replica.model, self.identity, changed, "certified")
