"""Replay: some blocks are drawn and voted again, and what that proves (docs/audit.md)."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, zip_longest

import numpy as np

from ..audit import (
    AuditTerms,
    Confirmed,
    ReplayBlock,
    Urn,
    VoteCounts,
    all_but_escaped,
    escaped_and_excess,
    from_replayed,
    read_terms,
    refutation_level,
    struck_out_together,
    with_mismatches,
)
from ..audit.bounds import BOUNDS, clopper_pearson_upper_holds
from ..certification.certify import Counts, coin_above
from ..certification.promise import Inputs
from ..certification.votes import added
from ..core.decimals import truncated
from ..independence.measure import RowsToRecheck, SampledRows, sample_rows
from ..models import Votes
from ..noise import Purpose
from ..runs.reader import RunReader
from ..runs.stored import StoredBlock
from ..runs.tasks import Outcome, Task
from ..runs.voter import Voter
from ..smoothing.blocks import Bits, VoteBlock, hits_of
from ..smoothing.voting import counted
from .draw import Draw, Places
from .result import Findings
from .revote import packing_of, revote
from .statements import Claimed, Replay, Statement

Progress = Callable[[int], None]
NO_VOTES = Counts((), 0)


@dataclass
class Comparison:
    """One certificate's replayed blocks, as far as they have come back."""

    claimed: Claimed
    looks: tuple[int, ...]
    """The promised ones: numbers of copies. Without looks one, n."""
    level: Fraction
    """The level at which its replayed votes are asked whether they refute it."""
    selection: Counts = NO_VOTES
    between: dict[int, Counts] = field(default_factory=dict)
    """The votes of the drawn blocks of estimation that could be voted again, by the look before which they lie."""
    hits: dict[int, int] = field(default_factory=dict)
    """The replayed hits of the drawn blocks, by their first copy: 0 for one that could not be voted again."""
    differ: int = 0
    """Votes that are known to differ: by the bitmap, or at least so many by the counts."""
    false_hits: int | None = 0
    """Stored hits that the replay denies; None where the bitmaps were left out."""
    failed: int = 0
    lost_copies: dict[int, int] = field(default_factory=dict)
    """Copies of estimation that could not be voted again, by the look before which they lie."""
    error: str | None = None
    coin: Fraction | None = None
    """The one that promise, seed and nonce give it, where the bound is randomized."""
    drawn: SampledRows | None = None
    """Its rows that are to be voted alone, if independence was promised to be measured."""
    waiting: dict[VoteBlock, tuple[tuple[int, ...], Bits, Bits]] = field(default_factory=dict)
    """The drawn rows of the replayed blocks that have to be voted alone, and which of them were hits in their batch: in
    the store, and here."""
    lost: dict[int, int] = field(default_factory=dict)
    """The drawn rows of the replayed blocks that are hits in their batch and not alone, by the block's first copy."""
    rows_differ: int = 0
    """Rows that vote otherwise alone than is stored."""
    rows_tried: int = 0
    rows_missed: int = 0
    """Different drawn rows of the replayed blocks, and those of them that are known to be no hits alone."""

    @property
    def selected(self) -> bool:
        """Whether the label is the one that the replayed selection chose."""
        return bool(self.selection.classes) and self.selection.top == self.claimed.label

    @property
    def votes(self) -> Counts:
        """Of the drawn blocks of estimation that could be voted again."""
        return added(self.between.values())

    def look_of(self, block: VoteBlock) -> int:
        """Which look is the first that counts a block: no block has one in its middle."""
        return bisect_left(self.looks, block.copies.stop)

    @property
    def taken(self) -> tuple[int, ...]:
        """The looks that the certificate's copies contain."""
        return tuple(n for n in self.looks if n <= self.claimed.copies)

    @property
    def drawn_votes(self) -> list[VoteCounts]:
        """Of all drawn blocks up to each look that was taken; copies that could not be voted again vote for nobody."""
        parts = (
            added((self.between.get(look, NO_VOTES), Counts((), self.lost_copies.get(look, 0))))
            for look in range(len(self.taken))
        )
        sums = accumulate(parts, lambda before, more: added((before, more)))
        least = self.claimed.label + 1
        return [VoteCounts(each.classes + (0,) * (least - len(each.classes)), each.nobody) for each in sums]


