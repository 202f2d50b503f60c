"""What a worker is given to do, and what comes of it."""

from typing import NamedTuple

from ..core.grid import Levels
from ..independence.measure import RowsToRecheck
from ..models import Votes
from ..smoothing.blocks import Bits, VoteBlock


class Image(NamedTuple):
    """What a worker sees of an image: its number, which names the noise, and its levels."""

    number: int
    levels: Levels


class Part(NamedTuple):
    """A block of the image at a place."""

    place: int
    block: VoteBlock


class Task(NamedTuple):
    """Blocks of one or more images that are voted together; or some rows of a block again, each alone."""

    parts: tuple[Part, ...]
    again: RowsToRecheck | None = None

    @classmethod
    def of(cls, place: int, block: VoteBlock, again: RowsToRecheck | None = None) -> "Task":
        """A block of one image."""
        return cls((Part(place, block),), again)

    @property
    def only(self) -> Part:
        """The part of a task that has one."""
        (part,) = self.parts
        return part

    @property
    def places(self) -> set[int]:
        return {part.place for part in self.parts}

    @property
    def copies(self) -> int:
        """How many copies vote. Rows that vote again have voted before."""
        return 0 if self.again is not None else sum(part.block.count for part in self.parts)


#: The model's own answers, one for each of some images: a class, or nobody's. (What votes give comes in lists.)
CleanVotes = tuple[int, ...]


class Outcome(NamedTuple):
    """What came of a task: the votes of each part, or None if every attempt failed; and the errors on the way.

    What comes of rows alone is which of them are hits.
    """

    task: Task
    votes: tuple[Votes, ...] | Bits | None
    errors: tuple[str, ...]
    seconds: float

    @property
    def copy_votes(self) -> Votes:
        """The votes of a task that has one block."""
        (votes,) = self.part_votes
        return votes

    @property
    def part_votes(self) -> tuple[Votes, ...]:
        """The votes of each part."""
        assert isinstance(self.votes, tuple)
        return self.votes

    @property
    def bits(self) -> Bits:
        """Of rows alone, which are hits."""
        assert self.votes is not None
        assert not isinstance(self.votes, tuple)
        return self.votes

    def check_size(self) -> None:
        """From every worker on every machine: a vote for each copy, or an answer for each row alone, and no more."""
        parts, again = self.task
        wanted = [part.block.count for part in parts] if again is None else [len(again.rows)]
        given = [len(each.labels) for each in self.votes] if isinstance(self.votes, tuple) else []
        if self.votes is not None and not isinstance(self.votes, tuple):
            given = [len(self.votes)]
        if isinstance(self.votes, tuple) != (again is None) or given != wanted:
            raise ValueError(f"a worker was asked for {sum(wanted)} votes and gave {sum(given)}")
