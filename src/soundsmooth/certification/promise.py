"""The promise: everything that is fixed before the first coin is tossed, and the key that follows from it.

A promise is a short text, one `name: value` per line, in the order of `FIELDS` and `OPTIONAL`. Its SHA-256 is the
commitment C. The text can be read by a person, and C can be checked with `sha256sum`. The format is
defined byte for byte in docs/noise.md, with a test vector.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..core.grid import Grid, Levels, Rounding, digest_of_floats
from ..core.independence import Independence
from ..core.spool import Spool
from ..exact import price_above
from ..noise import SHARED_STREAM, coin_word

TITLE = "soundsmooth promise v1"
SPEC = "1"
FIELDS = (
    "spec",  # version of the noise specification
    "model kind",  # onnx, torch, callable
    "model",  # SHA-256 of the model's bytes
    "inputs",  # SHA-256 over every input's index, levels and label, in order
    "input count",
    "input shape",
    "grid",
    "margin",  # K, in levels
    "sigma",
    "n0",
    "n",
    "alpha",
    "bound",
    "noise",  # fresh, shared, batchwise
    "batch",
    "precision",
    "device",  # its kind
    "flags",  # of the kernels
    "independence",
    "seed",  # SHA-256 of the seed
)
#: Lines that follow, in this order, each only where there is something to say: a plain run has none.
OPTIONAL = (
    "given",  # SHA-256 of the floats as given, and how far floats may be from their grid points
    "looks",  # at which numbers of copies votes are counted, each with the level that is spent there
    "radii",  # which radii are asked for, each with a probability whose radius is larger
    "go on",  # at each look but the last, the hits with which an image votes on
    "wrong labels",  # skipped: an image ends after selection if its selected label is not the promised one
    "group",  # copies of so many consecutive images share batches
)
INFO = b"soundsmooth noise v1"
ROWS_INFO = b"soundsmooth rows v1"
NO_LABEL = -1


@dataclass(frozen=True)
class Promise:
    """What is promised, as text values in the order of `FIELDS` and `OPTIONAL`."""

    values: Mapping[str, str]

    def __post_init__(self) -> None:
        if tuple(self.values) != (*FIELDS, *(name for name in OPTIONAL if name in self.values)):
            more = f"and perhaps {', '.join(OPTIONAL)}"
            raise ValueError(f"a promise has the fields {', '.join(FIELDS)}, {more}, in this order")
        for name, value in self.values.items():
            if not value.isascii() or not value.isprintable() or value != value.strip():
                raise ValueError(f"the promise's {name} is not plain text on one line: {value!r}")

    @property
    def text(self) -> str:
        """The canonical encoding: ASCII, a title and one line per field, each ended by a line feed."""
        return "".join([f"{TITLE}\n", *(f"{name}: {value}\n" for name, value in self.values.items())])

    @property
    def flags(self) -> dict[str, str]:
        """The promised flags: "name=value name=value", or "none"."""
        words = [word.partition("=") for word in self.values["flags"].split(" ")]
        return {name: value for name, equals, value in words if equals}

    @property
    def independence(self) -> Independence:
        """How it is promised to be known that rows are independent; a ValueError if it is none of the ways."""
        return Independence.of_text(self.values["independence"])

    @classmethod
    def of_text(cls, text: str) -> "Promise":
        """The promise that has this text; a ValueError if none has."""
        lines = text.splitlines()[1:]
        promise = cls({name: value for name, _, value in (line.partition(": ") for line in lines)})
        if promise.text != text:
            raise ValueError(f"this is not a {TITLE}")
        return promise

    @property
    def commitment(self) -> str:
        """C: the SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.text.encode("ascii")).hexdigest()


