"""What a replay proves of images that stopped, by exact enumeration: all votes, all draws, the best of all stops.

The issuer sees every vote, also those of copies that it never voted on, and stops where this suits it best. It does not
see the draw. Errors are sums over all cases, in fractions: there are no false alarms. Each test also shows an error
above what is allowed if the levels, the places or the strike are not as they should be. So it can fail.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import comb, prod
from operator import gt, le

import pytest

from soundsmooth.audit import (
    AuditTerms,
    Gaussian,
    ReplayBlock,
    Urn,
    VoteCounts,
    all_but_escaped,
    escaped_and_excess,
    escaping,
    from_replayed,
    refutation_level,
    struck_out_together,
    with_mismatches,
)
from soundsmooth.audit.bounds import (
    Schedule,
    clopper_pearson_above,
    clopper_pearson_below,
)

TENTH = Fraction(1, 10)
LAW = Gaussian(Fraction(1, 4))
#: Three looks, after two, four and six blocks of two copies; the default levels.
LOOKS, SIZE = (4, 8, 12), 2
LEVELS = tuple(TENTH * part / 9 for part in (1, 3, 5))
#: Doubles, so that a claim of p is a claim of exactly p.
EVERY_P = [Fraction(each, 64) for each in range(24, 64)]


def terms(
    looks: Sequence[int] = LOOKS, levels: Sequence[Fraction] = LEVELS, alpha: Fraction = TENTH, **more: object
) -> AuditTerms:
    return AuditTerms(1, looks[-1], alpha, LAW, schedule=Schedule(tuple(looks), tuple(levels)), looked=True, **more)


SPENT = terms(bound="clopper-pearson")
#: Every look with the whole of α: what naive repetition would promise.
REPEATED = terms(levels=[TENTH] * 3, alpha=3 * TENTH, bound="clopper-pearson")


def votes_of(*counted: tuple[int, int]) -> list[VoteCounts]:
    """Copies and hits up to each look."""
    return [VoteCounts((hits, copies - hits)) for copies, hits in counted]


# --- levels -----------------------------------------------------------------------------------------------------------


def test_looks_at_the_same_copies_have_their_levels_together() -> None:
    first, second, third = LEVELS
    apart = from_replayed(0, votes_of((2, 2), (4, 4), (6, 5)), SPENT)
    assert apart.error == TENTH
    bounds = (clopper_pearson_below(*each) for each in ((2, 2, first), (4, 4, second), (5, 6, third)))
    assert apart.p_lower == max(bounds)
    joined = from_replayed(0, votes_of((2, 2), (2, 2), (6, 6)), SPENT)
    assert joined.p_lower == max(clopper_pearson_below(2, 2, first + second), clopper_pearson_below(6, 6, third))


def test_looks_before_the_first_copy_leave_their_levels_to_the_first_that_has_one() -> None:
    found = from_replayed(0, votes_of((0, 0), (0, 0), (6, 6)), SPENT)
    assert found.p_lower == clopper_pearson_below(6, 6, TENTH)


def test_a_stop_keeps_the_levels_of_looks_that_were_not_taken() -> None:
    assert from_replayed(0, votes_of((2, 2)), SPENT).p_lower == clopper_pearson_below(2, 2, LEVELS[0])
    together = clopper_pearson_below(2, 2, LEVELS[0] + LEVELS[1])
    assert from_replayed(0, votes_of((2, 2), (2, 2)), SPENT).p_lower == together
    assert from_replayed(0, votes_of((0, 0)), SPENT).p_lower == 0
    assert from_replayed(0, [], SPENT).p_lower == 0


def test_one_look_has_all_of_alpha() -> None:
    fixed = AuditTerms(1, 12, TENTH, LAW, "clopper-pearson")
    assert from_replayed(0, votes_of((6, 6)), fixed).p_lower == clopper_pearson_below(6, 6, TENTH)


def test_a_label_that_was_not_replayed_halves_every_level() -> None:
    found = from_replayed(0, votes_of((2, 2), (4, 4)), SPENT, selection_replayed=False)
    assert found.p_lower == max(clopper_pearson_below(2, 2, LEVELS[0] / 2), clopper_pearson_below(4, 4, LEVELS[1] / 2))


def test_measured_rows_have_the_level_of_the_last_look_alone() -> None:
    """Also where earlier looks have the same copies: each look has rows of its own."""
    measured = terms(bound="clopper-pearson", again=50)
    found = from_replayed(0, votes_of((6, 6), (6, 6)), measured, rows=20, lost=0)
    lost = Fraction(clopper_pearson_above(0, 20, LEVELS[1] / 2))
    assert found.p_lower == clopper_pearson_below(6 - int(6 * lost), 6, LEVELS[1] / 4)


def test_set_radii_count_only_if_every_place_was_drawn() -> None:
    """The boundaries are for the promised looks: other numbers of copies have none."""
    schedule = Schedule(LOOKS, LEVELS, (0.5625,))
    asked = AuditTerms(1, 12, TENTH, LAW, "group-sequential", schedule=schedule, looked=True)
    all_hits = votes_of((4, 4), (8, 8), (12, 12))
    assert from_replayed(0, all_hits, asked, whole=True).p_lower == 0.5625
    assert from_replayed(0, all_hits, asked).p_lower == from_replayed(0, all_hits, SPENT).p_lower > 0.5625


# --- (i), and "refuted" -----------------------------------------------------------------------------------------------

BLOCKS = LOOKS[-1] // SIZE
DRAWS = list(combinations(range(BLOCKS), 4))
#: What the auditor counts up to each look that was taken: copies and hits of the drawn blocks.
Counted = tuple[tuple[int, int], ...]


def counted(draw: Sequence[int], hits: Sequence[int]) -> Counted:
    """Blocks after the stop are empty places, which may be drawn as well."""
    inside = [[block for block in draw if SIZE * (block + 1) <= look] for look in LOOKS]
    return tuple((SIZE * len(blocks), sum(hits[block] for block in blocks)) for blocks in inside)


def stops(bound: Callable[[Counted], float]) -> list[tuple[tuple[int, ...], list[list[float]]]]:
    """For all votes, by blocks, and for each look at which the issuer may stop: the auditor's bound for each draw."""
    bound, found = cache(bound), []
    for hits in product(range(SIZE + 1), repeat=BLOCKS):
        seen = [counted(draw, hits) for draw in DRAWS]
        found.append((hits, [[bound(each[: look + 1]) for each in seen] for look in range(len(LOOKS))]))
    return found


