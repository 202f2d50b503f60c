"""Runs of floats near the grid: what was paid is computed again from the data, and is the issuer's word without it."""

import dataclasses
import hashlib
import random
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth.audit import Gaussian
from soundsmooth.exact import price_above, radius_after
from soundsmooth.runs.reader import RunReader
from soundsmooth.verification import Conclusion, Verification
from verification.forgeries import InapplicableError
from verification.outcomes import ALONE, Judge, honest_files

#: The first image pays most, the second less; the third is on the grid, and pays for predictions only.
LEVELS = np.array([40, 243, 255], np.float32)[:, None, None] * np.ones((3, 2, 2), np.float32)
NEAR = LEVELS * np.float32(1 / 255)
NEAR[0] += np.float32(2.0**-24)
LABELS = [0, 1, 1]
GAUSSIAN = Gaussian(Fraction(1, 2))
audit = partial(ss.verify, threads=1)


def certify(path: Path, images: np.ndarray = NEAR, **more: Any) -> Path:
    smooth = ss.Smoother(brightness_of_three, "0.5", batch_size=10, threads=1)
    smooth.certify_all(images, LABELS, out=path, n=200, n0=20, seed="issuer", **more).close()
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = certify(tmp_path_factory.mktemp("rounding") / "run.db")
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    return path


def said(result: Verification, name: str) -> bool | None:
    (check,) = [check for check in result.checks if check.name == name]
    return check.passed


def test_with_the_data_everything_is_verified(run: Path) -> None:
    found = audit(run, model=brightness_of_three, data=(NEAR, LABELS), replay="all")
    assert said(found, "data") is said(found, "distance") is True
    assert found.conclusion is Conclusion.FULL
    assert found.tally.loose == 0
    assert found.replay is not None
    assert all(each.alone.radius >= each.claimed.radius > 0 for each in found.replay.statements)
    whole = [each.alone.radius + (each.claimed.paid or 0) for each in found.replay.statements]
    assert all(radius > each.claimed.radius for radius, each in zip(whole, found.replay.statements, strict=True))
    with ss.open_run(run) as opened:
        paid = [each.paid or 0 for each in opened]
    assert paid[0] > paid[1] > paid[2] == 2 * 2.0**-22


@pytest.mark.parametrize("replay", ["50%", "all"])
def test_whatever_is_proved_by_a_replay_is_less_by_what_was_paid(replay: str, run: Path) -> None:
    """Statements (i) to (iii) and the set are about floats as given."""
    found = audit(run, model=brightness_of_three, data=(NEAR, LABELS), replay=replay).replay
    assert found is not None
    for each, together in zip(found.statements, found.set_radii, strict=True):
        assert each.honest is not None
        assert each.claimed.paid is not None
        for proved in (each.alone, each.struck, each.honest):
            allowed = GAUSSIAN.radius_below(proved.p_lower, None) if proved.p_lower > 0.5 else 0.0
            assert proved.radius == max(0.0, radius_after(allowed, each.claimed.paid))
        if found.whole:
            assert together == each.alone.radius > 0


def test_without_the_data_the_distance_is_said_to_be_unchecked(run: Path, tmp_path: Path) -> None:
    found = audit(run)
    assert found.ok
    assert said(found, "distance") is None
    assert any("distance: floats were rounded to the grid; how far needs the data" in text for text in found.not_shown)
    with ss.open_run(run) as opened:
        opened.export(tmp_path / "run.jsonl")
    records = audit(tmp_path / "run.jsonl")
    assert records.ok
    assert said(records, "distance") is None


def test_a_plain_run_has_no_such_check(tmp_path: Path) -> None:
    found = audit(certify(tmp_path / "plain.db", LEVELS.astype(np.uint8)), data=(LEVELS.astype(np.uint8), LABELS))
    assert found.ok
    assert not [check for check in found.checks if check.name == "distance"]


