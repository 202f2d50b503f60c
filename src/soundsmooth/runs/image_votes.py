"""What is there of an image's votes, and what is still to be voted: a function of the votes alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    there: Mapping[VoteBlock, Counts] = field(repr=False)
    """All blocks that are there."""


def image_votes(
    settings: Settings,
    rounds: Sequence[Sequence[VoteBlock]],
    truth: int | None,
    there: Mapping[VoteBlock, Counts],
    since: ImageVotes | None = None,
) -> ImageVotes:
    """How far an image is whose true label is `truth`, if it has one, and of which these blocks are there.

    `since` is what was found when fewer of them were there; its rounds are not counted again.

    Guarantee: a function of the others. So whoever continues a run, or checks it, decides as the one who began it.
    """
    if since is None or not since.looks:
        since = _selected(settings, rounds[0], there)
    missing, selection, total = since.missing, since.selection, since.estimation
    taken = list(since.looks or ())
    for round in rounds[1 + len(taken) :] if taken or not missing else ():
        missing = ()
        if not settings.looks or not settings.looks.goes_on(truth, selection.top, taken):
            break
        missing = tuple(block for block in round if block not in there)
        if missing:
            break
        total = added([total, _sum(there, round, Purpose.ESTIMATION)])
        taken.append(total.look(selection.top))
    return ImageVotes(selection, total, None if settings.looks is None else tuple(taken), missing, there)


def _selected(settings: Settings, first: Sequence[VoteBlock], there: Mapping[VoteBlock, Counts]) -> ImageVotes:
    """After the first round: selection, and all votes where there are no looks."""
    missing = tuple(block for block in first if block not in there)
    selection, total = (_sum(there, first, purpose) for purpose in (Purpose.SELECTION, Purpose.ESTIMATION))
    if settings.looks is None:
        return ImageVotes(selection, total, None, missing, there)
    return ImageVotes(selection, Counts((0,) * len(selection.classes), 0), (), missing, there)


def _sum(there: Mapping[VoteBlock, Counts], blocks: Sequence[VoteBlock], purpose: Purpose) -> Counts:
    return added(there[block] for block in blocks if block.purpose == purpose and block in there)
