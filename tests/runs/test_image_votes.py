"""How far an image is, by its votes alone: in whatever order they came, and whatever lies beyond the next decision."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from soundsmooth.certification.certify import Counts
from soundsmooth.certification.looks import Looks
from soundsmooth.certification.settings import Settings, settings
from soundsmooth.exact import Look
from soundsmooth.runs.image_votes import image_votes
from soundsmooth.smoothing.blocks import VoteBlock, vote_rounds

#: After 20 copies it goes on with 10 to 15 hits, after 30 always; 40 are the end.
LOOKS = Looks((20, 30, 40), (Fraction(1, 1000),) * 3, (), (((10, 15),), ((0, 30),)), skip_wrong=True)
PLAIN = settings(n0=10, n=40, alpha="1/100")
LOOKING = replace(PLAIN, looks=LOOKS)
ROUNDS = vote_rounds(LOOKING, 10)
SELECTION, FIRST, SECOND, THIRD, LAST = vote_rounds(PLAIN, 10)[0]


def counts(ones: int) -> Counts:
    """Of ten copies, so many voted for class 1, one for nobody and the rest for class 0."""
    return Counts((9 - ones, ones), 1)


def voted(*ones: int, chosen: Settings = LOOKING) -> dict[VoteBlock, Counts]:
    """The first blocks of an image, selection first."""
    blocks = [block for round in vote_rounds(chosen, 10) for block in round]
    return {block: counts(each) for block, each in zip(blocks, ones, strict=False)}


def test_without_looks_everything_is_missing_that_is_not_there() -> None:
    rounds = vote_rounds(PLAIN, 10)
    found = image_votes(PLAIN, rounds, None, voted(9, 8, chosen=PLAIN))
    assert found.looks is None
    assert found.missing == (SECOND, THIRD, LAST)
    assert (found.selection, found.estimation) == (counts(9), counts(8))
    assert image_votes(PLAIN, rounds, None, voted(9, 8, 7, 6, 5, chosen=PLAIN)).missing == ()


def test_selection_is_decided_first() -> None:
    found = image_votes(LOOKING, ROUNDS, None, {})
    assert (found.looks, found.missing) == ((), (SELECTION,))


def test_a_look_needs_all_of_its_blocks() -> None:
    found = image_votes(LOOKING, ROUNDS, 1, voted(9, 8))
    assert (found.looks, found.missing) == ((), (SECOND,))
    assert found.estimation.total == 0  # only full looks are counted


def test_it_goes_on_and_stops_by_the_rule() -> None:
    on = image_votes(LOOKING, ROUNDS, 1, voted(9, 8, 7))
    assert on.looks == (Look(20, 15, 3),)
    assert on.missing == (THIRD,)
    done = image_votes(LOOKING, ROUNDS, 1, voted(9, 8, 8))
    assert done.looks == (Look(20, 16, 2),)
    assert done.missing == ()


def test_nobody_counts_in_n() -> None:
    (look,) = image_votes(LOOKING, ROUNDS, 1, voted(9, 9, 9)).looks or ()
    assert look == Look(20, 18, 2)  # "nobody" is the most frequent of the others


def test_after_the_last_look_nothing_is_missing() -> None:
    found = image_votes(LOOKING, ROUNDS, 1, voted(9, 8, 7, 6, 5))
    assert [look.n for look in found.looks or ()] == [20, 30, 40]
    assert found.missing == ()
    assert found.estimation.total == 40


def test_a_wrong_label_ends_after_selection() -> None:
    found = image_votes(LOOKING, ROUNDS, 0, voted(9))
    assert (found.looks, found.missing) == ((), ())
    assert image_votes(LOOKING, ROUNDS, None, voted(9)).missing == (FIRST, SECOND)
    assert image_votes(replace(LOOKING, looks=replace(LOOKS, skip_wrong=False)), ROUNDS, 0, voted(9)).missing


def test_hits_are_those_of_the_selected_class() -> None:
    """Selection chose class 0; most of estimation votes for class 1."""
    (look,) = image_votes(LOOKING, ROUNDS, None, voted(2, 8, 9)).looks or ()
    assert look == Look(20, 1, 17)


@given(st.lists(st.integers(0, 9), min_size=5, max_size=5), st.data())
def test_votes_beyond_the_stop_change_nothing(ones: list[int], data: st.DataObject) -> None:
    """Blocks of later rounds, which a hostile or a crashed process may have left, do not move the decision."""
    there: dict[VoteBlock, Counts] = {}
    everything = voted(*ones)
    while (found := image_votes(LOOKING, ROUNDS, 1, there)).missing:
        there |= {block: everything[block] for block in found.missing}
    beyond = data.draw(st.sets(st.sampled_from([*everything])))
    more = dict(data.draw(st.permutations([*there.items(), *((block, everything[block]) for block in beyond)])))
    again = image_votes(LOOKING, ROUNDS, 1, more)
    assert (again.selection, again.estimation) == (found.selection, found.estimation)
    assert (again.looks, again.missing) == (found.looks, ())