def replay(
    run: RunReader,
    claimed: Sequence[Claimed],
    voter: Voter,
    inputs: Inputs,
    places: Places,
    drawn: int,
    beta: Fraction,
    same_machine: bool,
    findings: Findings,
    draw: Draw,
    progress: Progress,
) -> Replay:
    """Draw from one urn, with places for the blocks of all certificates with a label; vote again; compare; conclude.

    The selection of each of these certificates is replayed in full. Where independence was promised to be measured, the
    promised rows of the drawn blocks are voted again too, each alone. On the same kind of machine every difference is a
    finding; on another one, only what the replayed votes refute.

    Guarantee: as Theorems 1 to 6 of docs/audit.md, if their premises hold. The caller has handed over the content hash
    before this draws.
    """
    urn, promised = Urn(len(places), drawn), read_terms(run.stated.promise.values)
    found = list(places.drawn(draw(*urn), claimed))
    level = refutation_level(beta, len(places.images), promised)
    compared = {each.place: _begun(run, each, promised, level) for each in claimed}
    for outcome in revote(voter, inputs, _tasks(run, claimed, found), packing_of(run)):
        place, block = outcome.task.only
        (stored,) = run.blocks(place, block.purpose, block.first)
        _compare(compared[place], stored, outcome)
        progress(block.count)
    every = list(compared.values())
    for outcome in revote(voter, inputs, _rows_alone(every)):
        _compare_rows(run, compared[outcome.task.only.place], outcome)
    findings.add_all(_failures(every))
    if same_machine:
        findings.add_all(_differences(every))
    concluded = _conclude([(each, _stored(run, each)) for each in every], promised, urn, beta, same_machine)
    findings.add_all(_refutations(concluded))
    return concluded


def _begun(run: RunReader, each: Claimed, promised: AuditTerms, level: Fraction) -> Comparison:
    secret, promise = run.stated.secret, run.stated.promise
    rows = sample_rows(secret, promise, each.number, each.copies)
    coin = coin_above(secret.coin(promise, each.number)) if BOUNDS[promised.bound].coin else None
    return Comparison(each, promised.schedule.looks, level, coin=coin, drawn=rows)


def _tasks(run: RunReader, claimed: Sequence[Claimed], drawn: Sequence[tuple[Claimed, VoteBlock]]) -> Iterator[Task]:
    """All of selection, and the drawn blocks of estimation."""
    for each in claimed:
        yield from (Task.of(each.place, block) for block in run.all_blocks if block.purpose == Purpose.SELECTION)
    yield from (Task.of(each.place, block) for each, block in drawn)


def _rows_alone(compared: Sequence[Comparison]) -> list[Task]:
    """The promised rows of the replayed blocks that were hits there or in the store: the others cannot be lost."""
    return [
        Task.of(each.claimed.place, block, RowsToRecheck(each.claimed.label, rows))
        for each in compared
        for block, (rows, _, _) in each.waiting.items()
    ]


def _compare(into: Comparison, stored: StoredBlock, outcome: Outcome) -> None:
    block, votes = outcome.task.only.block, None if outcome.votes is None else outcome.copy_votes
    if votes is None:
        into.failed, into.error = into.failed + 1, outcome.errors[-1]
    elif block.purpose == Purpose.SELECTION:
        counts = counted(votes)
        into.selection = added((into.selection, counts))
        into.differ += count_differences(stored.counts, counts)
    if block.purpose == Purpose.ESTIMATION:
        _compare_hits(into, stored, votes)


def _compare_hits(into: Comparison, stored: StoredBlock, votes: Votes | None) -> None:
    block, label, look = stored.block, into.claimed.label, into.look_of(stored.block)
    if votes is None:
        into.hits[block.first], into.false_hits = 0, None
        into.lost_copies[look] = into.lost_copies.get(look, 0) + block.count
        return
    counts = counted(votes)
    into.hits[block.first] = _votes_for(counts, label)
    into.between[look] = added((into.between.get(look, NO_VOTES), counts))
    by_counts, by_bits = count_differences(stored.counts, counts), 0
    if stored.hits is None:
        into.false_hits = None
    else:
        before, now = hits_of(stored.hits, block.count), votes.labels == label
        by_bits = int((before ^ now).sum())
        into.false_hits = None if into.false_hits is None else into.false_hits + int((before & ~now).sum())
        _await_rows(into, block, before, now)
    into.differ += max(by_counts, by_bits)


