"""How copies of different images share batches: by what was promised, and by the votes that are there.

The images of a group go from look to look together. All copies that they need before the next decision are one round;
it is cut into packs, and a pack is voted as if its copies were those of one image. So whoever continues a run, on
whatever engine, and whoever votes it again, puts the same copies into the same batches.
"""

from collections.abc import Mapping, Sequence

from ..smoothing.blocks import VoteBlock
from .image_votes import ImageVotes
from .tasks import Part


def rounds_passed(votes: ImageVotes, rounds: Sequence[Sequence[VoteBlock]]) -> int:
    """How many rounds an image has behind it, selection included."""
    if votes.missing and votes.missing[0].purpose == rounds[0][0].purpose:
        return 0
    return 1 + len(votes.looks or ())


def packs_of_round(
    votes: Mapping[int, ImageVotes], rounds: Sequence[Sequence[VoteBlock]], number: int, most: int
) -> list[tuple[Part, ...]]:
    """The packs of a round, of at most so many copies each, from the votes of all images of the group by their places.

    Those take part that have the round behind them, and those that are to vote it now.
    """
    passed = {place: rounds_passed(each, rounds) for place, each in votes.items()}
    inside = [
        place for place, each in votes.items() if passed[place] > number or (passed[place] == number and each.missing)
    ]
    return cut([Part(place, block) for block in rounds[number] for place in inside], most)


def cut(parts: Sequence[Part], most: int) -> list[tuple[Part, ...]]:
    """The parts in packs of at most so many copies, in order; a larger part is a pack of its own."""
    packs: list[list[Part]] = []
    total = most
    for part in parts:
        total += part.block.count
        if total > most:
            packs.append([])
            total = part.block.count
        packs[-1].append(part)
    return [tuple(pack) for pack in packs]
