"""What is there of an image's votes, and what is still to be voted: a function of the votes alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..certification.certify import Counts
from ..certification.settings import Settings
from ..certification.votes import added
from ..exact import Look
from ..noise import Purpose
from ..smoothing.blocks import VoteBlock


@dataclass(frozen=True)
class ImageVotes:
    """The votes of an image so far."""

    selection: Counts
    estimation: Counts
    """Those up to the last full look, where there are looks."""
    looks: tuple[Look, ...] | None
    """The looks that were taken; None where none were promised."""
    missing: tuple[VoteBlock, ...]
    """The blocks that are to be voted before the next decision; none if the image is decided."""

    def counts(self, purpose: Purpose) -> Counts:
        return self.selection if purpose == Purpose.SELECTION else self.estimation


def image_votes(
    settings: Settings, rounds: Sequence[Sequence[VoteBlock]], truth: int | None, there: Mapping[VoteBlock, Counts]
) -> ImageVotes:
    """How far an image is whose true label is `truth`, if it has one, and of which these blocks are there.

    Guarantee: a function of these. So whoever continues a run, or checks it, decides as the one who began it.
    """
    missing = tuple(block for block in rounds[0] if block not in there)
    selection = _sum(there, rounds[0], Purpose.SELECTION)
    if settings.looks is None:
        return ImageVotes(selection, _sum(there, rounds[0], Purpose.ESTIMATION), None, missing)
    total, taken = Counts((0,) * len(selection.classes), 0), list[Look]()
    for round in rounds[1:] if not missing else ():
        if not settings.looks.goes_on(truth, selection.top, taken):
            break
        missing = tuple(block for block in round if block not in there)
        if missing:
            break
        total = added([total, _sum(there, round, Purpose.ESTIMATION)])
        taken.append(total.look(selection.top))
    return ImageVotes(selection, total, tuple(taken), missing)


def _sum(there: Mapping[VoteBlock, Counts], blocks: Sequence[VoteBlock], purpose: Purpose) -> Counts:
    return added(there[block] for block in blocks if block.purpose == purpose and block in there)