def _await_rows(into: Comparison, block: VoteBlock, before: Bits, now: Bits) -> None:
    """Note the drawn rows of a replayed block, to be voted alone."""
    if into.drawn is None:
        return
    drawn = into.drawn.inside(block)
    rows = drawn.among(before | now, block.first)
    into.rows_tried += len(set(drawn.rows))
    if rows:
        at = [row - block.first for row in rows]
        into.waiting[block] = rows, before[at], now[at]


def _compare_rows(run: RunReader, into: Comparison, outcome: Outcome) -> None:
    """Rows alone: against the store, and which hits of the replay are lost. Rows that cannot be voted on are lost."""
    block, kept = outcome.task.only.block, None if outcome.votes is None else outcome.bits
    assert into.drawn is not None
    rows, before, now = into.waiting[block]
    if kept is None:
        into.failed, into.error = into.failed + 1, outcome.errors[-1]
        kept = np.zeros(len(rows), bool)
    else:
        stored = _stored_alone(run, into.claimed.place, block, int(before.sum()))
        into.rows_differ += int((stored != kept[before]).sum())
        into.rows_missed += int((~kept).sum())
    hit = [row for row, is_hit in zip(rows, now, strict=True) if is_hit]
    into.lost[block.first] = into.drawn.inside(block).lost(hit, kept[now])


def _stored_alone(run: RunReader, place: int, block: VoteBlock, count: int) -> Bits:
    """Which of `count` rows of a block are hits alone, by the store."""
    packed = run.alone(place).get(block.first)
    return np.zeros(0, bool) if packed is None else hits_of(packed, count)


