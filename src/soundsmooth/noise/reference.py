"""The reference sampler: the specification in slow Python integers, to be read and checked.

It has its own ChaCha20, straight from RFC 8439, and shares with the fast samplers only the proved
breakpoints and the decision by words (`decide`).
"""

import struct

from .decide import decide
from .law import Law

MASK = (1 << 32) - 1


def reference_noise(law: Law, key: bytes, purpose: int, stream: int, element: int) -> int | None:
    """The noise of one element of a stream; None if 255 levels of bits leave it undecided.

    Guarantee: T(U) of the specification, for U = w₀/2³² + w₁/2⁹⁶ + w₂/2¹⁶⁰ + …
    """
    return decide(law, lambda level: reference_word(key, purpose, stream, level, element))


def reference_word(key: bytes, purpose: int, stream: int, level: int, element: int) -> int:
    """w_level of an element: the element-th little-endian word of the level's keystream.

    Guarantee: 32 bits at level 0 and 64 bits above, at byte b of the level: chunk ⌊b / 2³⁸⌋, b mod 2³⁸.
    """
    size = 4 if level == 0 else 8
    chunk, at = divmod(size * element, 1 << 38)
    counter, skip = divmod(at, 64)
    nonce = struct.pack("<BBHQ", level, purpose, chunk, stream)
    return int.from_bytes(chacha20_block(key, counter, nonce)[skip : skip + size], "little")


def chacha20_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """The ChaCha20 block function of RFC 8439, section 2.3.

    Guarantee: the 64 bytes of the RFC, whose test vector is in the tests.
    """
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), counter]
    start += struct.unpack("<3I", nonce)
    x = list(start)
    for _ in range(10):
        for a, b, c, d in _COLUMNS_AND_DIAGONALS:
            x[a] = x[a] + x[b] & MASK
            x[d] = _rotate(x[d] ^ x[a], 16)
            x[c] = x[c] + x[d] & MASK
            x[b] = _rotate(x[b] ^ x[c], 12)
            x[a] = x[a] + x[b] & MASK
            x[d] = _rotate(x[d] ^ x[a], 8)
            x[c] = x[c] + x[d] & MASK
            x[b] = _rotate(x[b] ^ x[c], 7)
    return struct.pack("<16I", *(mixed + first & MASK for mixed, first in zip(x, start, strict=True)))


def _rotate(x: int, bits: int) -> int:
    return (x << bits | x >> (32 - bits)) & MASK


_COLUMNS_AND_DIAGONALS = (
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)
