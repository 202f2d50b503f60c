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
from soundsmooth.audit import check_record
from soundsmooth.certification.certify import verdict
from soundsmooth.certification.settings import promised_settings


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
    found = verdict(first.selection, first.estimation, first.law, chosen, coin=coin)
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
            replace(first, coin=coin).check()
    with pytest.raises(ValueError, match="coin"):
        replace(first, coin="0").check()


def test_it_needs_rows_that_are_proved_to_be_independent() -> None:
    smooth = ss.Smoother(lambda x: x[:, 0, 0] > 0.5, sigma="0.25")
    with pytest.raises(ValueError, match="randomized needs rows that are proved to be independent"):
        smooth.certify(np.zeros((2, 2), np.uint8), n=100, bound="randomized")


def test_it_refuses_looks() -> None:
    with pytest.raises(ValueError, match="one look only"):
        smoother().certify(np.load(embedded.IMAGES)["x"][0], n=200, bound="randomized", radii="0")