def chance(hits: Sequence[int], p: Fraction) -> Fraction:
    """Of exactly these hits in each block."""
    k, n = sum(hits), LOOKS[-1]
    return prod(comb(SIZE, each) for each in hits) * p**k * (1 - p) ** (n - k)


def worst_error(bound: Callable[[Counted], float], wrong: Callable[[float, float], bool]) -> Fraction:
    """The largest P(the bound is wrong) over p, for the issuer's best stop: it knows all votes, and not the draw."""
    found = stops(bound)

    def error(p: Fraction) -> Fraction:
        q = float(p)
        best = (max(sum(wrong(each, q) for each in bounds) for bounds in looks) for _, looks in found)
        return sum(chance(hits, p) * share for (hits, _), share in zip(found, best, strict=True) if share) / len(DRAWS)

    return max(map(error, EVERY_P))


def at_the_stop(below: Callable[[int, int, Fraction], float], level: Fraction) -> Callable[[Counted], float]:
    """A bound from all copies up to the look that the issuer chose; 0 or 1, as it is for none, without copies."""
    return lambda seen: below(seen[-1][1], max(1, seen[-1][0]), level) if seen[-1][0] else none_of(below)


def none_of(below: Callable[[int, int, Fraction], float]) -> float:
    return 0.0 if below is clopper_pearson_below else 1.0


def test_no_stop_makes_the_replayed_blocks_alone_err_too_often() -> None:
    """The largest error over p is 0.0589 at α = 0.1; with the whole of α at the look of the stop it is 0.1092."""
    spent = worst_error(lambda seen: from_replayed(0, votes_of(*seen), SPENT).p_lower, gt)
    assert float(spent) == pytest.approx(0.0589, abs=1e-4)
    assert float(worst_error(at_the_stop(clopper_pearson_below, TENTH), gt)) == pytest.approx(0.1092, abs=1e-4)


