"""The test vectors of docs/noise.md, by which outsiders check their own noise, are what the program makes."""

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from soundsmooth.core.grid import IMAGES
from soundsmooth.noise import Gaussian, Keystream, Purpose, Sampler, coin_word, reference_noise
from soundsmooth.noise.reference import chacha20_block, reference_word

TEXT = (Path(__file__).parents[2] / "docs" / "noise.md").read_text(encoding="utf-8")
VECTORS = TEXT[TEXT.index("### 1.8 Test vectors") : TEXT.index("## 2.")]
KEY, STREAM, LAW = bytes(range(32)), 7, Gaussian("1/4")


def rows(start: str) -> list[list[str]]:
    """The first table after a heading, without its head."""
    table = re.search(r"(?:^\|.*\|\n)+", VECTORS[VECTORS.index(start) :], re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.group().splitlines()[2:]]


def number(text: str) -> int:
    return int(text.replace("−", "-").replace(" ", "").replace("\xa0", ""))


def test_first_block() -> None:
    block = re.search(r"give the block\n\n((?:    .*\n)+)", VECTORS)
    assert block is not None
    nonce = bytes.fromhex("00 01 0000 0700000000000000")
    assert chacha20_block(KEY, 0, nonce) == bytes.fromhex(block.group(1))


def test_first_words_and_noise() -> None:
    table = re.search(r"```noise-vector\n(.*?)```", VECTORS, re.DOTALL)
    assert table is not None
    for line in table.group(1).splitlines()[1:]:
        element, word, noise = line.split()
        assert reference_word(KEY, Purpose.ESTIMATION, STREAM, 0, int(element)) == int(word, 16)
        assert reference_noise(LAW, KEY, Purpose.ESTIMATION, STREAM, int(element)) == int(noise)


def test_copies_and_their_hash() -> None:
    noise = Sampler(LAW, 1).noise(Keystream(KEY, Purpose.ESTIMATION, STREAM), 0, 8, 3072).levels
    digest = hashlib.sha256(noise.astype("<i2").tobytes()).hexdigest()
    assert f"`{digest}`" in VECTORS
    listed = re.search(r"has the noise\n\n    (.*)\n", VECTORS)
    assert listed is not None
    assert noise[1, :16].tolist() == [int(value) for value in listed.group(1).split()]


@pytest.mark.parametrize("row", rows("### 1.9 The coin"), ids=lambda row: row[1])
def test_coins(row: list[str]) -> None:
    assert coin_word(KEY, number(row[0])) == reference_word(KEY, 3, number(row[0]), 1, 0) == int(row[1], 16)


@pytest.mark.parametrize("row", rows("**Breakpoints**"), ids=lambda row: row[0])
def test_breakpoints(row: list[str]) -> None:
    for bits, digits in zip((32, 64, 96), row[1:], strict=True):
        assert LAW.breakpoint(number(row[0]), bits) == int(digits, 16)


@pytest.mark.parametrize("row", rows("**Ties.**"), ids=lambda row: row[0])
def test_ties(row: list[str]) -> None:
    element = number(row[0].split("(")[0])
    words = [reference_word(KEY, Purpose.ESTIMATION, STREAM, level, element) for level in (0, 1)]
    assert words == [int(row[1], 16), int(row[2], 16)]
    assert reference_noise(LAW, KEY, Purpose.ESTIMATION, STREAM, element) == number(row[5])
    copy, coordinate = divmod(element, 3072)
    fast = Sampler(LAW, 1).noise(Keystream(KEY, Purpose.ESTIMATION, STREAM), copy, 1, 3072).levels
    assert fast[0, coordinate] == number(row[5])


def test_levels_to_floats() -> None:
    found = rows("**Level to float**")
    assert len(found) == 5
    for a, first, b, second in found:
        for level, bits in ((a, first), (b, second)):
            value = IMAGES.values(np.array([number(level)], np.int16))
            assert value.view(np.uint32)[0] == int(bits, 16)
