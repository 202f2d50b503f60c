"""Audits of runs whose independence was measured: honest ones, changed ones, forged ones, and what a replay proves."""

import dataclasses
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

import classifiers
from soundsmooth import audit
from soundsmooth.audit import AuditTerms, Gaussian, ReplayBlock, VoteCounts, from_replayed, struck_out_together
from soundsmooth.audit.replay import escaped_and_excess, least_hits, most_lost
from soundsmooth.certification.certify import Measurement, certify
from soundsmooth.independence.measure import rows_by_block, sample_rows
from soundsmooth.runs.plan import RunPlan
from soundsmooth.runs.store import Store
from soundsmooth.smoothing.blocks import packed_bits
from soundsmooth.verification import Verification, audit_file
from verification.issuer import NONCE, given, issue, measured_run, small_run, write_certificate
from verification.test_audits_tamper import change, changes

BLOCKS = 20


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two certificates and an abstention."""
    return checkpointed(issue(tmp_path_factory.mktemp("measured") / "run.db", measured_run()))


def checkpointed(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def copied(run: Path, tmp_path: Path) -> Path:
    path = tmp_path / "copy.db"
    path.write_bytes(run.read_bytes())
    return path


def audited(
    path: Path, replay: str | None = None, scores: object = classifiers.brightness, **more: object
) -> Verification:
    return audit_file(path, given(replay, scores, nonce=NONCE, **more))


# --- honest runs ----------------------------------------------------------------------------------------------------


def test_an_honest_run_is_confirmed_whole(run: Path) -> None:
    """A full replay gives exactly the certificates that were issued: votes, rows alone, bounds and radii."""
    result = audited(run, "all")
    assert not result.refuted, result.findings.texts
    assert result.full
    found = result.replay
    assert (found.differ, found.excess, found.escaped, found.smaller) == (0, 0, 0, 0)
    assert found.rows > 100
    assert result.confirmed_accuracies() == result.tally.accuracies()
    for each in found.statements:
        assert each.alone.radius == each.struck.radius == each.claimed.radius > 0
        assert each.honest is None
        assert each.alone.error == Fraction(1, 1000)


def test_a_part_of_it_proves_what_the_theorem_says(run: Path) -> None:
    """Ten of twenty blocks of image 0 alone: bounds from 200 copies and the rows among them."""
    result = audit_file(run, given=given("10", classifiers.brightness), draw=lambda blocks, s: list(range(10)))
    assert not result.refuted
    with Store.read(run) as store:
        terms, index = store.terms, 0
        blocks = [each for each in store.blocks(0) if each.hits is not None][:10]
    hits = sum(each.counts.classes[0] for each in blocks)
    drawn = sample_rows(terms.secret, terms.promise, index, int(terms.promise.values["n"]))
    rows = sum(len(drawn.inside(each.block).rows) for each in blocks)
    promised = audit.read_terms(terms.promise.values)
    first, second = result.replay.statements
    expected = from_replayed(0, [VoteCounts((hits, 200 - hits))], promised, rows=rows, lost=0)
    assert 0 < first.alone.radius == expected.radius < first.claimed.radius
    assert (second.alone.radius, second.copies) == (0, 0)


def test_a_model_that_sees_its_batch_is_confirmed_for_what_it_says_alone(tmp_path: Path) -> None:
    """Rows are lost, here as there: nothing differs, and the certificate is the auditor's own."""
    scores = classifiers.Evader(0)
    path = issue(tmp_path / "run.db", measured_run((5, 7), scores, noise="shared"))
    with Store.read(path) as store:
        assert [certificate.measured.lost > 3 for certificate in store.certificates()] == [True, True]
    result = audited(path, "all", scores)
    assert not result.refuted, result.findings.texts
    assert (result.replay.differ, result.replay.smaller) == (0, 0)


# --- changes --------------------------------------------------------------------------------------------------------


