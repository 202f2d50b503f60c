"""Fair coin tosses with an address: the ChaCha20 keystream of one stream, readable at any element.

The specification is docs/noise.md. A stream is named by a 256-bit key, a purpose and a number; its
elements have one 32-bit word at level 0 and one 64-bit word at each level from 1 to 255.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

CHUNK_BYTES = 1 << 38  # 2³² blocks of 64 bytes: one run of the 32-bit block counter
MOST_ELEMENTS = 1 << 51  # 2¹⁶ chunks hold 2⁵⁴ bytes, which is 2⁵¹ words of 64 bits
LAST_LEVEL = 255
SHARED_STREAM = (1 << 64) - 1

Words = npt.NDArray[np.uint32]


class Purpose(IntEnum):
    """What the noise is for. Each purpose has its own bits, so that selection never meets estimation."""

    SELECTION = 0
    ESTIMATION = 1
    PREDICTION = 2
    COIN = 3
    """No noise: the one word of an input that the randomized bound needs."""


@dataclass(frozen=True)
class Keystream:
    """The bits of one stream.

    Guarantee: byte b of a level is byte b mod 2³⁸ of the RFC 8439 ChaCha20 keystream with block counter
    from 0 and the nonce (level, purpose, chunk ⌊b / 2³⁸⌋, stream), whatever is read before or beside it.
    """

    key: bytes
    purpose: Purpose
    stream: int

    def __post_init__(self) -> None:
        if len(self.key) != 32:
            raise ValueError(f"a key has 32 bytes (64 hexadecimal digits), not {len(self.key)}")
        if not 0 <= self.stream <= SHARED_STREAM:
            raise ValueError(f"a stream's number lies between 0 and 2⁶⁴ − 1, not {self.stream}")

    def first_words(self, first: int, out: Words) -> None:
        """Write w₀ of the elements first, first + 1, … into `out`."""
        self._read(0, 4 * first, out.data.cast("B"))
        if not _LITTLE_ENDIAN:
            out.byteswap(inplace=True)

    def later_word(self, level: int, element: int) -> int:
        """w_level of one element, for level 1 … 255."""
        word = bytearray(8)
        self._read(level, 8 * element, memoryview(word))
        return int.from_bytes(word, "little")

    def _read(self, level: int, start: int, out: memoryview) -> None:
        """Write the bytes start, start + 1, … of a level into `out`, chunk by chunk."""
        done = 0
        while done < len(out):
            chunk, at = divmod(start + done, CHUNK_BYTES)
            size = min(len(out) - done, CHUNK_BYTES - at)
            self._read_chunk(level, chunk, at, out[done : done + size])
            done += size

    def _read_chunk(self, level: int, chunk: int, at: int, out: memoryview) -> None:
        # OpenSSL's 16-byte nonce is the 32-bit counter of the first block and then RFC 8439's 12 bytes.
        block, skip = divmod(at, 64)
        nonce = struct.pack("<IBBHQ", block, level, self.purpose, chunk, self.stream)
        cipher = Cipher(algorithms.ChaCha20(self.key, nonce), mode=None).encryptor()
        if skip:
            cipher.update(_ZEROS[:skip])
        for i in range(0, len(out), len(_ZEROS)):  # the keystream is the encryption of zeros
            part = out[i : i + len(_ZEROS)]
            cipher.update_into(_ZEROS[: len(part)], part)


_LITTLE_ENDIAN = struct.pack("=H", 1) == b"\x01\x00"
_ZEROS = memoryview(bytes(1 << 15))  # small enough to stay in the cache


def coin_word(key: bytes, index: int) -> int:
    """64 bits for the input of that number: w₁ of element 0, under a purpose of their own (docs/noise.md, 1.9).

    Guarantee: a function of key and number, whatever the noise mode. No noise has these bits.
    """
    return Keystream(key, Purpose.COIN, index).later_word(1, 0)


def check_room(first: int, copies: int, dimension: int) -> None:
    """Refuse, before the first draw, a request that would leave a stream's address space."""
    if first < 0 or copies < 1 or dimension < 1:
        raise ValueError(f"there is no noise for {copies} copies of {dimension} coordinates from copy {first} on")
    last = first + copies
    if last * dimension > MOST_ELEMENTS:
        raise ValueError(f"{last} noisy copies of {dimension} coordinates exceed a stream's 2⁵¹ elements; lower n")
