"""What a partial replay proves, by exact enumeration: all votes, all draws, and the best of all forgeries.

No luck is involved: probabilities are sums over all cases. Each theorem is also shown to fail without the part
that makes it true, so that these tests can fail.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, product
from math import comb, factorial

import pytest

from soundsmooth.audit import (
    AuditTerms,
    Confirmed,
    Gaussian,
    ReplayBlock,
    VoteCounts,
    detection,
    escaping,
    from_replayed,
    struck_out_together,
    with_mismatches,
)
from soundsmooth.audit.bounds import clopper_pearson_below
from soundsmooth.audit.radius import radius_holds
from soundsmooth.audit.replay import least_hits

QUARTER = Fraction(1, 4)


def promised(n: int, alpha: Fraction = QUARTER, bound: str = "clopper-pearson") -> AuditTerms:
    return AuditTerms(1, n, alpha, Gaussian(Fraction(1, 4)), bound)


def struck_out(
    blocks: Sequence[ReplayBlock], terms: AuditTerms, beta: Fraction, selection_replayed: bool = True
) -> Confirmed:
    """For one certificate, whose blocks are all that are in the urn."""
    return struck_out_together([blocks], terms, beta, selection_replayed)[0]


def binomial(n: int, hits: int, p: Fraction) -> Fraction:
    return comb(n, hits) * p**hits * (1 - p) ** (n - hits)


# --- the draw --------------------------------------------------------------------------------------------


def test_detection_is_the_share_of_draws_that_meet_a_bad_block() -> None:
    """All draws of s of B ≤ 7 blocks, b of them bad."""
    for blocks in range(1, 8):
        for bad, drawn in product(range(blocks + 1), repeat=2):
            draws = list(combinations(range(blocks), drawn))
            caught = sum(any(block < bad for block in draw) for draw in draws)
            assert detection(blocks, bad, drawn) == Fraction(caught, len(draws))
            assert detection(blocks, bad, drawn) == 1 - Fraction(comb(blocks - bad, drawn), comb(blocks, drawn))


def test_escaping_is_the_largest_number() -> None:
    for blocks in (1, 2, 7, 20, 61):
        for drawn in {0, 1, blocks // 3, blocks // 2, blocks - 1, blocks}:
            for beta in (Fraction(1, 1000), Fraction(1, 20), Fraction(1, 2), Fraction(1, blocks + 1)):
                odds = [Fraction(comb(blocks - b, drawn), comb(blocks, drawn)) for b in range(blocks + 1)]
                assert escaping(blocks, drawn, beta) == max(b for b, odd in enumerate(odds) if odd >= beta)


def test_escaping_from_a_large_store() -> None:
    """5 % of a million blocks: 134 bad ones are missed with probability ≥ 0.001, and 135 are not."""
    found = escaping(10**6, 50_000, Fraction(1, 1000))
    assert found == 134
    assert 1 - detection(10**6, found, 50_000) >= Fraction(1, 1000) > 1 - detection(10**6, found + 1, 50_000)
    assert escaping(10**6, 1, Fraction(1, 1000)) == 999_000


@pytest.mark.parametrize(("blocks", "drawn", "beta"), [(5, 6, QUARTER), (5, -1, QUARTER), (5, 2, Fraction(0))])
def test_impossible_draws(blocks: int, drawn: int, beta: Fraction) -> None:
    with pytest.raises(ValueError, match="cannot be drawn"):
        escaping(blocks, drawn, beta)


# --- (ii) against every forger ---------------------------------------------------------------------------

Rule = Callable[[tuple[ReplayBlock, ...], Fraction, Fraction], float]


@cache
def ours(blocks: tuple[ReplayBlock, ...], alpha: Fraction, beta: Fraction) -> float:
    return struck_out(blocks, promised(sum(block.copies for block in blocks), alpha), beta).p_lower


@cache
def one_block_too_few(blocks: tuple[ReplayBlock, ...], alpha: Fraction, beta: Fraction) -> float:
    """The theorem without its strike: one block less is struck out."""
    excesses = [block.hits - block.replayed for block in blocks if block.replayed is not None]
    escaped = escaping(len(blocks), len(excesses), beta) - 1
    hits = least_hits(blocks, escaped, max([0, *excesses]))
    return clopper_pearson_below(hits, sum(block.copies for block in blocks), alpha)


@cache
def no_excess(blocks: tuple[ReplayBlock, ...], alpha: Fraction, beta: Fraction) -> float:
    """The theorem without its excess: the drawn blocks' false hits are corrected, the others' are not."""
    drawn = sum(block.replayed is not None for block in blocks)
    hits = least_hits(blocks, escaping(len(blocks), drawn, beta), 0)
    return clopper_pearson_below(hits, sum(block.copies for block in blocks), alpha)


def outcomes(blocks: int, copies: int, p: Fraction) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """The true hits per block up to their order, and the probability."""
    for hits in combinations_with_replacement(range(copies + 1), blocks):
        orders = factorial(blocks) // math.prod(factorial(count) for count in Counter(hits).values())
        yield hits, orders * math.prod((binomial(copies, each, p) for each in hits), start=Fraction(1))


def worst_error(
    rule: Rule, blocks: int, copies: int, drawn: int, alpha: Fraction, beta: Fraction, p: Fraction
) -> Fraction:
    """The probability that p_lower > p, for the forger who knows all votes and writes the best store for that."""
    draws = list(combinations(range(blocks), drawn))
    error = Fraction(0)
    for true, weight in outcomes(blocks, copies, p):
        best = 0
        for stored in product(range(copies + 1), repeat=blocks):
            fooled = 0
            for draw in draws:
                store = [
                    ReplayBlock(copies, h, x if j in draw else None)
                    for j, (h, x) in enumerate(zip(stored, true, strict=True))
                ]
                store.sort(key=lambda block: (block.hits, -1 if block.replayed is None else block.replayed))
                fooled += Fraction(rule(tuple(store), alpha, beta)) > p
            best = max(best, fooled)
        error += weight * Fraction(best, len(draws))
    return error


SETTINGS = [(4, 2, 2, Fraction(1, 5)), (5, 1, 3, Fraction(1, 5)), (6, 1, 2, Fraction(1, 4)), (3, 3, 2, Fraction(1, 3))]
TRUTHS = [Fraction(1, 10), Fraction(1, 5), Fraction(1, 3), Fraction(1, 2), Fraction(4, 5)]


@pytest.mark.parametrize(("blocks", "copies", "drawn", "beta"), SETTINGS)
@pytest.mark.parametrize("p", TRUTHS, ids=str)
def test_no_forger_is_believed_too_often(blocks: int, copies: int, drawn: int, beta: Fraction, p: Fraction) -> None:
    """All votes × all stores × all draws: the error is at most α + β, exactly."""
    assert worst_error(ours, blocks, copies, drawn, QUARTER, beta, p) <= QUARTER + beta


def test_the_strike_and_the_excess_are_needed() -> None:
    """With one strike less, or without the excess, some forger breaks α + β: the test above can fail."""
    beta = Fraction(1, 5)
    for p in (Fraction(1, 10), Fraction(1, 5)):
        assert worst_error(one_block_too_few, 4, 2, 2, QUARTER, beta, p) > QUARTER + beta
        assert worst_error(no_excess, 4, 2, 2, QUARTER, beta, p) > QUARTER + beta


def test_struck_blocks_and_their_price() -> None:
    """20 blocks of 5000, 5 replayed and good; β = 0.05 lets 8 escape: C(12, 5)/C(20, 5) = 0.051."""
    blocks = [ReplayBlock(5000, 4990, 4990 if j < 5 else None) for j in range(20)]
    assert escaping(20, 5, Fraction(1, 20)) == 8
    found = struck_out(blocks, promised(100_000, Fraction(1, 1000)), Fraction(1, 20))
    assert found.error == Fraction(51, 1000)
    assert found.p_lower == clopper_pearson_below(12 * 4990, 100_000, Fraction(1, 1000))
    assert radius_holds(found.radius, found.p_lower, None, Fraction(1, 4))
    assert found.radius > 0


def test_a_chosen_label_halves_alpha_here_too() -> None:
    blocks = [ReplayBlock(100, 97, 97 if j < 9 else None) for j in range(10)]
    found = struck_out(blocks, promised(1000), QUARTER, selection_replayed=False)
    assert escaping(10, 9, QUARTER) == 0
    assert found.p_lower == clopper_pearson_below(970, 1000, QUARTER / 2)
    assert found.error == QUARTER + QUARTER


def test_the_blocks_with_most_hits_are_struck() -> None:
    blocks = [ReplayBlock(10, 9, 8), ReplayBlock(10, 9), ReplayBlock(10, 10), ReplayBlock(10, 0), ReplayBlock(10, 5)]
    assert least_hits(blocks, 0, 0) == 8 + 9 + 10 + 0 + 5
    assert least_hits(blocks, 1, 0) == 8 + 9 + 0 + 5
    assert least_hits(blocks, 1, 1) == 8 + 8 + 0 + 4
    assert least_hits(blocks, 4, 1) == 8


def test_a_full_replay_is_a_certificate_of_its_own() -> None:
    """All blocks replayed: nothing is struck, and the stored counts do not matter."""
    blocks = [ReplayBlock(100, 100, 93), ReplayBlock(100, 3, 95)]
    found = struck_out(blocks, promised(200), Fraction(1, 10**9))
    assert found.p_lower == clopper_pearson_below(188, 200, QUARTER)
    assert found.p_lower == from_replayed(0, [VoteCounts((188, 12))], promised(200)).p_lower


def test_no_replay_proves_nothing() -> None:
    nothing = struck_out([ReplayBlock(100, 100)] * 3, promised(300), QUARTER)
    assert (nothing.p_lower, nothing.radius) == (0, 0)
    nothing = from_replayed(0, [VoteCounts((0, 0))], promised(300))
    assert (nothing.p_lower, nothing.radius) == (0, 0)
    nothing = with_mismatches([300], 0, 0, promised(300))
    assert (nothing.p_lower, nothing.radius) == (0, 0)


def test_one_urn_for_many_certificates() -> None:
    """40 certificates of 10 blocks, 100 of 400 blocks drawn: fewer strikes for each than from its own draw alone."""
    terms = promised(1000, Fraction(1, 1000))
    certificates = [
        [ReplayBlock(100, 99, 99 if j in (i % 3, 5) or (j == 6 and i % 2) else None) for j in range(10)]
        for i in range(40)
    ]
    together = struck_out_together(certificates, terms, Fraction(1, 20))
    drawn = sum(block.replayed is not None for blocks in certificates for block in blocks)
    assert drawn == 100
    assert escaping(400, drawn, Fraction(1, 20)) == 10
    alone = [struck_out(blocks, terms, Fraction(1, 20)) for blocks in certificates]
    assert [one.p_lower for one in together] == [
        clopper_pearson_below(sum(block.replayed or 0 for block in blocks), 1000, Fraction(1, 1000))
        for blocks in certificates
    ]  # ten may hide in one certificate, which has seven or eight unseen
    assert all(one.p_lower >= each.p_lower for one, each in zip(alone, together, strict=True))
    assert {one.error for one in together} == {Fraction(51, 1000)}
    with pytest.raises(ValueError, match="add up"):
        struck_out_together([certificates[0][:-1]], terms, Fraction(1, 20))


@pytest.mark.parametrize(("copies", "hits", "replayed"), [(5, 6, None), (5, -1, None), (5, 5, 6), (5, 5, -1)])
def test_impossible_blocks(copies: int, hits: int, replayed: int | None) -> None:
    with pytest.raises(ValueError, match="cannot have"):
        ReplayBlock(copies, hits, replayed)


# --- (i) the replayed blocks alone -----------------------------------------------------------------------


def test_replayed_votes_alone_and_why_the_choice_must_not_look() -> None:
    """One of three blocks of 8: an error of at most α if it is fixed or drawn; more if it is the one with most hits."""
    lower = [from_replayed(0, [VoteCounts((hits, 8 - hits))], promised(24)).p_lower for hits in range(9)]
    errors = [sum((binomial(8, h, p) for h in range(9) if Fraction(lower[h]) > p), Fraction(0)) for p in TRUTHS]
    assert max(errors) <= QUARTER
    assert 1 - (1 - max(errors)) ** 3 > QUARTER


def label_error(n: int, level: Fraction, selection_replayed: bool, ps: tuple[Fraction, ...]) -> Fraction:
    """The probability that some label, chosen with all votes in view, is confirmed with a bound above its truth."""
    lower = [from_replayed(0, [VoteCounts((h, n - h))], promised(n, level), selection_replayed) for h in range(n + 1)]
    error = Fraction(0)
    for first in range(n + 1):
        for second in range(n + 1 - first):
            votes = (first, second, n - first - second)
            if any(lower[h].radius > 0 and Fraction(lower[h].p_lower) > p for h, p in zip(votes, ps, strict=True)):
                ways = factorial(n) // math.prod(factorial(h) for h in votes)
                error += ways * math.prod((p**h for h, p in zip(votes, ps, strict=True)), start=Fraction(1))
    return error


@pytest.mark.parametrize(
    "ps", [("1/2", "1/2", "0"), ("1/3", "1/3", "1/3"), ("3/5", "2/5", "0"), ("49/100", "49/100", "2/100")]
)
def test_a_label_that_was_chosen_with_the_votes_in_view(ps: tuple[str, ...]) -> None:
    """Without a replay of the selection α is halved, and then no choice of the label errs more often than α."""
    truths = tuple(Fraction(p) for p in ps)
    level = Fraction(6197, 2**20) * 4  # just above 4 · P(Bin(20, ½) ≥ 16): the worst case for the first truths
    assert label_error(20, level, False, truths) <= level
    assert label_error(20, level, True, truths) <= 2 * level


def test_the_price_of_a_chosen_label_is_needed() -> None:
    """P(Bin(20, ½) ≥ 16) = 6196/2²⁰ for either class: together twice as much as the level just above it."""
    level = Fraction(6197, 2**20)
    assert sum(comb(20, h) for h in range(16, 21)) == 6196
    halves = (Fraction(1, 2), Fraction(1, 2), Fraction(0))
    assert label_error(20, level, True, halves) > level
    assert label_error(20, level, False, halves) <= level


def test_the_runner_ups_bound_pays_for_each_class() -> None:
    votes, terms = VoteCounts((400, 100, 50), 10), promised(10**5, Fraction(3, 1000), "runner-up")
    replayed = from_replayed(0, [votes], terms)
    chosen = from_replayed(0, [votes], terms, selection_replayed=False)
    assert chosen.p_lower == clopper_pearson_below(400, 560, Fraction(1, 2000))
    assert replayed.p_lower == clopper_pearson_below(400, 560, Fraction(3, 2000))
    assert 0 < chosen.radius < replayed.radius
    assert chosen.error == replayed.error == Fraction(3, 1000)


# --- (iii) mismatches ------------------------------------------------------------------------------------


def mismatch_error(subtract: bool) -> float:
    """60 rows, 30 replayed. A row is a true hit with probability p = 0.5, a false one with probability 0.15."""
    n, replayed, p, d = 60, 30, 0.5, 0.15
    terms = promised(n, Fraction(1, 2))
    lower = cache(lambda hits, false: with_mismatches([hits], false, replayed, terms).p_lower)
    plain = cache(lambda hits: clopper_pearson_below(hits, n, QUARTER))
    error = 0.0
    for false in range(replayed + 1):
        for right in range(replayed + 1 - false):
            rest = replayed - false - right
            ways = factorial(replayed) // (factorial(false) * factorial(right) * factorial(rest))
            seen = ways * d**false * p**right * (1 - p - d) ** rest
            for unseen in range(n - replayed + 1):
                hits = false + right + unseen
                if (lower(hits, false) if subtract else plain(hits)) > p:
                    error += seen * comb(30, unseen) * (p + d) ** unseen * (1 - p - d) ** (30 - unseen)
    return error


@pytest.mark.slow("computes many tails exactly")
def test_mismatches_of_an_honest_issuer() -> None:
    """The error is at most α = ½, not 0, and above α if the mismatches are not subtracted."""
    assert 0 < mismatch_error(subtract=True) <= 0.5
    assert mismatch_error(subtract=False) > 0.5


def test_mismatches_prove_nothing_against_a_forger() -> None:
    """Half of 20 blocks are forged, one is replayed: a good one half of the time.

    Then (iii) confirms a radius for a class that has a third of the votes; striking out does not.
    """
    terms = promised(100_000, Fraction(1, 1000))
    blocks = [ReplayBlock(5000, 5000 if j % 2 else 1667, None if j else 1667) for j in range(20)]
    hits = sum(block.hits for block in blocks)
    assert detection(20, 10, 1) == Fraction(1, 2)
    assert with_mismatches([hits], 0, 5000, terms).radius > 0
    assert struck_out(blocks, terms, Fraction(1, 1000)).radius == 0


@pytest.mark.parametrize(("false", "replayed"), [(-1, 10), (11, 10), (1, 1001)])
def test_impossible_mismatches(false: int, replayed: int) -> None:
    with pytest.raises(ValueError, match="not possible"):
        with_mismatches([900], false, replayed, promised(1000))