def count_differences(stored: Counts, replayed: Counts) -> int:
    """At least so many votes differ, by the counts alone: ½ Σ |difference|, a vote for nobody included."""
    classes = zip_longest(stored.classes, replayed.classes, fillvalue=0)
    apart = sum(abs(before - now) for before, now in (*classes, (stored.nobody, replayed.nobody)))
    return -(-apart // 2)


def _votes_for(counts: Counts, label: int) -> int:
    return counts.classes[label] if label < len(counts.classes) else 0


def _failures(compared: Sequence[Comparison]) -> Iterator[str]:
    for each in compared:
        if each.failed:
            yield f"image {each.claimed.number}: {each.failed} blocks could not be voted again: {each.error}"


def _differences(compared: Sequence[Comparison]) -> Iterator[str]:
    for each in compared:
        if each.differ:
            yield (
                f"image {each.claimed.number}: at least {each.differ} stored votes are not what the model votes here, "
                f"of selection and {each.votes.total} replayed copies"
            )
        if each.rows_differ:
            yield f"image {each.claimed.number}: {each.rows_differ} rows do not vote alone as is stored"


def _refutations(found: Replay) -> Iterator[str]:
    for each in found.statements:
        if each.refuted:
            yield (
                f"image {each.claimed.number}: the replayed copies refute p_lower = {truncated(each.claimed.p_lower)} "
                f"(at error {found.beta} for all certificates together)"
            )


def _stored(run: RunReader, each: Comparison) -> list[ReplayBlock]:
    """All blocks of a certificate, with the replayed hits of those that were drawn.

    An image that was ended from outside may have some after its last full look. No claim rests on these.
    """
    there = run.blocks(each.claimed.place, Purpose.ESTIMATION)
    return [_block(run, each, stored) for stored in there if stored.block.copies.stop <= each.claimed.copies]


def _block(run: RunReader, each: Comparison, stored: StoredBlock) -> ReplayBlock:
    block, replayed = stored.block, each.hits.get(stored.block.first)
    hits = _votes_for(stored.counts, each.claimed.label)
    if each.drawn is None or stored.hits is None:
        return ReplayBlock(block.count, hits, replayed)
    drawn = each.drawn.inside(block)
    rows = drawn.among(hits_of(stored.hits, block.count), block.first)
    lost = drawn.lost(rows, _stored_alone(run, each.claimed.place, block, len(rows)))
    return ReplayBlock(block.count, hits, replayed, len(drawn.rows), lost, each.lost.get(block.first, 0))


def _conclude(
    found: Sequence[tuple[Comparison, Sequence[ReplayBlock]]],
    promised: AuditTerms,
    urn: Urn,
    beta: Fraction,
    same: bool,
) -> Replay:
    """What is proved of each certificate, given with all its blocks, and of all together."""
    compared, blocks = [each for each, _ in found], [blocks for _, blocks in found]
    escaped, excess = escaped_and_excess(blocks, beta, urn)
    rows = sum(len(rows) for each in compared for rows, _, _ in each.waiting.values())
    struck = _prove_by_selection(compared, lambda selected: struck_out_together(blocks, promised, beta, selected, urn))
    together = _prove_by_selection(compared, lambda selected: all_but_escaped(blocks, promised, beta, selected, urn)[1])
    set_radii = (found.after_paying(each.claimed.paid).radius for each, found in zip(compared, together, strict=True))
    return Replay(
        blocks=sum(map(len, blocks)),
        drawn=sum(block.replayed is not None for each in blocks for block in each),
        beta=beta,
        escaped=escaped,
        excess=excess,
        differ=sum(each.differ + each.rows_differ for each in compared),
        failed=sum(each.failed for each in compared),
        rows=None if promised.again is None else rows,
        same_machine=same,
        statements=tuple(_statements(found, struck, promised, urn.whole)),
        set_radii=tuple(set_radii),
        places=urn if promised.looked else None,
    )


def _prove_by_selection(compared: Sequence[Comparison], prove: Callable[[bool], list[Confirmed]]) -> list[Confirmed]:
    """At full α where the replayed selection confirms the label; elsewhere the label is paid for (Theorem 4)."""
    if all(each.selected for each in compared):
        return prove(True)
    confirmed = zip(compared, prove(True), prove(False), strict=True)
    return [free if each.selected else paid for each, free, paid in confirmed]


def _statements(
    found: Sequence[tuple[Comparison, Sequence[ReplayBlock]]],
    struck: Sequence[Confirmed],
    promised: AuditTerms,
    whole: bool,
) -> Iterator[Statement]:
    for (each, blocks), proved in zip(found, struck, strict=True):
        alone, honest = _from_replayed(each, blocks, promised, whole), _honest(each, blocks, promised)
        yield Statement(
            claimed=each.claimed,
            copies=sum(votes.total for votes in each.drawn_votes[-1:]),
            differ=each.differ + each.rows_differ,
            failed=each.failed,
            selected=each.selected,
            alone=alone.after_paying(each.claimed.paid),
            struck=proved.after_paying(each.claimed.paid),
            honest=None if honest is None else honest.after_paying(each.claimed.paid),
            refuted=_refuted(each),
        )


def _from_replayed(each: Comparison, blocks: Sequence[ReplayBlock], promised: AuditTerms, whole: bool) -> Confirmed:
    drawn = [block for block in blocks if block.replayed is not None]
    rows, lost = sum(block.rows for block in drawn), sum(block.replayed_lost for block in drawn)
    return from_replayed(each.claimed.label, each.drawn_votes, promised, each.selected, rows, lost, whole, each.coin)


def _honest(each: Comparison, blocks: Sequence[ReplayBlock], promised: AuditTerms) -> Confirmed | None:
    if each.false_hits is None or promised.again is not None:
        return None
    copies, hits = accumulate(block.copies for block in blocks), accumulate(block.hits for block in blocks)
    at = dict(zip(copies, hits, strict=True))
    return with_mismatches([at[n] for n in each.taken], each.false_hits, each.votes.total, promised)


def _refuted(each: Comparison) -> bool:
    """Whether the claimed p_lower is above the upper bound, at its level, that the replayed votes allow.

    If independence is measured, p is that of rows alone: different rows, of which those that were no hits in their
    batch count as hits.

    Guarantee: if p ≥ p_lower and no block failed, this is True with probability at most the level, times the number of
    promised looks.
    """
    hits, copies = _votes_for(each.votes, each.claimed.label), each.votes.total
    if each.drawn is not None:
        hits, copies = each.rows_tried - each.rows_missed, each.rows_tried
    return copies > 0 and clopper_pearson_upper_holds(each.claimed.p_lower, hits, copies, each.level)
