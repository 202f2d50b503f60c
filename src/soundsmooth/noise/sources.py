"""How often noise is made: fresh for every input, or once for all of them."""

from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from ..core.grid import Levels
from .gpu import AnySampler
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

    def noisy(self, purpose: Purpose, x: Levels, first: int, copies: int, sure: bool = False) -> Noisy:
        return self.sampler.noisy(Keystream(self.key, purpose, self.stream), x, first, copies, sure)


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


def check_shared_memory(sampler: AnySampler, copies: int, dimension: int) -> None:
    """Refuse shared noise that cannot be kept in memory, before it is drawn."""
    sampler.check_memory(
        2 * copies * dimension,
        f"keeping the noise of {copies} copies",
        'use noise="batchwise", whose certificates are as valid and which keeps one batch at a time',
    )
