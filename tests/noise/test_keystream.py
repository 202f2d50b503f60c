"""The bits: RFC 8439's ChaCha20 at the addresses of the specification, chunk ends and the last element included."""

import itertools
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soundsmooth.noise import SHARED_STREAM, Keystream, Purpose
from soundsmooth.noise.keystream import MOST_ELEMENTS, check_room
from soundsmooth.noise.reference import chacha20_block, reference_word

KEY = bytes(range(32))
CHUNK_AT_LEVEL_0 = 1 << 36  # elements of 4 bytes in 2³⁸ bytes
CHUNK_ABOVE = 1 << 35  # elements of 8 bytes

#: RFC 8439: section 2.3.2, and the first and second vector of appendix A.1.
VECTORS = [
    (
        KEY,
        1,
        "000000090000004a00000000",
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    (
        bytes(32),
        0,
        "000000000000000000000000",
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        bytes(32),
        1,
        "000000000000000000000000",
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
]


def first_words(bits: Keystream, first: int, count: int) -> np.ndarray:
    out = np.empty(count, np.uint32)
    bits.first_words(first, out)
    return out


@pytest.mark.parametrize(("key", "counter", "nonce", "block"), VECTORS)
def test_chacha20_is_the_one_of_the_rfc(key: bytes, counter: int, nonce: str, block: str) -> None:
    assert chacha20_block(key, counter, bytes.fromhex(nonce)).hex() == block


def test_the_nonce_is_laid_out_as_specified() -> None:
    """level u8, purpose u8, chunk u16, stream u64, little-endian: checked through the RFC's block function alone."""
    bits = Keystream(KEY, Purpose.PREDICTION, 0x1122334455667788)
    block = chacha20_block(KEY, 5, bytes.fromhex("00 02 0000 8877665544332211"))
    assert first_words(bits, 5 * 16, 16).tolist() == list(struct.unpack("<16I", block))
    block = chacha20_block(KEY, 3, bytes.fromhex("ff 02 0200 8877665544332211"))
    elements = range(2 * CHUNK_ABOVE + 3 * 8, 2 * CHUNK_ABOVE + 4 * 8)
    assert [bits.later_word(255, e) for e in elements] == list(struct.unpack("<8Q", block))


def test_the_shared_stream_is_the_last() -> None:
    assert SHARED_STREAM == 2**64 - 1
    block = chacha20_block(KEY, 0, bytes.fromhex("00 01 0000 ffffffffffffffff"))
    shared = first_words(Keystream(KEY, Purpose.ESTIMATION, SHARED_STREAM), 0, 16)
    assert shared.tolist() == list(struct.unpack("<16I", block))


#: Addresses that matter: small ones, around chunk ends, around the last element, anywhere.
ELEMENTS = st.one_of(
    st.integers(0, 10_000),
    st.builds(lambda c, d: c * CHUNK_ABOVE + d, st.integers(1, (1 << 16) - 1), st.integers(-40, 40)),
    st.integers(MOST_ELEMENTS - 100, MOST_ELEMENTS - 1),
    st.integers(0, MOST_ELEMENTS - 1),
).filter(lambda e: e < MOST_ELEMENTS)


@settings(max_examples=150, deadline=None)
@given(
    st.binary(min_size=32, max_size=32), st.sampled_from(Purpose), st.integers(0, SHARED_STREAM), ELEMENTS, st.data()
)
def test_keystream_is_the_reference(
    key: bytes, purpose: Purpose, stream: int, element: int, data: st.DataObject
) -> None:
    """OpenSSL's ChaCha20 and the page of Python agree on any word of any level."""
    bits = Keystream(key, purpose, stream)
    count = min(data.draw(st.integers(1, 40)), MOST_ELEMENTS - element)
    assert first_words(bits, element, count).tolist() == [
        reference_word(key, purpose, stream, 0, element + i) for i in range(count)
    ]
    level = data.draw(st.integers(1, 255))
    assert bits.later_word(level, element) == reference_word(key, purpose, stream, level, element)


@pytest.mark.parametrize("chunk", [1, 2, 4096, (1 << 15) - 1])
@pytest.mark.parametrize("before", [1, 5, 16, 33])
def test_reads_across_the_end_of_a_chunk(chunk: int, before: int) -> None:
    """One read of level 0 that begins `before` words before byte chunk · 2³⁸ and ends after it."""
    bits = Keystream(KEY, Purpose.SELECTION, 9)
    first = chunk * CHUNK_AT_LEVEL_0 - before
    expected = [reference_word(KEY, 0, 9, 0, first + i) for i in range(2 * before)]
    assert first_words(bits, first, 2 * before).tolist() == expected


@pytest.mark.parametrize("chunk", [1, 2, 4096, (1 << 16) - 1])
def test_later_words_on_both_sides_of_a_chunks_end(chunk: int) -> None:
    """Level ≥ 1 has words of 8 bytes, so its chunks end at multiples of 2³⁵ elements."""
    bits = Keystream(KEY, Purpose.ESTIMATION, 9)
    for level in (1, 2, 255):
        for element in range(chunk * CHUNK_ABOVE - 2, chunk * CHUNK_ABOVE + 2):
            assert bits.later_word(level, element) == reference_word(KEY, 1, 9, level, element)


def test_the_reference_changes_the_nonce_at_a_chunks_end() -> None:
    """The tests above can fail: on both sides of the end the block counter and the chunk are as written here."""
    last = chacha20_block(KEY, 2**32 - 1, bytes.fromhex("00 00 0000 0900000000000000"))
    start = chacha20_block(KEY, 0, bytes.fromhex("00 00 0100 0900000000000000"))
    assert reference_word(KEY, 0, 9, 0, CHUNK_AT_LEVEL_0 - 1) == struct.unpack("<I", last[-4:])[0]
    assert reference_word(KEY, 0, 9, 0, CHUNK_AT_LEVEL_0) == struct.unpack("<I", start[:4])[0]


def test_the_last_element_has_all_its_words() -> None:
    """Element 2⁵¹ − 1: the last 8 bytes of chunk 65 535 at the levels above 0."""
    bits, element = Keystream(KEY, Purpose.ESTIMATION, 3), MOST_ELEMENTS - 1
    last = chacha20_block(KEY, 2**32 - 1, bytes.fromhex("07 01 ffff 0300000000000000"))
    assert bits.later_word(7, element) == struct.unpack("<Q", last[-8:])[0]
    assert first_words(bits, element, 1)[0] == reference_word(KEY, 1, 3, 0, element)


@pytest.mark.parametrize("first", [0, 1, 15, 12_345, CHUNK_AT_LEVEL_0 - 100_003])
def test_long_reads_are_many_short_reads(first: int) -> None:
    """200 000 words at once (more than one piece of OpenSSL's input, across a chunk's end) or in odd pieces."""
    bits = Keystream(KEY, Purpose.ESTIMATION, 1)
    whole = first_words(bits, first, 200_000)
    cuts = [0, 1, 17, 1_000, 65_535, 65_536, 65_537, 131_072, 150_001, 200_000]
    parts = [first_words(bits, first + a, b - a) for a, b in itertools.pairwise(cuts)]
    assert np.array_equal(whole, np.concatenate(parts))
    for i in (0, 65_535, 65_536, 131_071, 131_072, 199_999):
        assert whole[i] == reference_word(KEY, 1, 1, 0, first + i)


def test_streams_purposes_levels_and_keys_are_different_bits() -> None:
    """No two of these share the first 64 bits of any level."""
    words = [
        reference_word(key, purpose, stream, level, 0)
        for key in (KEY, bytes(32))
        for purpose in Purpose
        for stream in (0, 1, SHARED_STREAM)
        for level in (1, 2, 255)
    ]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("size", [0, 16, 31, 33, 64])
def test_keys_have_32_bytes(size: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Keystream(bytes(size), Purpose.SELECTION, 0)


@pytest.mark.parametrize("stream", [-1, 2**64])
def test_streams_are_64_bit_numbers(stream: int) -> None:
    with pytest.raises(ValueError, match="stream"):
        Keystream(KEY, Purpose.SELECTION, stream)


@pytest.mark.parametrize(
    ("copies", "dimension"), [(1 << 51, 1), (1, 1 << 51), ((1 << 51) // 3072, 3072), (1 << 20, 1 << 31)]
)
def test_a_full_stream_has_room(copies: int, dimension: int) -> None:
    check_room(0, copies, dimension)
    check_room(copies - 1, 1, dimension)
    with pytest.raises(ValueError, match="2⁵¹"):
        check_room(0, copies + 1, dimension)
    with pytest.raises(ValueError, match="2⁵¹"):
        check_room(copies, 1, dimension)


@pytest.mark.parametrize(("first", "copies", "dimension"), [(-1, 1, 1), (0, 0, 1), (0, 1, 0), (-5, 9, 3)])
def test_addresses_that_do_not_exist(first: int, copies: int, dimension: int) -> None:
    with pytest.raises(ValueError, match="there is no noise"):
        check_room(first, copies, dimension)
