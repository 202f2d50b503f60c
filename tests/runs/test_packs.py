"""Packs: each copy of a round once, in the order that the promise fixes, however much of the round is there."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundsmooth.certification.certify import Counts
from soundsmooth.certification.looks import Looks
from soundsmooth.certification.settings import settings
from soundsmooth.noise import Purpose
from soundsmooth.runs.image_votes import ImageVotes, image_votes
from soundsmooth.runs.packs import cut, packs_of_round, rounds_passed
from soundsmooth.runs.tasks import Part
from soundsmooth.smoothing.blocks import VoteBlock, vote_rounds

LOOKS = Looks((20, 30, 40), (Fraction(1, 1000),) * 3, (), (((10, 15),), ((15, 25),)), skip_wrong=True)
LOOKING = replace(settings(n0=10, n=40, alpha="1/100"), looks=LOOKS)
ROUNDS = vote_rounds(LOOKING, 10)
BLOCKS = [block for round in ROUNDS for block in round]

#: Hits in each block of an image, as they would be if all were voted.
Group = list[list[int]]
groups = st.lists(st.lists(st.integers(0, 10), min_size=len(BLOCKS), max_size=len(BLOCKS)), min_size=1, max_size=6)


def part(place: int, count: int, first: int = 0) -> Part:
    return Part(place, VoteBlock(Purpose.ESTIMATION, first, count))


def votes_of(group: Group, there: Mapping[int, set[VoteBlock]]) -> dict[int, ImageVotes]:
    """The votes of a group of which these blocks are there. Places 2, 5, 8, … have a wrong label."""
    found = {}
    for place, hits in enumerate(group):
        counts = {block: Counts((10 - each, each), 0) for block, each in zip(BLOCKS, hits, strict=True)}
        truth = 2 if place % 3 == 2 else None
        found[place] = image_votes(LOOKING, ROUNDS, truth, {block: counts[block] for block in there.get(place, set())})
    return found


def walk(group: Group, most: int) -> list[list[tuple[Part, ...]]]:
    """The packs of each round, as an undisturbed run votes them."""
    there: dict[int, set[VoteBlock]] = {}
    found = []
    for number in range(len(ROUNDS)):
        packs = packs_of_round(votes_of(group, there), ROUNDS, number, most)
        found.append(packs)
        for place, block in (each for pack in packs for each in pack):
            there.setdefault(place, set()).add(block)
    return found


def test_parts_are_cut_in_order() -> None:
    parts = [part(0, 4), part(1, 4), part(2, 3), part(3, 9), part(4, 1), part(5, 7)]
    assert cut(parts, 8) == [(parts[0], parts[1]), (parts[2],), (parts[3],), (parts[4], parts[5])]
    assert cut([], 8) == []
    assert cut(parts[:1], 4) == [(parts[0],)]


@given(st.lists(st.integers(1, 30), max_size=30), st.integers(1, 40))
def test_no_part_is_lost_doubled_or_moved(counts: list[int], most: int) -> None:
    parts = [part(place, count) for place, count in enumerate(counts)]
    packs = cut(parts, most)
    sizes = [sum(each.block.count for each in pack) for pack in packs]
    assert [each for pack in packs for each in pack] == parts
    assert all(size <= most or len(pack) == 1 for size, pack in zip(sizes, packs, strict=True))
    after = [pack[0].block.count for pack in packs[1:]]
    assert all(size + more > most for size, more in zip(sizes, after, strict=False))  # none is cut too early


@pytest.mark.parametrize(
    ("there", "passed"), [((), 0), (BLOCKS[:1], 1), (BLOCKS[:2], 1), (BLOCKS[:3], 2), (BLOCKS[:4], 3), (BLOCKS, 4)]
)
def test_rounds_are_counted_with_selection(there: list[VoteBlock], passed: int) -> None:
    (votes,) = votes_of([[9, 7, 7, 7, 7]], {0: set(there)}).values()
    assert rounds_passed(votes, ROUNDS) == passed


def test_a_wrong_label_takes_part_in_selection_only() -> None:
    rounds = walk([[9, 7, 7, 7, 7]] * 3, 1000)
    assert [[part.place for pack in packs for part in pack] for packs in rounds] == [
        [0, 1, 2], [0, 1, 0, 1], [0, 1], [0, 1],
    ]  # fmt: skip


@given(groups, st.integers(5, 60))
def test_each_image_votes_what_it_votes_alone(group: Group, most: int) -> None:
    """Its stop depends on its own votes: who else is in the group, and how packs are cut, does not matter."""
    rounds = walk(group, most)
    for place, hits in enumerate(group):
        alone = walk([[0] * len(BLOCKS)] * place + [hits], 1000)
        mine, theirs = (
            [each.block for packs in found for pack in packs for each in pack if each.place == place]
            for found in (rounds, alone)
        )
        assert mine == theirs


@given(groups, st.integers(5, 60), st.data())
def test_whoever_comes_later_puts_the_same_copies_into_the_same_packs(
    group: Group, most: int, data: st.DataObject
) -> None:
    """A kill after any pack, and any set of packs of a round: the round is cut as it was, as are those before it."""
    rounds = walk(group, most)
    last = data.draw(st.integers(0, len(rounds) - 1))
    some = data.draw(st.sets(st.sampled_from(rounds[last]))) if rounds[last] else set()
    there: dict[int, set[VoteBlock]] = {}
    for pack in [*(pack for packs in rounds[:last] for pack in packs), *some]:
        for place, block in pack:
            there.setdefault(place, set()).add(block)
    votes = votes_of(group, there)
    for number in range(last + 1):
        assert packs_of_round(votes, ROUNDS, number, most) == rounds[number]
