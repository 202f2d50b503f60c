"""How often noise is made: fresh for every input, or once for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, NamedTuple, Protocol, get_args

from ..core.arrays import concatenate
from ..core.grid import Levels
from .gpu import AnySampler, GpuSampler, Request
from .keystream import SHARED_STREAM, Keystream, Purpose
from .sampler import Noise, Noisy

NoiseMode = Literal["fresh", "shared", "batchwise"]
NOISE_MODES: tuple[NoiseMode, ...] = get_args(NoiseMode)


class Source(Protocol):
    """Noisy copies of an input, by purpose and number of the copy."""

    def noisy(self, purpose: Purpose, x: Levels, first: int, copies: int, sure: bool = False) -> Noisy:
        """The copies first, …, first + copies − 1, in memory of their own; without `sure`, perhaps with a doubt."""


@dataclass(frozen=True)
class FreshNoise:
    """Noise that only this input gets: its stream is the input's index.

    Guarantee: the noise of the specification for (key, purpose, stream).
    """

    sampler: AnySampler
    key: bytes
    stream: int

    def bits(self, purpose: Purpose) -> Keystream:
        return Keystream(self.key, purpose, self.stream)

    def noisy(self, purpose: Purpose, x: Levels, first: int, copies: int, sure: bool = False) -> Noisy:
        return self.sampler.noisy(self.bits(purpose), x, first, copies, sure)


@dataclass
class SharedNoise:
    """Noise that all inputs share, from the stream 2⁶⁴ − 1; what was drawn is kept and used again.

    Each certificate is as valid as with fresh noise, but their failures are not independent.

    Guarantee: the noise of the specification for (key, purpose, 2⁶⁴ − 1); kept noise is read-only.
    """

    sampler: AnySampler
    key: bytes
    keep: int | None = None
    """How many batches are kept: all (None), or only the last few."""
    _kept: dict[tuple[Purpose, int, int, int], Noise] = field(default_factory=dict, repr=False)

    def noisy(self, purpose: Purpose, x: Levels, first: int, copies: int, sure: bool = False) -> Noisy:
        return self.sampler.add(self._noise(purpose, first, copies, x.size, sure), x)

    def _noise(self, purpose: Purpose, first: int, copies: int, dimension: int, sure: bool) -> Noise:
        at = (purpose, first, copies, dimension)
        if at not in self._kept or (sure and self._kept[at].doubt is not None):
            stream = Keystream(self.key, purpose, SHARED_STREAM)
            self._kept[at] = self.sampler.noise(stream, first, copies, dimension, sure)
            while self.keep is not None and len(self._kept) > self.keep:
                del self._kept[next(iter(self._kept))]
        return self._kept[at]


class CopyRange(NamedTuple):
    """Consecutive noisy copies of one input: where their noise comes from, the input, what they are for, which ones."""

    noise: Source
    x: Levels
    purpose: Purpose
    copies: range


def noisy_copies(ranges: Sequence[CopyRange], sure: bool) -> Noisy:
    """The copies of all ranges, one after the other; in doubt if one is. On a GPU fresh noise is made together.

    Guarantee: each copy has the noise that its source has for it alone.
    """
    found = None if sure or len(ranges) == 1 else _made_together(ranges)
    if found is not None:
        return found
    return _joined(
        [each.noise.noisy(each.purpose, each.x, each.copies.start, len(each.copies), sure) for each in ranges]
    )


def _made_together(ranges: Sequence[CopyRange]) -> Noisy | None:
    """On one GPU, with one key, for one purpose and inputs of one shape; None where that is not so, or cannot be."""
    fresh = [each.noise for each in ranges if isinstance(each.noise, FreshNoise)]
    kinds = {(id(each.sampler), each.key) for each in fresh}
    sampler = fresh[0].sampler if len(fresh) == len(ranges) and len(kinds) == 1 else None
    if not isinstance(sampler, GpuSampler) or len({(each.purpose, each.x.shape) for each in ranges}) > 1:
        return None
    return sampler.noisy_together(
        [
            Request(source.bits(each.purpose), each.x, each.copies.start, len(each.copies))
            for source, each in zip(fresh, ranges, strict=True)
        ]
    )


def _joined(parts: Sequence[Noisy]) -> Noisy:
    """Noisy copies one after the other."""
    if len(parts) == 1:
        return parts[0]
    starts = accumulate((len(part.values) for part in parts), initial=0)
    lost = tuple(start + row for start, part in zip(starts, parts, strict=False) for row in part.lost)
    doubts = [part.doubt.reshape(1) for part in parts if part.doubt is not None]
    doubt = concatenate(doubts).any() if doubts else None
    return Noisy(concatenate([part.values for part in parts]), lost, doubt)


def check_shared_memory(sampler: AnySampler, copies: int, dimension: int) -> None:
    """Refuse shared noise that cannot be kept in memory, before it is drawn."""
    sampler.check_memory(
        2 * copies * dimension,
        f"keeping the noise of {copies} copies",
        'use noise="batchwise", whose certificates are as valid and which keeps one batch at a time',
    )
