"""Blocks of noisy copies: what a run stores, where it resumes, and what others can vote again."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arrays import Fetched, concatenate
from ..certify import Counts, Sure, Voting, cast, only_number
from ..grid import Levels
from ..models import NOBODY
from ..noise import Purpose
from ..noise.sources import Source
from ..settings import Settings

#: A block has about so many copies: few enough to be lost, many enough for its transaction to cost nothing.
BLOCK_COPIES = 10_000
#: And there are at least so many, where the batch allows it: an auditor draws some of them.
LEAST_BLOCKS = 20
#: Noise that meets every input before the next is made (batchwise) is kept in memory, so many elements at most.
KEPT_ELEMENTS = 1 << 27


@dataclass(frozen=True, order=True)
class VoteBlock:
    """The copies first, …, first + count − 1 of one purpose."""

    purpose: Purpose
    first: int
    count: int

    @property
    def copies(self) -> range:
        return range(self.first, self.first + self.count)

    def __str__(self) -> str:
        return f"the block of copies {self.first} to {self.first + self.count - 1} for {self.purpose.name.lower()}"


def block_size(settings: Settings, batch: int, dimension: int) -> int:
    """How many copies a block has: a multiple of the batch, so that a block is made of whole batches."""
    most = KEPT_ELEMENTS // dimension if settings.noise == "batchwise" else BLOCK_COPIES
    return max(1, min(BLOCK_COPIES, settings.n // LEAST_BLOCKS, most) // batch) * batch


def vote_blocks(settings: Settings, size: int) -> list[VoteBlock]:
    """All blocks of an input in the order in which they are voted: selection first."""
    samples = ((Purpose.SELECTION, settings.n0), (Purpose.ESTIMATION, settings.n))
    return [VoteBlock(purpose, first, min(size, n - first)) for purpose, n in samples for first in range(0, n, size)]


@dataclass(frozen=True)
class BlockVotes:
    """The votes of a block, copy by copy."""

    labels: npt.NDArray[np.signedinteger]
    classes: int

    @property
    def counts(self) -> Counts:
        nobody, *classes = np.bincount(self.labels - NOBODY, minlength=self.classes + 1).tolist()
        return Counts(tuple(classes), nobody)

    def hits(self, label: int) -> bytes:
        """A bit for each copy, 1 where it voted for `label`; the first copy is the highest bit of the first byte."""
        return packed_bits(self.labels == label)


def packed_bits(bits: npt.NDArray[np.bool_]) -> bytes:
    """Bits in few bytes, the first one as the highest bit of the first byte."""
    return zlib.compress(np.packbits(bits).tobytes())


def hits_of(packed: bytes, count: int) -> npt.NDArray[np.bool_]:
    """What `packed_bits` packed, for `count` copies; a ValueError for anything else."""
    length, unpack = -(-count // 8), zlib.decompressobj()
    try:
        raw = unpack.decompress(packed, length + 1)  # no more than that, whatever it claims to hold
    except zlib.error as error:
        raise ValueError(f"the bitmap of hits is damaged: {error}") from None
    bits = np.unpackbits(np.frombuffer(raw, np.uint8)).astype(bool)
    if len(raw) != length or not unpack.eof or unpack.unused_data or bits[count:].any():
        raise ValueError(f"the bitmap of hits is not one of {count} copies")
    return bits[:count]


class Casting:
    """The votes of a block, which a GPU may still be casting."""

    def __init__(self, voting: Voting, noise: Source, x: Levels, block: VoteBlock, batch: int) -> None:
        self._again: Callable[[], Casting] = lambda: Casting(voting, Sure(noise), x, block, batch)
        parts = list(cast(voting, noise, x, block.purpose, block.copies, batch))
        doubts = [doubt.reshape(1) for _, doubt in parts if doubt is not None]
        self._doubt = Fetched(concatenate(doubts)) if doubts else None
        self._labels = Fetched(concatenate([part.labels for part, _ in parts]))
        self._classes = {part.classes for part, _ in parts}
        self.repeated = False
        """Whether votes were cast once more when they were asked for."""

    def votes(self) -> BlockVotes:
        """The votes; if some noise was in doubt, those on the same noise made once more, without doubt."""
        if self._doubt is not None and any(self._doubt.get()):
            self.repeated = True
            return self._again().votes()
        return BlockVotes(self._labels.array(), only_number(self._classes))