OTHERS = {
    "the levels": LEVELS.astype(np.uint8),
    "floats on the grid": (LEVELS / 255).astype(np.float32),
    "the same numbers as doubles": NEAR.astype(np.float64),
    "one float moved by an ulp": np.where(np.arange(12).reshape(3, 2, 2) == 1, np.nextafter(NEAR, np.float32(1)), NEAR),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_floats_with_the_same_levels_are_not_the_promised_ones(name: str, run: Path) -> None:
    found = audit(run, data=(OTHERS[name], LABELS))
    assert found.refuted
    assert any("not the floats that were given" in text for text in found.findings.texts)
    assert said(found, "distance") is None


def test_floats_off_the_grid_are_not_the_promised_levels(tmp_path: Path) -> None:
    """The promise is about grid points and pays for nothing; the auditor's floats are elsewhere."""
    assert audit(certify(tmp_path / "plain.db", LEVELS.astype(np.uint8)), data=(NEAR, LABELS)).refuted


def test_a_smaller_price_is_found_by_who_has_the_data(run: Path, tmp_path: Path) -> None:
    """Consistent in itself: radius, price and digest fit each other, and so much could be due for another image."""
    path = tmp_path / "run.db"
    path.write_bytes(run.read_bytes())
    forge(path, 0, price_above(Fraction(0), Fraction(1, 1 << 22), 4))
    assert audit(path).ok
    found = audit(path, data=(NEAR, LABELS))
    assert found.refuted
    assert said(found, "data") is True
    assert said(found, "distance") is False
    assert any("image 0 pays less than its floats are away" in text for text in found.findings.texts)


def test_a_missing_price_is_found_by_everybody(run: Path, tmp_path: Path) -> None:
    for number, price in enumerate((None, 0.0, -1e-6, 5e-324, 1.0, 1e300, float("inf"))):
        path = tmp_path / f"{number}.db"
        path.write_bytes(run.read_bytes())
        forge(path, 0, price)
        assert audit(path).refuted


def forge(path: Path, place: int, price: float | None) -> None:
    """The price, the radius that goes with it, and the digest."""
    with RunReader.read(path) as stored:
        old = dict(stored.placed_certificates())[place]
    whole = old.law.radius(old.p_lower, None)
    radius = whole if price is None or not price < 1e-3 else radius_after(whole, price)
    new = dataclasses.replace(old, paid=price, radius=radius)
    with closing(sqlite3.connect(path)) as db, db:
        row = (new.radius, price, hashlib.sha256(text_of(new).encode()).digest(), place)
        db.execute("UPDATE certificates SET radius = ?, paid = ?, digest = ? WHERE place = ?", row)


def text_of(forged: ss.Certificate) -> str:
    try:
        return forged.to_json()
    except (ValueError, OverflowError):  # no decimal is that large
        return ""


def test_every_forgery_of_price_and_line_is_found_or_does_no_harm(tmp_path: Path) -> None:
    """Some of what the forger thinks of. What only the data finds, a file of certificates lists as not checked."""
    seen: Counter[str] = Counter()
    for honest in honest_files(tmp_path, ("near",)):
        folder = tmp_path / honest.path.suffix[1:]
        folder.mkdir()
        judge, every = Judge(honest, folder), honest.forgeries(random.Random(3))
        about = [each for each in every if "paid" in str(each) or "given" in str(each)]
        for forgery in about[::5]:
            with suppress(InapplicableError):
                seen[judge(forgery)[0]] += 1
    assert seen[ALONE] > 40


def test_a_promise_that_was_noted_without_the_line_is_another(run: Path, tmp_path: Path) -> None:
    with ss.open_run(certify(tmp_path / "plain.db", LEVELS.astype(np.uint8))) as opened:
        plain = opened.promise
    with ss.open_run(run) as opened:
        promised = opened.promise
    found = audit(run, promise=plain)
    assert any("given: nothing noted, " in text for text in found.findings.texts)
    found = audit(tmp_path / "plain.db", promise=promised)
    assert any("noted, nothing here" in text for text in found.findings.texts)
    with pytest.raises(ValueError, match=r"begun -> asked: .*the floats as given, their SHA-256: none -> "):
        certify(tmp_path / "plain.db")