@dataclass(frozen=True)
class Secret:
    """The issuer's seed and the verifier's nonce (empty when there is no verifier)."""

    seed: bytes
    nonce: bytes = b""

    @property
    def digest(self) -> str:
        """SHA-256 of the seed: it fixes the seed and tells nothing about it."""
        return hashlib.sha256(self.seed).hexdigest()

    def key(self, promise: Promise) -> bytes:
        """HKDF-SHA256(ikm = seed ‖ nonce, salt = C, info = "soundsmooth noise v1"), 32 bytes.

        Guarantee: the key is fixed by the promise, the seed and the nonce, and by nothing else.
        """
        return self._derived(promise, INFO)

    def rows(self, promise: Promise, index: int, count: int, n: int) -> list[int]:
        """Which copies of an input are voted again: ⌊n·h_j / 2²⁵⁶⌋ for j = 0, …, count − 1 (docs/noise.md, 2.8).

        h_j is HMAC-SHA256 of index ‖ j under a key that is derived like that of the noise, with another info.

        Guarantee: for a random function in place of HMAC the rows are independent and uniform, up to n·2⁻²⁵⁶ for
        each; and they are independent of the noise.
        """
        key = self._derived(promise, ROWS_INFO)
        numbers = (index.to_bytes(8, "little") + j.to_bytes(8, "little") for j in range(count))
        hashes = (int.from_bytes(hmac.digest(key, number, "sha256"), "little") for number in numbers)
        return [n * h >> 256 for h in hashes]

    def coin(self, promise: Promise, index: int) -> str:
        """The 64 bits that the randomized bound of an input is given, in hexadecimal (docs/noise.md, 1.9).

        Guarantee: fixed by promise, seed, nonce and the input's number; for a random keystream uniform, and independent
        of the noise.
        """
        return f"{coin_word(self.key(promise), index):016x}"

    def _derived(self, promise: Promise, info: bytes) -> bytes:
        salt = bytes.fromhex(promise.commitment)
        return HKDF(SHA256(), 32, salt, info).derive(self.seed + self.nonce)


def secret(seed: str | bytes | None = None, nonce: str | bytes | None = None) -> Secret:
    """The secret of a run.

    A seed is 32 bytes, 64 hexadecimal digits, or any text, which is hashed; by default it comes from the operating
    system. A nonce has 32 bytes, and is refused without a seed: it must be drawn after the seed was committed to.
    """
    if nonce and seed is None:
        raise ValueError("a nonce goes with the seed that was committed to before it was drawn: give the seed as well")
    return Secret(_seed(seed), _nonce(nonce))


def _seed(seed: str | bytes | None) -> bytes:
    if seed is None:
        return secrets.token_bytes(32)
    if not seed:
        raise ValueError("the seed is empty; leave it out to have one drawn by the operating system")
    if isinstance(seed, bytes):
        return _exactly_32(seed, "a seed given as bytes")
    return _hexadecimal(seed) or hashlib.sha256(seed.encode()).digest()


def _nonce(nonce: str | bytes | None) -> bytes:
    if nonce is None:
        return b""
    if not nonce:  # without it the key would be another one, and nobody would notice in time
        raise ValueError("the nonce is empty: give the 64 hexadecimal digits that the verifier drew, or leave it out")
    if isinstance(nonce, str):
        nonce = _hexadecimal(nonce) or b""
    return _exactly_32(nonce, "the nonce (64 hexadecimal digits)")


def _hexadecimal(text: str) -> bytes | None:
    """The 32 bytes of 64 hexadecimal digits, or None for any other text."""
    digits = text.strip().lower()
    return bytes.fromhex(digits) if is_digest(digits) else None


def is_digest(text: object) -> bool:
    """32 bytes in hexadecimal, as digests, seeds and nonces are written: in lower case."""
    return isinstance(text, str) and len(text) == 64 and set(text) <= set("0123456789abcdef")


def _exactly_32(value: bytes, name: str) -> bytes:
    if len(value) != 32:
        raise ValueError(f"{name} must have exactly 32 bytes")
    return value