def test_no_stop_makes_a_true_certificate_refuted_too_often() -> None:
    """It claims p itself, the largest that is true. The largest error is 0.0390; with the whole of β 0.1444."""
    level = refutation_level(TENTH, 1, SPENT)
    assert level == TENTH / 3
    assert float(worst_error(at_the_stop(clopper_pearson_above, level), le)) == pytest.approx(0.0390, abs=1e-4)
    assert float(worst_error(at_the_stop(clopper_pearson_above, TENTH), le)) == pytest.approx(0.1444, abs=1e-4)


# --- the urn ----------------------------------------------------------------------------------------------------------


def test_empty_places_are_like_good_blocks() -> None:
    """All draws from up to 7 places: more than b bad blocks escape with probability below β, wherever they lie."""
    beta = Fraction(1, 5)
    for places, drawn in product(range(1, 8), repeat=2):
        if drawn > places:
            continue
        most, draws = escaping(places, drawn, beta), list(combinations(range(places), drawn))
        for bad in range(most + 1, places + 1):
            escaped = sum(min(draw) >= bad for draw in draws)
            assert Fraction(escaped, len(draws)) < beta


def test_the_urn_counts_places_and_not_blocks() -> None:
    """One block of 40 places is stored, and seen: 2 places drawn of 40 may miss 38, drawn of 2 none."""
    seen = [[ReplayBlock(2, 2, 2), ReplayBlock(2, 2, 2)]]
    assert escaped_and_excess(seen, TENTH, Urn(40, 2)) == (escaping(40, 2, TENTH), 0)
    assert escaping(40, 2, TENTH) == 27
    assert escaped_and_excess(seen, TENTH) == (0, 0)
    assert Urn(40, 40).whole
    assert not Urn(40, 39).whole


# --- (ii) -------------------------------------------------------------------------------------------------------------

#: Two looks, after three and four blocks of one copy.
TWO = terms((3, 4), (TENTH, TENTH), 2 * TENTH, bound="clopper-pearson")
BETA = Fraction(1, 5)
PLACES = Urn(4, 2)
#: Stored hits, and those of the replay where a block was drawn.
Seen = tuple[tuple[int, int | None], ...]


@cache
def struck(seen: Seen) -> float:
    blocks = [ReplayBlock(1, hits, again) for hits, again in seen]
    return struck_out_together([blocks], TWO, BETA, urn=PLACES)[0].p_lower


@cache
def one_block_too_few(seen: Seen) -> float:
    """As `struck`, but all blocks that escaped are believed: b is 1 here."""
    blocks = [ReplayBlock(1, hits, again) for hits, again in seen]
    return all_but_escaped([blocks], TWO, BETA, urn=PLACES)[1][0].p_lower


def forgers_error(bound: Callable[[Seen], float], p: Fraction) -> Fraction:
    """P(the bound exceeds p) for an issuer who sees all votes, and then chooses the stop and every stored vote."""
    draws, total = list(combinations(range(4), 2)), Fraction(0)
    for true in product((0, 1), repeat=4):
        best = max(
            sum(bound(replayed(store, true, draw)) > p for draw in draws)
            for taken in (3, 4)
            for store in product((0, 1), repeat=taken)
        )
        total += p ** sum(true) * (1 - p) ** (4 - sum(true)) * Fraction(best, len(draws))
    return total


def replayed(store: Sequence[int], true: Sequence[int], draw: Sequence[int]) -> Seen:
    return tuple((said, true[j] if j in draw else None) for j, said in enumerate(store))


def test_no_forger_who_stops_is_believed_too_often() -> None:
    """α + β is 0.4. The largest error over p is 0.213; it is 0.545 if nothing is struck out."""
    some_p = [Fraction(each, 64) for each in range(1, 40)]
    assert escaping(*PLACES, BETA) == 1
    error = max(forgers_error(struck, p) for p in some_p)
    assert error <= 2 * TENTH + BETA
    assert float(error) == pytest.approx(0.213, abs=1e-3)
    assert float(max(forgers_error(one_block_too_few, p) for p in some_p)) == pytest.approx(0.545, abs=1e-3)


