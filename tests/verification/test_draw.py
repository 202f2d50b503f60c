"""The replay that is advised does what is said of it."""

from fractions import Fraction

import pytest

from soundsmooth.audit.replay import escaping
from soundsmooth.verification.draw import number_to_draw, share_that_confirms

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
