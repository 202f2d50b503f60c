"""Kernels that were chosen by timing, once, as bytes that other processes load: there they compute the same bits.

An artifact holds code. Load one only if you trust the one who made it.
"""

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

NAME = b"soundsmooth artifact "
TITLE = NAME + b"2\n"
#: The line that describes an artifact is shorter than this.
MOST_OF_A_LINE = 1 << 16
#: Kernels have no more bytes. Those of a ResNet-50 had 187 MB under torch 2.11.
MOST_OF_KERNELS = 1 << 30
#: Of zlib, the quickest. Kernels are mostly text.
LEVEL = 1
#: How to go on without an artifact.
WAY_OUT = "a new run tunes its own kernels, compile none needs none, and verify does without --trust-artifact"


class Way(NamedTuple):
    """How a graph runs, and in batches of which size."""

    batch: int
    compiled: bool = False
    """Whether torch compiles it."""
    folded: bool = False
    """Whether batch normalisation is folded into convolutions."""
    layouts: bool = True
    """Whether the compiler may lay out images channels-last."""
    timed: bool = False
    """Whether the compiler chooses kernels by timing them."""
    recorded: bool = False
    """Whether all kernels are launched together, as a CUDA graph."""

    def __str__(self) -> str:
        said = {
            "compiled": self.compiled,
            "normalisation folded": self.folded,
            "layout kept": not self.layouts,
            "kernels chosen by timing": self.timed,
            "recorded as a CUDA graph": self.recorded,
        }
        return ", ".join([f"batches of {self.batch}", *(text for text, holds in said.items() if holds)])


@dataclass(frozen=True)
class Artifact:
    """What was chosen for batches of one shape, where, and the compiled kernels."""

    model: str
    """The model's digest."""
    machine: str
    """The kind of device, and the software that compiled."""
    shape: tuple[int, ...]
    """Of one input."""
    way: Way
    scores: str
    """SHA-256 of the scores of a batch that is always the same: what loads the kernels must get these bits."""
    compressed: bytes = field(repr=False)
    """The kernels as torch's compiler keeps them, by zlib; nothing if it made none."""

    @property
    def kernels(self) -> bytes:
        """As torch's compiler keeps them; nothing if it made none. A ValueError for damaged or endless ones."""
        unpack = zlib.decompressobj()
        try:
            found = unpack.decompress(self.compressed, MOST_OF_KERNELS + 1)
        except zlib.error as error:
            raise ValueError(f"they are damaged: {error}") from None
        if len(found) > MOST_OF_KERNELS:
            raise ValueError(f"they have more than {MOST_OF_KERNELS} bytes")
        if self.compressed and (not unpack.eof or unpack.unused_data):
            raise ValueError("they are damaged: they end too early, or too late")
        return found

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The only batches for which the kernels are."""
        return (self.way.batch, *self.shape)

    @cached_property
    def content(self) -> bytes:
        """The artifact as it is kept: a title, a line of JSON, and torch's bytes, compressed."""
        return self._head + self.compressed

    @property
    def _head(self) -> bytes:
        described = {
            "model": self.model,
            "machine": self.machine,
            "shape": list(self.shape),
            "way": self.way._asdict(),
            "scores": self.scores,
        }
        return TITLE + json.dumps(described, sort_keys=True).encode() + b"\n"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content; a promise names the artifact by it. It is asked for with every batch."""
        return hashlib.sha256(self.content).hexdigest()

    @classmethod
    def of(cls, content: bytes) -> "Artifact":
        """The artifact with this content; a ValueError for anything else. No code is run."""
        end = content.find(b"\n", len(TITLE), len(TITLE) + MOST_OF_A_LINE)
        if content.startswith(NAME) and not content.startswith(TITLE):
            raise ValueError(f"another version of soundsmooth made this artifact; {WAY_OUT}")
        if not content.startswith(TITLE) or end < 0:
            raise ValueError("this is no artifact of soundsmooth")
        try:
            read = _read(json.loads(content[len(TITLE) : end]), content[end + 1 :])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError("the artifact's description cannot be read") from error
        if read._head != content[: end + 1]:
            raise ValueError("the artifact's description can be read in several ways")
        return read


def compress(kernels: bytes) -> bytes:
    """Kernels as an artifact keeps them."""
    return zlib.compress(kernels, LEVEL) if kernels else b""


def _read(found: Mapping[str, Any], compressed: bytes) -> Artifact:
    """The fields, each of its type."""
    batch, *switches = way = Way(**found["way"])
    words = [found[name] for name in ("model", "machine", "scores")]
    if any(type(each) is not bool for each in switches) or any(type(each) is not str for each in words):
        raise TypeError
    if any(type(each) is not int or each < 1 for each in (*found["shape"], batch)):
        raise TypeError
    return Artifact(found["model"], found["machine"], tuple(found["shape"]), way, found["scores"], compressed)