def test_each_look_is_struck_by_itself() -> None:
    """The block that is struck out after look 2 lies before look 1 or after it, whichever costs more."""
    promised = terms((100, 300), (TENTH / 2, TENTH / 2), bound="clopper-pearson")
    blocks = [ReplayBlock(50, 50, 50), ReplayBlock(50, 49), ReplayBlock(200, 190)]
    (found,) = struck_out_together([blocks], promised, BETA, urn=Urn(4, 2))
    levels = [clopper_pearson_below(hits, n, TENTH / 2) for hits, n in ((50, 100), (99, 300))]
    assert found.p_lower == max(levels)
    assert found.error == TENTH + BETA
    (stopped,) = struck_out_together([blocks[:2]], promised, BETA, urn=Urn(4, 2))
    assert stopped.p_lower == levels[0]
    b, (whole,) = all_but_escaped([blocks], promised, BETA, urn=Urn(4, 2))
    assert (b, whole.error) == (1, TENTH)
    assert whole.p_lower == max(clopper_pearson_below(hits, n, TENTH / 2) for hits, n in ((99, 100), (289, 300)))


@pytest.mark.parametrize("copies", [(50, 100), (100, 100, 50), (150, 150)])
def test_blocks_that_pass_over_a_look_or_do_not_end_at_one_are_refused(copies: tuple[int, ...]) -> None:
    promised = terms((100, 300), (TENTH / 2, TENTH / 2), bound="clopper-pearson")
    with pytest.raises(ValueError, match="must add up to promised looks"):
        struck_out_together([[ReplayBlock(each, each) for each in copies]], promised, BETA, urn=Urn(4, 2))


def test_set_radii_are_struck_by_their_own_boundaries() -> None:
    """All hits at both looks reach the threshold; with the first block struck out, neither look does."""
    schedule = Schedule((50, 100), (TENTH / 2, TENTH / 2), (0.75,))
    asked = AuditTerms(1, 100, TENTH, LAW, "group-sequential", schedule=schedule, looked=True)
    blocks = [ReplayBlock(50, 50, 50), ReplayBlock(50, 50)]
    assert all_but_escaped([blocks], asked, BETA, urn=Urn(2, 1))[1][0].p_lower == 0.75
    assert struck_out_together([blocks], asked, BETA, urn=Urn(2, 1))[0].p_lower == 0.75  # reached at the first look
    unseen = [ReplayBlock(50, 50), ReplayBlock(50, 50, 50)]
    assert struck_out_together([unseen], asked, BETA, urn=Urn(2, 1))[0].p_lower == 0


# --- (iii) ------------------------------------------------------------------------------------------------------------

#: A copy is a hit here and there, a hit there alone, or a hit nowhere.
BOTH, THERE, NOWHERE = range(3)


def mismatch_error(promised: AuditTerms, chances: Sequence[Fraction], at_stop: bool) -> Fraction:
    """P(the bound exceeds p) for an honest issuer with another machine, and the worst stop. Copies 0, 2, 4, … are
    replayed. With `at_stop` the hits are bounded at the stop alone, and both bounds have all of α/2.
    """
    total = Fraction(0)
    for kinds in product(range(3), repeat=promised.n):
        wrong = any(_mismatched(promised, kinds[:n], at_stop) > chances[BOTH] for n in promised.schedule.looks)
        total += prod(chances[kind] for kind in kinds) if wrong else 0
    return total


@cache
def _mismatched(promised: AuditTerms, kinds: tuple[int, ...], at_stop: bool) -> float:
    hits = [sum(kind != NOWHERE for kind in kinds[:n]) for n in promised.schedule.looks if n <= len(kinds)]
    false, tried = kinds[::2].count(THERE), len(kinds[::2])
    if at_stop:
        fixed = AuditTerms(1, len(kinds), promised.alpha, LAW, "clopper-pearson")
        return with_mismatches(hits[-1:], false, tried, fixed).p_lower
    return with_mismatches(hits, false, tried, promised).p_lower
