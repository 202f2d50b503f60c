"""Which blocks are voted again: how many is fixed first, which ones is drawn by the operating system."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..smoothing.blocks import VoteBlock
from .statements import Claimed

#: With looks there are places without blocks, so that a small file can have more of them than memory holds.
MOST_PLACES, MOST_DRAWN = 10**8, 25 * 10**6
#: s of B numbers, in order, uniform among all such sets. Tests may give another one.
Draw = Callable[[int, int], Sequence[int]]


@dataclass(frozen=True)
class Places:
    """What is drawn from: a place for each block that these images have, or could have had.

    Without looks all certificates with a label have the same blocks, and the places are these. With looks an image has
    the blocks up to the look where it stopped, and the issuer knows all votes when it stops. So there is a place for
    every block of every promised image, as if none had stopped; a place without a block is drawn like any other.

    Guarantee: with looks, which places there are follows from the promise and the size of blocks alone. So the blocks
    of one image that are drawn, up to any look, do not depend on votes or stops, neither its own nor those of others.
    """

    images: Sequence[int]
    """Places of images in the run."""
    blocks: Sequence[VoteBlock]
    """The blocks of estimation of an image that takes all looks."""

    @classmethod
    def of(cls, claimed: Sequence[Claimed], promised: int, blocks: Sequence[VoteBlock], looked: bool) -> "Places":
        return cls(range(promised) if looked else [each.place for each in claimed], blocks)

    def __len__(self) -> int:
        return len(self.images) * len(self.blocks)

    def drawn(self, numbers: Sequence[int], claimed: Sequence[Claimed]) -> Iterator[tuple[Claimed, VoteBlock]]:
        """The blocks in the places of these numbers, as far as certificates with a label have them: number u is block
        u mod k of image ⌊u / k⌋.
        """
        there = {each.place: each for each in claimed}
        for number in numbers:
            image, block = divmod(number, len(self.blocks))
            found = there.get(self.images[image])
            if found is not None and self.blocks[block].copies.stop <= found.copies:
                yield found, self.blocks[block]


def number_to_draw(asked: str, blocks: int) -> int:
    """s from what the auditor asked for: "5%" (rounded up), "all", or a number of blocks (with looks, of places)."""
    found = _asked_for(asked, blocks)
    if blocks > MOST_PLACES:
        raise ValueError(f"the run's blocks are too small for a replay: {blocks} places are too many to draw from")
    if found > MOST_DRAWN:
        raise ValueError(f"at most {MOST_DRAWN} of the {blocks} blocks can be drawn, not {found}: ask for fewer")
    return found


def _asked_for(asked: str, blocks: int) -> int:
    try:
        if asked == "all":
            return blocks
        if asked.endswith("%"):
            share = Fraction(asked[:-1]) / 100
            if not 0 < share <= 1:
                raise ValueError
            return -(-share * blocks // 1)
        if int(asked) < 1:
            raise ValueError
        return min(int(asked), blocks)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f'replay must be a share such as 5%, "all", or a number of blocks, not {asked!r}') from None


def share_that_confirms(spare: int, beta: Fraction) -> int | None:
    """So many percent of the blocks, drawn without a finding, leave at most `spare` bad ones; None if only all do.

    More than that many bad blocks escape a draw of s among B with probability C(B − spare − 1, s)/C(B, s), which is at
    most (1 − s/B)^(spare + 1).

    Guarantee: with that share `audit.escaping` is at most `spare`, whatever the number of blocks.
    """
    shares = (percent for percent in range(1, 100) if Fraction(100 - percent, 100) ** (spare + 1) < beta)
    return next(shares, None)


def fresh_draw(blocks: int, drawn: int) -> list[int]:
    """Guarantee: uniform among all sets of `drawn` of the blocks, from the operating system's randomness."""
    return sorted(secrets.SystemRandom().sample(range(blocks), drawn))
