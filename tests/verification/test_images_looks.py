"""Runs with looks: blocks that no stop has asked for, and how many could have refuted."""

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

import soundsmooth as ss
from soundsmooth.audit import AuditTerms, refutation_level
from soundsmooth.verification import audit_file, replay
from verification.issuer import given, issue, looked_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images that stop at different looks of 40, 100 and 200 copies, or are skipped."""
    return issue(tmp_path_factory.mktemp("looks") / "run.db", looked_run())


def copied(path: Path, to: Path) -> Path:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)
    return to


def test_a_block_after_the_stop_is_found(run: Path, tmp_path: Path) -> None:
    """It is a copy of the image's last one, under a number that the next look would have: no count contradicts it."""
    ends = [0 if each.looks is None else each.estimation.total for each in ss.open_run(run)]
    early = [place for place, end in enumerate(ends) if 0 < end < 200]
    assert early
    for place in early:
        path = copied(run, tmp_path / f"{place}.db")
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(
                "INSERT INTO blocks SELECT place, purpose, ?, count, votes, hits, environment, seconds FROM blocks "
                "WHERE place = ? AND purpose = 1 ORDER BY first DESC LIMIT 1",
                (ends[place], place),
            )
        assert "come after the look at which it stopped" in "\n".join(ss.verify(path).findings.texts)


def test_to_refute_every_promised_image_and_every_look_counts(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The issuer chose which images have a certificate, and at which look: neither makes the level larger."""
    asked = []

    def noted(beta: Fraction, certificates: int, promised: AuditTerms) -> Fraction:
        asked.append((certificates, len(promised.schedule.looks)))
        return refutation_level(beta, certificates, promised)

    monkeypatch.setattr(replay, "refutation_level", noted)
    result = audit_file(run, given("all"))
    assert result.full
    assert result.replay is not None
    assert len(result.replay.statements) < 5
    assert asked == [(5, 3)]
