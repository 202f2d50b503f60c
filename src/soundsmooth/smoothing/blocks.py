"""Blocks of noisy copies: a run stores them, resumes at them, and others can vote on them again."""

import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..certification.settings import Settings
from ..noise import Purpose

#: The usual size of a block: few copies to lose, and enough for its transaction to cost nothing.
BLOCK_COPIES = 10_000
#: The least number of blocks, where the batch allows it: an auditor draws some of them.
LEAST_BLOCKS = 20
#: A GPU that writes nothing down votes on up to this many copies at once.
GPU_COPIES = 100_000
#: Noise that meets every input before the next is made (batchwise) is kept in memory, up to this many elements.
KEPT_ELEMENTS = 1 << 27

Bits = npt.NDArray[np.bool_]


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


def block_size(settings: Settings, batch: int, dimension: int, kept: bool = True, on_gpu: bool = False) -> int:
    """How many copies a block has: a multiple of the batch, so that a block is made of whole batches.

    A run that is not kept in a file has few blocks: nobody continues it, and nobody draws some of them.
    """
    most = min(BLOCK_COPIES, settings.n // LEAST_BLOCKS)
    if not kept:
        most = min(GPU_COPIES if on_gpu else BLOCK_COPIES, settings.n)
    if settings.noise == "batchwise":
        most = min(most, KEPT_ELEMENTS // dimension)
    return max(1, most // batch) * batch


def vote_blocks(settings: Settings, size: int) -> list[VoteBlock]:
    """All blocks of an input in the order in which they are voted: selection first, then from look to look."""
    return [block for round in vote_rounds(settings, size) for block in round]


def vote_rounds(settings: Settings, size: int) -> list[list[VoteBlock]]:
    """The blocks that are voted before the next decision; without looks there is none, and one round has all."""
    selection, *estimation = (
        [VoteBlock(purpose, first, min(size, copies.stop - first)) for first in range(copies.start, copies.stop, size)]
        for purpose, copies in (
            (Purpose.SELECTION, range(settings.n0)),
            *((Purpose.ESTIMATION, copies) for copies in settings.segments),
        )
    )
    return [selection + estimation[0]] if settings.looks is None else [selection, *estimation]


def packed_bits(bits: Bits) -> bytes:
    """Bits in few bytes, the first one as the highest bit of the first byte."""
    return zlib.compress(np.packbits(bits).tobytes())


def hits_of(packed: bytes, count: int) -> Bits:
    """The `count` bits that `packed_bits` packed; a ValueError for anything else."""
    length, unpack = -(-count // 8), zlib.decompressobj()
    try:
        raw = unpack.decompress(packed, length + 1)  # no more than that, whatever it claims to hold
    except zlib.error as error:
        raise ValueError(f"the bitmap of hits is damaged: {error}") from None
    bits = np.unpackbits(np.frombuffer(raw, np.uint8)).astype(bool)
    if len(raw) != length or not unpack.eof or unpack.unused_data or bits[count:].any():
        raise ValueError(f"the bitmap of hits is not one of {count} copies")
    return bits[:count]