def measured_columns(path: Path) -> Iterator[tuple[str, str, tuple[object, ...], object, object]]:
    fields = [("certificates", "lost"), *(("alone", name) for name in ("place", "first", "kept", "environment"))]
    return (each for each in changes(path) if (each[0], each[1]) in fields)


def test_every_change_of_what_was_measured_is_found(run: Path, tmp_path: Path) -> None:
    tried = 0
    for table, column, key, old, new in measured_columns(run):
        path = copied(run, tmp_path)
        if not change(path, table, column, key, new):
            continue
        tried += 1
        assert audited(path).refuted, f"{table}.{column}: {old!r} became {new!r}"
    assert tried > 30


def test_rows_that_are_missing_or_too_many_are_found(run: Path, tmp_path: Path) -> None:
    statements = (
        "DELETE FROM alone WHERE rowid = 3",
        "DELETE FROM alone",
        "INSERT INTO alone SELECT place, 401, kept, environment, seconds FROM alone LIMIT 1",
        "UPDATE certificates SET lost = NULL",
        "UPDATE run SET value = 'left out' WHERE name = 'votes'",
    )
    for statement in statements:
        path = copied(run, tmp_path)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(statement)
        assert audited(path).refuted, statement


def test_a_measurement_that_was_not_promised_is_found(tmp_path: Path) -> None:
    plain = checkpointed(issue(tmp_path / "run.db", small_run([1], n=100)))
    for statement in (
        "UPDATE certificates SET lost = 0",
        "INSERT INTO alone SELECT place, 0, X'789c', environment, 0.0 FROM blocks LIMIT 1",
    ):
        path = copied(plain, tmp_path)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(statement)
        assert audit_file(path).refuted, statement


# --- forgeries ------------------------------------------------------------------------------------------------------


def forge_rows(path: Path, place: int, run: RunPlan) -> int:
    """A consistent forgery: no row is lost, and label, bounds and radius follow. Returns how many rows were."""
    with Store.read(path) as store:
        old = next(certificate for at, certificate in store.placed_certificates() if at == place)
        drawn = sample_rows(store.terms.secret, store.terms.promise, old.index, old.estimation.total)
        hits = rows_by_block(drawn, [(each.block, each.hits) for each in store.blocks(place)])
    measured = Measurement(old.measured.rows, 0)
    found = certify(old.selection, old.estimation, run.pool.smoothing.law, run.settings, measured)
    new = dataclasses.replace(old, measured=measured, **dataclasses.asdict(found))
    with closing(sqlite3.connect(path)) as db, db:
        for block, rows in hits.items():
            kept = packed_bits(np.ones(len(rows), bool))
            db.execute("UPDATE alone SET kept = ? WHERE place = ? AND first = ?", (kept, place, block.first))
        db.execute("UPDATE certificates SET lost = 0 WHERE place = ?", (place,))
        write_certificate(db, place, new)
    return old.measured.lost


@pytest.mark.slow("starts processes that vote on rows alone")
def test_forged_rows_contradict_nothing_and_are_refused_by_a_replay(tmp_path: Path) -> None:
    """In batches nearly every row of the evader is a hit, alone three quarters are."""
    scores = classifiers.Evader(0)
    run = measured_run((5,), scores, again=300)
    path = issue(tmp_path / "run.db", run)
    assert forge_rows(path, 0, run) > 40
    accepted = audit_file(path)
    assert not accepted.refuted
    assert accepted.tally.certified == 1
    result = audited(path, "all", scores)
    assert result.refuted
    (statement,) = result.replay.statements
    assert statement.differ > 10
    assert statement.alone.radius < statement.claimed.radius
    assert statement.refuted  # by the rows alone, without a look at what is stored of them
    assert any("rows do not vote alone as is stored" in text for text in result.findings.texts)
    other = audited(path, "all", scores, other_machine=True)
    assert other.refuted  # on another machine as well: the claim itself is refuted


# --- what a replay proves -------------------------------------------------------------------------------------------

QUARTER = Fraction(1, 4)