@dataclass(frozen=True, repr=False)
class Inputs:
    """The inputs of a run, in order: their numbers in the data set, their levels, their true labels if known.

    Guarantee: what is promised is what is voted on. The levels are in a spool, to which nobody writes.
    """

    indices: Sequence[int]
    levels: Sequence[Levels]
    labels: Sequence[int | None]
    rounded: Sequence[Rounding | None] = ()
    """What was rounded off each image; nothing at all if every image is on the grid."""
    origin: str = ""
    """How values were made before they were levels, if that is known: decoded, resized. Recorded, not promised."""
    grid: Grid | None = None
    """The grid on which the levels were read, if it is known."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounded", tuple(self.rounded) if any(self.rounded) else ())
        if self.rounded and len(self.rounded) != len(self.levels):
            raise ValueError(f"{len(self.levels)} images and {len(self.rounded)} roundings do not match")
        if not len(self.indices) == len(self.levels) == len(self.labels):
            raise ValueError(
                f"{len(self.levels)} images, {len(self.labels)} labels and {len(self.indices)} indices do not match"
            )
        if not self.levels:
            raise ValueError("there is no image to certify")
        if any(label is not None and not 0 <= label < 1 << 63 for label in self.labels):
            raise ValueError("labels are the numbers of classes: 0, 1, 2, …")
        if len(set(self.indices)) != len(self.indices) or not all(0 <= i < SHARED_STREAM for i in self.indices):
            raise ValueError("each image of a run needs a number of its own, between 0 and 2⁶⁴ − 2: it names the noise")
        for name, kept in (("indices", tuple(self.indices)), ("labels", tuple(self.labels))):
            object.__setattr__(self, name, kept)
        object.__setattr__(self, "levels", Spool.of(self.levels))

    def __len__(self) -> int:
        return len(self.indices)

    def pick(self, places: Sequence[int]) -> "Inputs":
        """The inputs at these places, in this order."""
        indices, labels = [self.indices[place] for place in places], [self.labels[place] for place in places]
        rounded = [self.rounded[place] for place in places] if self.rounded else ()
        return replace(self, indices=indices, levels=Spool.of(self.levels).pick(places), labels=labels, rounded=rounded)

    def __repr__(self) -> str:
        labels = "with labels" if all(label is not None for label in self.labels) else "without labels"
        made = f", {self.origin}" if self.origin else ""
        return f"<{len(self)} images of shape {list(self.shape)}, {labels}{made}>"

    @property
    def recorded(self) -> dict[str, str]:
        """What is recorded beside a certificate: the ball lives after decoding and resizing."""
        return {"data": self.origin} if self.origin else {}

    @property
    def shape(self) -> tuple[int, ...]:
        return self.levels[0].shape

    def digest(self) -> str:
        """SHA-256 over the inputs in order.

        Each contributes its index (u64), its label (i64, −1 for none) and its levels (int16, C order), all
        little-endian. The shape is a field of its own.
        """
        digest = hashlib.sha256()
        for index, image, label in zip(self.indices, self.levels, self.labels, strict=True):
            digest.update(index.to_bytes(8, "little"))
            digest.update((NO_LABEL if label is None else label).to_bytes(8, "little", signed=True))
            digest.update(np.ascontiguousarray(image, "<i2").tobytes())
        return digest.hexdigest()

    def given(self, grid: Grid) -> str | None:
        """What is promised of the floats as they were given (docs/noise.md, 2.3); None if every image is on the grid.

        An image that is on the grid counts as its levels, in whatever type it was given.
        """
        if not self.rounded:
            return None
        digest = hashlib.sha256()
        for image, rounded in zip(self.levels, self.rounded, strict=True):
            digest.update(bytes.fromhex(digest_of_floats(image) if rounded is None else rounded.given))
        return f"{digest.hexdigest()} tolerance={grid.tolerance}"

    def paid(self, place: int, grid: Grid) -> float | None:
        """What the radius at a place pays for rounding; None if every image is on the grid.

        Guarantee: at least ‖x − x′‖ + tolerance·√d.
        """
        if not self.rounded:
            return None
        rounded = self.rounded[place]
        squared = Fraction(0) if rounded is None else rounded.squared
        return price_above(squared, grid.tolerance, self.levels[place].size)
