"""What a worker is given to do, and what comes of it."""

from typing import NamedTuple

from ..core.grid import Levels
from ..independence.measure import Again
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
    again: Again | None = None


class Outcome(NamedTuple):
    """What came of a task: its votes, or None if every attempt failed; and the errors on the way.

    What comes of rows alone is which of them are hits.
    """

    task: Task
    votes: CopyVotes | Bits | None
    errors: tuple[str, ...]
    seconds: float