def terms(n: int, again: int) -> AuditTerms:
    return AuditTerms(1, n, QUARTER, Gaussian(Fraction(1, 4)), "clopper-pearson", again)


def test_most_lost_counts_what_may_be_hidden() -> None:
    """100 copies and 20 rows: a row weighs as five hits."""
    seen = ReplayBlock(20, 18, 18, 4, 1, 1)
    unseen = [ReplayBlock(20, 18, None, 4, lost) for lost in (0, 1, 4)] + [ReplayBlock(20, 18, None, 4, 2)]
    blocks = [seen, *unseen]
    assert most_lost(blocks, 0, 0) == 1 + 0 + 1 + 4 + 2
    assert most_lost(blocks, 0, 4) == 1 + 0 + 1 + 4 + 2
    assert most_lost(blocks, 0, 5) == 1 + 1 + 2 + 4 + 3
    assert most_lost(blocks, 1, 5) == 1 + 4 + 2 + 4 + 3
    assert most_lost(blocks, 4, 0) == 1 + 16
    hiding = [dataclasses.replace(seen, replayed_lost=2), *unseen]
    assert escaped_and_excess([hiding], QUARTER)[1] == 5


def test_struck_out_with_measured_rows_is_the_certificates_bound() -> None:
    blocks = [ReplayBlock(100, 97, 97, 10, 1, 1) for _ in range(10)]
    (found,) = struck_out_together([blocks], terms(1000, 100), Fraction(1, 1000))
    (expected,) = [audit.verdict(VoteCounts((1,)), VoteCounts((970, 30)), terms(1000, 100), 10).p_lower]
    assert found.p_lower == expected
    assert found.error == QUARTER + Fraction(1, 1000)
    with pytest.raises(ValueError, match="must add up to the promised m"):
        struck_out_together([blocks], terms(1000, 99), Fraction(1, 1000))


def test_without_rows_nothing_is_proved() -> None:
    assert from_replayed(0, [VoteCounts((100, 0))], terms(1000, 100)).p_lower == 0
    assert from_replayed(0, [VoteCounts((100, 0))], terms(1000, 100), rows=0, lost=0).p_lower == 0


def worst_share_of_false_counts(less: int, weighted: bool) -> Fraction:
    """Over all true hits and lost rows, and all stores, of four blocks with one copy and one row or none: how often,
    over the draws of two blocks, H is above the true hits or the counted lost rows are below the true ones. With `less`
    one block fewer is struck out; without `weighted` a hidden lost row is no excess.
    """
    rows, beta, worst = (1, 1, 1, 0), Fraction(1, 5), Fraction(0)
    draws = list(combinations(range(4), 2))
    truths = product(*([(0, 0), (1, 0), *[(1, 1)] * drawn] for drawn in rows))
    stores = list(product(*(list(product((0, 1), range(drawn + 1))) for drawn in rows)))
    for true, stored in product(truths, stores):
        false = 0
        for draw in draws:
            urn = [
                ReplayBlock(1, h, x if j in draw else None, drawn, said if weighted or j not in draw else lost, lost)
                for j, ((h, said), (x, lost), drawn) in enumerate(zip(stored, true, rows, strict=True))
            ]
            b, t = escaped_and_excess([urn], beta)
            hits, counted = least_hits(urn, b - less, t), most_lost(urn, b - less, t)
            false += hits > sum(x for x, _ in true) or counted < sum(lost for _, lost in true)
        worst = max(worst, Fraction(false, len(draws)))
    return worst


@pytest.mark.slow("enumerates forgeries")
def test_no_forger_hides_hits_or_lost_rows_too_often() -> None:
    """All truths × all stores × all draws: H and the lost rows are on the safe side except with probability below β."""
    beta = Fraction(1, 5)
    assert worst_share_of_false_counts(less=0, weighted=True) < beta
    assert worst_share_of_false_counts(less=1, weighted=True) >= beta
    assert worst_share_of_false_counts(less=0, weighted=False) >= beta
