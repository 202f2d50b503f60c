"""What a partial replay proves about one certificate.

The issuer hands over a store: for each block of noisy copies the number of hits, the votes for the label. Then the
auditor draws blocks and votes them again, on the same noise, with the committed model. Let x_j be the hits that the
auditor's machine gives, or would give, in block j, and h_j the stored ones. Everything here is about the classifier
on the auditor's machine; its probability of the label is p. Theorems and proofs: docs/audit.md.

What the auditor must see to:

- The noise is that of a key which the issuer could not choose. Given everything that was committed to, the votes of
  all copies are then independent, each a hit with probability p.
- The store is fixed before the blocks are drawn (its hash is handed over), and the draw does not look at votes, stored
  or replayed: fresh randomness, and a number of blocks that was fixed beforehand.
- The selection votes are replayed in full (there are few), so that the label is what selection chose. Otherwise the
  issuer may have chosen it with all votes in view; `selection_replayed=False` pays for that.

If independence was promised to be measured, p is the probability of a row alone, and a block also has the promised
rows that lie in it, which are voted again alone with the block. Let l_j be how many of them are lost (hits in the batch
and not alone) on the auditor's machine; the stored number may be another.

Where looks were promised, an image ends at one of them, for whatever reason. Its blocks end there, no block contains a
look in its middle, and each look has a level of its own. A run without looks has one look, at n, with all of α.

Each statement holds at its own error. Whoever looks at several and keeps the best pays the sum of their errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from math import ceil, floor, prod
from typing import NamedTuple

from .bounds import BOUNDS, Look, Schedule, clopper_pearson_above
from .check import evidence, wins
from .claim import AuditTerms, VoteCounts
from .distance import after_paying
from .doubles import float_below


@dataclass(frozen=True)
class Confirmed:
    """For every ‖δ‖₂ < radius the smoothed classifier keeps the label, except with probability `error`.

    The probability is over key and draw, before either. A radius of 0 confirms nothing.
    """

    p_lower: float
    radius: float
    error: Fraction

    def after_paying(self, paid: float | None) -> "Confirmed":
        """The same for floats that were rounded to the grid: the radius is less by what was paid.

        Guarantee: that of the whole, for floats as given and predictions that snap, if what was paid is what was due.
        """
        return replace(self, radius=after_paying(self.radius, paid))


@dataclass(frozen=True)
class ReplayBlock:
    """One block of noisy copies: the stored number of hits, and that of the auditor's replay, if it was drawn.

    Where independence is measured, also how many of the rows to be voted alone lie in it, and how many of these are
    lost: by the store, and by the replay.
    """

    copies: int
    hits: int
    replayed: int | None = None
    rows: int = 0
    lost: int = 0
    replayed_lost: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.copies or not 0 <= (self.replayed or 0) <= self.copies:
            raise ValueError(f"a block of {self.copies} copies cannot have {self.hits} or {self.replayed} hits")
        if not 0 <= self.lost <= self.rows or not 0 <= self.replayed_lost <= self.rows:
            raise ValueError(f"of {self.rows} rows {self.lost} or {self.replayed_lost} cannot be lost")


class Urn(NamedTuple):
    """What was drawn from: so many places for blocks, whether a block lies in each or not, and so many of them.

    Guarantee: if places were drawn uniformly after the store was fixed, more than `escaping(places, drawn, β)` bad
    blocks escape with probability below β. An empty place is like a good block, whichever places are empty.
    """

    places: int
    drawn: int

    @property
    def whole(self) -> bool:
        """Whether every place was drawn. This is known before the draw."""
        return self.drawn == self.places


def from_replayed(
    label: int,
    replayed: Sequence[VoteCounts],
    promised: AuditTerms,
    selection_replayed: bool = True,
    rows: int = 0,
    lost: int = 0,
    whole: bool = False,
    coin: Fraction | None = None,
) -> Confirmed:
    """(i) The certificate from the replayed votes alone. It needs no trust in the issuer's counts.

    `replayed` has, for each look that was taken, the votes of all replayed copies up to it. If every place of the urn
    was drawn (`whole`), these are all votes, and the promised bound is computed anew. Otherwise a bound for set radii
    gives way to Clopper–Pearson, whose looks may be at any numbers of copies. So does one that needs a coin, also where
    none is given, or the label may have been chosen after the votes. The coin must be the one that the key gives.

    If independence was promised to be measured, `rows` counts the promised rows of the replayed blocks, as often as
    they were drawn, and `lost` those of them that were lost alone. Given how many there are, they are uniform among the
    replayed copies, and independent of all votes: the theorem of measured certificates holds for these copies as for
    all. Without them nothing is proved.

    Guarantee: the claim of `Confirmed` at error α, whatever made the image stop. Whatever blocks are replayed, as long
    as their choice does not depend on the votes, the replayed votes up to each look are independent with the law of all
    votes; the issuer knows them, but chooses nothing but the look.
    """
    measured = promised.again is not None
    if not replayed or not replayed[-1].total or (measured and not rows):
        return Confirmed(0.0, 0.0, promised.alpha)
    here = _divided(promised, _choices(promised, replayed[-1], selection_replayed))
    if not (whole and selection_replayed and coin is not None):
        here = _without_coin(here)
    if not whole:
        here = _thinned(here, [votes.total for votes in replayed])
    counted = {votes.total: votes.look(label) for votes in replayed if votes.total}
    looks = [look for look in counted.values() if look.n in here.schedule.looks]
    here = replace(here, again=rows if measured else None)
    p_lower, p_upper = BOUNDS[here.bound].prove(*evidence(looks, here, lost if measured else None, coin))
    radius = promised.law.radius_below(p_lower, p_upper) if wins(p_lower, p_upper) else 0.0
    return Confirmed(p_lower, radius, promised.alpha)


def _divided(promised: AuditTerms, price: int) -> AuditTerms:
    """The same terms with every level divided by what a chosen label costs."""
    levels = tuple(level / price for level in promised.schedule.levels)
    return replace(promised, schedule=promised.schedule._replace(levels=levels))


def _without_coin(promised: AuditTerms) -> AuditTerms:
    """The same terms, by a bound that needs no coin."""
    return replace(promised, bound="clopper-pearson") if BOUNDS[promised.bound].coin else promised


def _thinned(promised: AuditTerms, copies: Sequence[int]) -> AuditTerms:
    """The same terms for the replayed copies alone, of which there are so many at each look that was taken.

    Looks at the same copies are one look, which has their levels together; those before the first copy belong to the
    first. Where independence is measured, each look has rows of its own, and only the last one counts.

    Guarantee: a function of the draw, for each look at which an image may stop. The levels at different numbers of
    copies add up to at most those that were promised, over all of these looks.
    """
    taken = list(zip(copies, promised.schedule.levels, strict=False))
    first = min(n for n, _ in taken if n)
    spent: dict[int, Fraction] = {}
    for n, level in taken[-1:] if promised.again is not None else taken:
        spent[max(n, first)] = spent.get(max(n, first), Fraction(0)) + level
    bound = "clopper-pearson" if BOUNDS[promised.bound].radii else promised.bound
    schedule = Schedule(tuple(spent), tuple(spent.values()))
    return replace(promised, n=schedule.looks[-1], bound=bound, schedule=schedule)


def _choices(promised: AuditTerms, votes: VoteCounts, selection_replayed: bool) -> int:
    """The price of a label that may have been chosen after the votes.

    With one bound, a label needs p_lower > ½: at all classes together such a bound is too high with probability at
    most 2α (docs/audit.md). A bound on the other classes pays for each class. Where independence is measured, the
    bound itself pays: a model with a memory may always choose so.
    """
    if BOUNDS[promised.bound].two_sided and not selection_replayed:
        return len(votes.classes)
    return _price(promised, selection_replayed)


def _price(promised: AuditTerms, selection_replayed: bool) -> int:
    """The same for a bound from p_lower alone."""
    return 1 if selection_replayed or promised.again is not None else 2


def detection(blocks: int, bad: int, drawn: int) -> Fraction:
    """The probability that `drawn` of the blocks, drawn at random without repetition, hold at least one bad one.

    Guarantee: exactly 1 − C(B − b, s)/C(B, s).
    """
    return 1 - _escape(blocks, bad, drawn)


def escaping(blocks: int, drawn: int, beta: Fraction) -> int:
    """The largest number b of bad blocks that escape a draw with probability C(B − b, s)/C(B, s) ≥ β.

    Guarantee: exact. So more than b bad blocks escape with probability below β.
    """
    if not 0 <= drawn <= blocks or not 0 < beta < 1:
        raise ValueError(f"{drawn} of {blocks} blocks cannot be drawn, or β = {beta} is no probability")
    good, bad = 0, 1
    while bad <= blocks and _escape(blocks, bad, drawn) >= beta:
        good, bad = bad, 2 * bad
    bad = min(bad, blocks + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if _escape(blocks, middle, drawn) >= beta else (good, middle)
    return good


def _escape(blocks: int, bad: int, drawn: int) -> Fraction:
    """C(B − b, s)/C(B, s) = C(B − s, b)/C(B, b), by whichever product is shorter."""
    few, many = sorted((bad, drawn))
    if few + many > blocks:
        return Fraction(0)
    return Fraction(prod(range(blocks - many - few + 1, blocks - many + 1)), prod(range(blocks - few + 1, blocks + 1)))


def struck_out_together(
    certificates: Sequence[Sequence[ReplayBlock]],
    promised: AuditTerms,
    beta: Fraction,
    selection_replayed: bool = True,
    urn: Urn | None = None,
) -> list[Confirmed]:
    """(ii) The certificates from all stored votes, after the blocks that may have escaped are struck out.

    Each certificate is given by all its blocks; those with a replay were drawn at random from one urn that holds the
    blocks of all certificates. Let t be the largest excess h_j − x_j among them, or 0. Except with probability β no
    more than b = `escaping` blocks have a larger excess: if more had, b + 1 blocks of largest excess would all have
    been missed. So at most b unreplayed blocks have more than t false hits. In each certificate the b with most hits
    are struck out, that is counted as misses; all others lose t hits. With no bad block among the drawn, t = 0.
    With looks this is done at each look that was taken, among the blocks up to it.

    If independence was promised to be measured, a lost row that the store hides weighs as n/m hits (`excess_of`), and
    `most_lost` counts the rows that may be lost.

    Guarantee: for each the claim of `Confirmed` at error α + β, against any issuer. The event of probability β is the
    same one for all: the probability that any of N is false is at most Nα + β.
    """
    escaped, excess = escaped_and_excess(certificates, beta, urn)
    here, error = _divided(promised, _price(promised, selection_replayed)), promised.alpha + beta
    return [_with_all_votes(blocks, escaped, excess, here, error) for blocks in certificates]


def all_but_escaped(
    certificates: Sequence[Sequence[ReplayBlock]],
    promised: AuditTerms,
    beta: Fraction,
    selection_replayed: bool = True,
    urn: Urn | None = None,
) -> tuple[int, list[Confirmed]]:
    """(ii) for the set: a number b, and for each certificate a claim with no block struck out.

    The blocks were drawn from one urn that holds those of all certificates. Except with probability β no more than b
    unreplayed blocks have more than t false hits; they lie in at most b certificates, and all others have at least
    the hits that are counted here.

    Guarantee: except with probability β all but b of the claims are such that each of them is false with probability
    at most α (its `error`). Nobody knows which b.
    """
    escaped, excess = escaped_and_excess(certificates, beta, urn)
    here = _divided(promised, _price(promised, selection_replayed))
    return escaped, [_with_all_votes(blocks, 0, excess, here, promised.alpha) for blocks in certificates]


def escaped_and_excess(
    certificates: Sequence[Sequence[ReplayBlock]], beta: Fraction, urn: Urn | None = None
) -> tuple[int, int]:
    """b and t of Theorem 2 for one urn: how many blocks may have escaped, and the largest excess that was seen.

    Without an `urn` the draw was made among these very blocks.

    Guarantee: more than b blocks whose excess is above t escape the draw with probability below β.
    """
    excesses = [
        excess_of(block, _weight(blocks)) for blocks in certificates for block in blocks if block.replayed is not None
    ]
    places, drawn = urn or Urn(sum(map(len, certificates)), len(excesses))
    return escaping(places, drawn, beta), max([0, *excesses])


def excess_of(block: ReplayBlock, weight: Fraction) -> int:
    """How much better a replayed block is in the store: in hits, where a hidden lost row weighs as so many hits.

    Guarantee: at most t exactly if h_j − x_j ≤ t and the hidden lost rows are at most t / weight.
    """
    assert block.replayed is not None
    return max(block.hits - block.replayed, ceil(weight * (block.replayed_lost - block.lost)))


def _weight(blocks: Sequence[ReplayBlock]) -> Fraction:
    """n/m, or n_k/m after look k: so many copies a row that is voted alone stands for. 0 where there are none."""
    rows = sum(block.rows for block in blocks)
    return Fraction(sum(block.copies for block in blocks), rows) if rows else Fraction(0)


def _with_all_votes(
    blocks: Sequence[ReplayBlock], escaped: int, excess: int, promised: AuditTerms, error: Fraction
) -> Confirmed:
    """The bound for the fewest hits that are possible at each look."""
    looks = [_least(part, escaped, excess) for part in _up_to_each_look(blocks, promised)]
    lost = None
    if promised.again is not None:
        if sum(block.rows for block in blocks) != promised.again:
            raise ValueError(f"the rows of a certificate's blocks must add up to the promised m = {promised.again}")
        lost = most_lost(blocks, escaped, excess)
    bound = promised.bound if BOUNDS[promised.bound].radii else "clopper-pearson"
    p_lower, _ = BOUNDS[bound].prove(*evidence(looks, promised, lost))
    return _confirmed(Fraction(p_lower), promised, error)


def _least(blocks: Sequence[ReplayBlock], escaped: int, excess: int) -> Look:
    copies, hits = sum(block.copies for block in blocks), least_hits(blocks, escaped, excess)
    return Look(copies, hits, copies - hits)


def _up_to_each_look(blocks: Sequence[ReplayBlock], promised: AuditTerms) -> list[Sequence[ReplayBlock]]:
    """The blocks up to each look that was taken; a ValueError if they do not end at a look, or pass over one."""
    ends = list(accumulate(block.copies for block in blocks))
    taken = [n for n in promised.schedule.looks if ends and n <= ends[-1]]
    if not {*taken} <= {*ends} or taken[-1:] != ends[-1:]:
        raise ValueError(f"the blocks of a certificate must add up to promised looks, the last at n = {promised.n}")
    return [blocks[: ends.index(n) + 1] for n in taken]


def least_hits(blocks: Sequence[ReplayBlock], escaped: int, excess: int) -> int:
    """The smallest Σ x_j that is possible if at most `escaped` unreplayed blocks have h_j − x_j > `excess`.

    Guarantee: exact. Struck blocks stay in n, as misses: to leave them out would be a choice that looks at votes.
    """
    seen = sum(block.replayed for block in blocks if block.replayed is not None)
    unseen = sorted((block.hits for block in blocks if block.replayed is None), reverse=True)
    return seen + sum(max(0, hits - excess) for hits in unseen[escaped:])


def most_lost(blocks: Sequence[ReplayBlock], escaped: int, excess: int) -> int:
    """The largest Σ l_j that is possible if at most `escaped` unreplayed blocks have more than `excess`.

    Guarantee: exact. In each unreplayed block ⌊`excess`·m/n⌋ more rows may be lost than the store says, and in
    `escaped` of them all; these are taken where that adds most.
    """
    weight = _weight(blocks)
    hidden = floor(excess / weight) if weight else 0
    seen = sum(block.replayed_lost for block in blocks if block.replayed is not None)
    unseen = [block for block in blocks if block.replayed is None]
    lost = [min(block.rows, block.lost + hidden) for block in unseen]
    more = sorted((block.rows - each for block, each in zip(unseen, lost, strict=True)), reverse=True)
    return seen + sum(lost) + sum(more[:escaped])


def with_mismatches(hits: Sequence[int], false_hits: int, replayed: int, promised: AuditTerms) -> Confirmed:
    """(iii) The certificate for the auditor's machine, if the issuer was honest and only had another one.

    `hits` are the stored hits up to each look that was taken. `false_hits` are those, among the `replayed` votes, that
    the replay does not confirm. (All mismatches may be counted instead; that gives less.)

    Guarantee: the claim of `Confirmed` at error α, *if* each stored vote is what one fixed classifier voted on its row:
    then a row is a false hit with one probability d, independently of all others, and p ≥ p_stored − d, where both are
    bounded at half the level of each look. Against an issuer who may write what he likes into some blocks this proves
    nothing, because false hits then come in blocks: use `struck_out_together`. Where independence is measured it proves
    nothing either, because there nothing is known about the votes of a batch.
    """
    halves = _divided(promised, 2).schedule
    looks = [Look(n, stored, n - stored) for n, stored in zip(halves.looks, hits, strict=False)]
    if not 0 <= false_hits <= replayed <= sum(look.n for look in looks[-1:]):
        raise ValueError(f"{false_hits} false hits among {replayed} replayed of {promised.n} votes are not possible")
    if promised.again is not None or not looks:
        return Confirmed(0.0, 0.0, promised.alpha)
    stored, _ = BOUNDS["clopper-pearson"].prove(looks, halves)
    lost = clopper_pearson_above(false_hits, replayed, halves.levels[len(looks) - 1]) if replayed else 1.0
    return _confirmed(Fraction(stored) - Fraction(lost), promised, promised.alpha)


def refutation_level(beta: Fraction, certificates: int, promised: AuditTerms) -> Fraction:
    """The level at which the votes of one certificate are asked whether they refute it.

    The issuer chose the look, also of the replayed votes: so β is divided among certificates and looks.

    Guarantee: if each of so many is asked at this level, at the look where it stopped, then a true one is refuted with
    probability at most β, whatever made them stop.
    """
    return beta / (certificates * len(promised.schedule.looks))


def _confirmed(p: Fraction, promised: AuditTerms, error: Fraction) -> Confirmed:
    """The radius from p alone, whatever bound was promised: it is valid for each of them."""
    p_lower = max(0.0, float_below(p))
    radius = promised.law.radius_below(p_lower, None) if p_lower > 0.5 else 0.0
    return Confirmed(p_lower, radius, error)
