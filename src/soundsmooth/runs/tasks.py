"""What a worker is given to do, and what comes of it."""

from typing import NamedTuple

from ..core.grid import Levels
from ..independence.measure import RowsToRecheck
from ..smoothing.blocks import Bits, VoteBlock
from ..smoothing.voting import CopyVotes


class Image(NamedTuple):
    """What a worker sees of an image: its number, which names the noise, and its levels."""

    number: int
    levels: Levels


class Task(NamedTuple):
    """A block of the image at a place; or some of its rows again, each alone."""

    place: int
    block: VoteBlock
    again: RowsToRecheck | None = None


class CleanVotes(NamedTuple):
    """The model's own answers, one for each of some images: a class, or nobody's."""

    labels: list[int]


class Outcome(NamedTuple):
    """What came of a task: its votes, or None if every attempt failed; and the errors on the way.

    What comes of rows alone is which of them are hits.
    """

    task: Task
    votes: CopyVotes | Bits | None
    errors: tuple[str, ...]
    seconds: float

    @property
    def copy_votes(self) -> CopyVotes:
        """The votes of a block."""
        assert isinstance(self.votes, CopyVotes)
        return self.votes

    @property
    def bits(self) -> Bits:
        """Of rows alone, which are hits."""
        assert self.votes is not None
        assert not isinstance(self.votes, CopyVotes)
        return self.votes

    def check_size(self) -> None:
        """From every worker on every machine: a vote for each copy, or an answer for each row alone, and no more."""
        votes, (_, block, again) = self.votes, self.task
        wanted = block.count if again is None else len(again.rows)
        given = 0 if votes is None else len(votes.labels if isinstance(votes, CopyVotes) else votes)
        if isinstance(votes, CopyVotes) != (again is None) or given != wanted:
            raise ValueError(f"a worker was asked for {wanted} votes and gave {given}")
