"""Runs with the randomized bound: each image's coin is the one that promise, seed and nonce give."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import soundsmooth as ss
from soundsmooth import embedded
from soundsmooth.audit import AuditTerms, VoteCounts, check_record, from_replayed
from soundsmooth.audit.bounds import clopper_pearson_below
from soundsmooth.audit.laws import Gaussian
from soundsmooth.certification.certify import certify
from soundsmooth.certification.settings import promised_settings
from soundsmooth.verification.result import Conclusion


def smoother() -> ss.Smoother:
    return ss.Smoother(embedded.MODELS[Fraction(1, 4)], "0.25", threads=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "run.sqlite"
    images = np.load(embedded.IMAGES)["x"]
    smoother().certify_all(images[:2], n0=20, n=200, bound="randomized", seed="fixed", out=path)
    return path


def test_an_honest_run_is_accepted(run: Path) -> None:
    found = ss.verify(run)
    assert found.findings.count == 0
    first, second = ss.open_run(run)
    assert first.coin != second.coin
    assert ss.Certificate.from_json(first.to_json()) == first
    assert check_record(first.to_dict()).tight


def test_only_a_full_replay_keeps_the_coin(run: Path) -> None:
    """Then the radii are those of the certificates, which Clopper–Pearson would not give."""
    asked = {"model": embedded.MODELS[Fraction(1, 4)], "data": embedded.IMAGES}
    audit = ss.verify(run, replay="all", **asked)
    assert audit.full
    assert audit.replay is not None
    assert [each.alone.radius for each in audit.replay.statements] == [each.radius for each in ss.open_run(run)]
    assert ss.verify(run, replay="50%", **asked).conclusion is Conclusion.PARTLY


def test_a_label_that_was_not_selected_has_no_coin() -> None:
    law = Gaussian(Fraction(1, 4))
    promised, votes = AuditTerms(20, 100, Fraction(1, 1000), law, "randomized"), [VoteCounts((95, 5))]
    coin = Fraction(1, 2)
    with_it = from_replayed(0, votes, promised, whole=True, coin=coin)
    assert with_it.p_lower > clopper_pearson_below(95, 100, Fraction(1, 1000))
    for asked in ({"selection_replayed": False, "whole": True}, {"whole": False}):
        assert from_replayed(0, votes, promised, coin=coin, **asked) == from_replayed(0, votes, promised, **asked)


def test_a_coin_of_ones_own_is_found(run: Path, tmp_path: Path) -> None:
    """Also where p_lower and radius are what it would give."""
    path = tmp_path / "forged.sqlite"
    with closing(sqlite3.connect(run)) as honest, closing(sqlite3.connect(path)) as db, db:
        honest.backup(db)
        db.execute("UPDATE certificates SET coin = ? WHERE place = 0", ("f" * 16,))
    texts = "\n".join(ss.verify(path).findings.texts)
    assert "image 0: its coin is not the one that promise, seed and nonce give" in texts


def test_a_coin_of_ones_own_is_found_in_json(run: Path, tmp_path: Path) -> None:
    """There is no run beside it, and p_lower, radius and checksum are those of the coin."""
    first, _ = ss.open_run(run)
    chosen, coin = promised_settings(first.promise.values), "0" * 16
    found = certify(first.selection, first.estimation, first.law, chosen, coin=coin)
    forged = replace(first, coin=coin, radius=found.radius, p_lower=found.p_lower)
    assert check_record(forged.to_dict()).tight
    assert forged.radius > first.radius
    for name in ("one.json", "one.jsonl"):
        path = tmp_path / name
        path.write_text(first.to_json())
        assert ss.verify(path).ok
        path.write_text(forged.to_json())
        assert any("promise, seed and nonce give" in text for text in ss.verify(path).findings.texts)


def test_a_certificate_with_another_coin_is_refused(run: Path) -> None:
    first, second = ss.open_run(run)
    for coin in (second.coin, None, "0" * 16):
        with pytest.raises(ValueError, match="coin"):
            ss.Certificate.from_json(replace(first, coin=coin).to_json())
    with pytest.raises(ValueError, match="coin"):
        ss.Certificate.from_json(replace(first, coin="0").to_json())


def test_it_needs_rows_that_are_proved_to_be_independent() -> None:
    smooth = ss.Smoother(lambda x: x[:, 0, 0] > 0.5, sigma="0.25")
    with pytest.raises(ValueError, match="randomized needs rows that are proved to be independent"):
        smooth.certify(np.zeros((2, 2), np.uint8), n=100, bound="randomized")


def test_it_refuses_looks() -> None:
    with pytest.raises(ValueError, match="one look only"):
        smoother().certify(np.load(embedded.IMAGES)["x"][0], n=200, bound="randomized", radii="0")
