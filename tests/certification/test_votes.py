"""Counts of votes as a text: one text for each, and nothing else is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundsmooth.certification.certify import Counts
from soundsmooth.certification.votes import MOST_CLASSES, added, counts_of, votes_text

COUNTS = st.builds(Counts, st.lists(st.integers(0, 10**9), min_size=1, max_size=20).map(tuple), st.integers(0, 100))


@given(COUNTS)
def test_what_is_written_is_read_back(counts: Counts) -> None:
    assert counts_of(votes_text(counts)) == counts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "5",
        "[" * 100_000,
        '{"classes":2}',
        '{"classes":0,"votes":{}}',
        '{"classes":-1,"votes":{}}',
        '{"classes":2.0,"votes":{}}',
        '{"classes":true,"votes":{}}',
        f'{{"classes":{MOST_CLASSES + 1},"votes":{{}}}}',
        '{"classes":2,"votes":{"0":0}}',
        '{"classes":2,"votes":{"0":-1}}',
        '{"classes":2,"votes":{"0":1.0}}',
        '{"classes":2,"votes":{"0":true}}',
        '{"classes":2,"votes":{"2":1}}',
        '{"classes":2,"votes":{"-2":1}}',
        '{"classes":2,"votes":{"1":1,"0":1}}',
        '{"classes":2,"votes":{"0":1,"-1":1}}',
        '{"classes":2,"votes":{"0":1,"0":1}}',
        '{"classes":2,"votes":{"00":1}}',
        '{"classes":2,"votes":{"٣":1}}',
        '{"classes": 2,"votes":{}}',
        '{"votes":{},"classes":2}',
        '{"classes":2,"votes":{},"more":1}',
    ],
    ids=lambda text: text[:30],
)
def test_anything_else_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="these are no votes"):
        counts_of(text)


def test_sums_of_counts() -> None:
    assert added([]) == Counts((), 0)
    assert added([Counts((1, 2), 3), Counts((4, 5), 6)]) == Counts((5, 7), 9)
    assert added([Counts((), 0), Counts((4, 5, 6), 1)]) == Counts((4, 5, 6), 1)
