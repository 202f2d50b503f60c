"""Blocks: each copy of each purpose once, in whole batches; and bitmaps that are read as they were written, or not."""

import zlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundsmooth.certification.goal import default_counts
from soundsmooth.certification.looks import Looks
from soundsmooth.certification.settings import Settings, settings
from soundsmooth.noise import Purpose
from soundsmooth.smoothing.blocks import (
    KEPT_ELEMENTS,
    VoteBlock,
    block_size,
    hits_of,
    packed_bits,
    vote_blocks,
    vote_rounds,
)


def looking(n0: int, counts: tuple[int, ...]) -> Settings:
    return replace(settings(n0=n0, n=counts[-1]), looks=Looks(counts, (Fraction(1, 10**6),) * len(counts)))


@given(st.integers(1, 300), st.integers(1, 5000), st.integers(1, 700), st.booleans())
def test_each_copy_is_in_one_block(n0: int, n: int, size: int, looks: bool) -> None:
    chosen = looking(n0, default_counts(n, None)) if looks else settings(n0=n0, n=n)
    blocks = vote_blocks(chosen, size)
    for purpose, count in ((Purpose.SELECTION, n0), (Purpose.ESTIMATION, n)):
        assert [copy for block in blocks if block.purpose == purpose for copy in block.copies] == list(range(count))
    assert all(0 < block.count <= size for block in blocks)


def test_a_round_ends_where_a_decision_is_made() -> None:
    rounds = vote_rounds(looking(20, (100, 150, 400)), 60)
    assert [sum(block.count for block in round) for round in rounds] == [20, 100, 50, 250]
    assert [block.first for block in rounds[3]] == [150, 210, 270, 330, 390]
    assert {block.purpose for block in rounds[0]} == {Purpose.SELECTION}
    (alone,) = vote_rounds(settings(n0=20, n=400), 60)
    assert sum(block.count for block in alone) == 420


@pytest.mark.parametrize("batch", [1, 7, 100, 30_000])
@pytest.mark.parametrize("noise", ["fresh", "shared", "batchwise"])
@pytest.mark.parametrize("n", [10, 1000, 100_000])
def test_blocks_are_whole_batches(batch: int, noise: str, n: int) -> None:
    size = block_size(settings(n=n, noise=noise), batch, 3072)
    assert size >= batch
    assert size % batch == 0


def test_batchwise_noise_fits_into_memory() -> None:
    chosen = settings(n=100_000, noise="batchwise")
    assert block_size(chosen, 10, KEPT_ELEMENTS // 100) == 100
    assert block_size(replace(chosen, noise="fresh"), 10, KEPT_ELEMENTS // 100) == 5000


def test_a_run_that_nobody_continues_has_few_blocks() -> None:
    chosen = settings(n=100_000)
    assert block_size(chosen, 100, 3072) == 5000
    assert block_size(chosen, 100, 3072, kept=False) == 10_000
    assert block_size(chosen, 100, 3072, kept=False, on_gpu=True) == 100_000


@given(st.lists(st.booleans(), max_size=70))
def test_bits_are_read_as_they_were_written(bits: list[bool]) -> None:
    assert hits_of(packed_bits(np.array(bits, bool)), len(bits)).tolist() == bits


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"damaged",
        packed_bits(np.ones(8, bool)),  # too short
        packed_bits(np.ones(17, bool)),  # too long
        packed_bits(np.ones(11, bool)),  # a bit beyond the tenth
        packed_bits(np.ones(10, bool)) + b"x",
        packed_bits(np.ones(10, bool))[:-1],
        zlib.compress(bytes(10**8)),  # a bomb: only its first bytes are unpacked
    ],
    ids=["empty", "no zlib", "short", "long", "bit", "tail", "cut", "bomb"],
)
def test_other_bitmaps_are_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match="the bitmap of hits is"):
        hits_of(packed, 10)


def test_a_block_says_which_copies_it_has() -> None:
    assert str(VoteBlock(Purpose.ESTIMATION, 20, 10)) == "the block of copies 20 to 29 for estimation"
