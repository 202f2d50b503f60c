"""The replay that is advised does what is said of it."""

from fractions import Fraction

import pytest

from soundsmooth.audit.replay import escaping
from soundsmooth.noise import Purpose
from soundsmooth.smoothing.blocks import VoteBlock
from soundsmooth.verification.draw import Places, number_to_draw, share_that_confirms
from soundsmooth.verification.statements import Claimed

BETA = Fraction(1, 1000)


@pytest.mark.parametrize("spare", [0, 1, 2, 9, 99])
@pytest.mark.parametrize("blocks", [20, 207, 2000])
def test_a_draw_of_that_share_leaves_no_more_bad_blocks_than_may_be_spared(spare: int, blocks: int) -> None:
    share = share_that_confirms(spare, BETA)
    drawn = blocks if share is None else number_to_draw(f"{share}%", blocks)
    assert escaping(blocks, drawn, BETA) <= spare


@pytest.mark.parametrize("spare", [1, 2, 9, 99])
def test_a_smaller_share_would_not_do_among_many_blocks(spare: int) -> None:
    """By two percents: the bound is that of a draw with repetition, a little above the exact one."""
    share = share_that_confirms(spare, BETA)
    assert share is not None
    assert escaping(2000, number_to_draw(f"{share - 2}%", 2000), BETA) > spare


def test_where_no_bad_block_may_escape_only_all_will_do() -> None:
    assert share_that_confirms(0, BETA) is None
    assert share_that_confirms(0, Fraction(1, 5)) == 81


def test_what_memory_does_not_hold_is_not_drawn() -> None:
    """A run with looks and blocks of one copy has a place for each copy that could have voted."""
    assert number_to_draw("all", 25 * 10**6) == number_to_draw("25%", 10**8) == 25 * 10**6
    with pytest.raises(ValueError, match="blocks are too small for a replay"):
        number_to_draw("1", 10**10)
    for asked in ("26%", "all", "25000001"):
        with pytest.raises(ValueError, match="ask for fewer"):
            number_to_draw(asked, 10**8)


BLOCKS = [VoteBlock(Purpose.ESTIMATION, first, 20) for first in range(0, 100, 20)]


def claimed(place: int, copies: int) -> Claimed:
    return Claimed(place, 10 + place, 0, None, 0.25, 0.9, copies)


def test_with_looks_each_block_that_could_have_been_has_a_place() -> None:
    """Of four images two have a label. They stopped after 40 and after 100 of 100 copies. Neither this nor that another
    image stopped, or abstains, moves a place.
    """
    some = [claimed(1, 40), claimed(3, 100)]
    places = Places.of(some, 4, BLOCKS, looked=True)
    assert len(places) == 20
    found = [(each.place, block.first) for each, block in places.drawn(range(20), some)]
    assert found == [(1, 0), (1, 20), (3, 0), (3, 20), (3, 40), (3, 60), (3, 80)]
    longer = [claimed(0, 100), *some]
    assert len(Places.of(longer, 4, BLOCKS, looked=True)) == 20
    again = [(each.place, block.first) for each, block in places.drawn([5, 7, 12, 19], longer)]
    assert again == [(1, 0), (3, 80)]


def test_without_looks_the_places_are_the_blocks_of_certificates() -> None:
    some = [claimed(1, 100), claimed(3, 100)]
    places = Places.of(some, 4, BLOCKS, looked=False)
    assert len(places) == 10
    found = [(each.place, block.first) for each, block in places.drawn(range(10), some)]
    assert found == [(place, block.first) for place in (1, 3) for block in BLOCKS]
