"""Runs that are ended from outside: what they say then, and that nobody can make them say anything else."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness_of_three
from runs.interrupted import QUICK, inputs, interrupt, looked_run
from soundsmooth import embedded
from soundsmooth.certification.certificate import Certificate
from soundsmooth.certification.certify import Counts, certify
from soundsmooth.certification.promise import secret
from soundsmooth.certification.settings import settings
from soundsmooth.core.grid import Rounding
from soundsmooth.runs.conclusion import conclude
from soundsmooth.runs.leases import Leases
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.store import Store


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return list(db.iterdump())


def findings(path: Path) -> list[str]:
    return ss.verify(path).findings.texts


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first image is finished, the second has three looks and a part of the next, the third has not begun."""
    path = tmp_path_factory.mktemp("concluded") / "run.db"
    interrupt(looked_run(), path, 420 + 20 + 250)
    return path


@pytest.fixture
def interrupted(begun: Path, tmp_path: Path) -> Path:
    return copied(begun, tmp_path / "begun.db")


@pytest.fixture
def concluded(begun: Path, tmp_path: Path) -> Path:
    path = copied(begun, tmp_path / "concluded.db")
    ss.conclude_run(path).close()
    return path


def copied(path: Path, to: Path) -> Path:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)
    return to


def test_an_interrupted_image_is_certified_at_its_last_full_look(interrupted: Path) -> None:
    with ss.open_run(interrupted) as run:
        (finished,) = run
    with ss.conclude_run(interrupted) as run:
        first, ended = run
        assert first == finished
        assert first.aborted is None
        assert ended.aborted
        assert ended.looks is not None
        assert [look.n for look in ended.looks] == [40, 100, 200]
        assert (run.progress.finished, run.progress.aborted, run.progress.open) == (2, 1, 1)
        assert "aborted: ended from outside" in str(ended)
        assert Certificate.from_json(ended.to_json()) == ended
    found = certify(ended.selection, ended.estimation, ended.law, looked_run().settings, looks=ended.looks)
    assert (found.label, found.radius, found.p_lower) == (ended.label, ended.radius, ended.p_lower)
    audit = ss.verify(interrupted)
    assert audit.ok
    assert audit.tally.to_dict()["aborted"] == 1
    assert any("1 of 2 images were ended from outside" in note for note in audit.notes)
    assert any("1 of 3 promised images have no certificate" in note for note in audit.notes)


@pytest.mark.parametrize(("copies", "looks"), [(20, None), (40, None), (60, 1), (100, 1), (120, 2), (400, 3)])
def test_at_whatever_moment_it_was_interrupted(tmp_path: Path, copies: int, looks: int | None) -> None:
    """An image without a full look stays unfinished, and can still be continued: nothing was concluded."""
    path, plan = tmp_path / "run.db", looked_run(inputs(1))
    interrupt(plan, path, copies)
    with ss.conclude_run(path) as run:
        assert [len(each.looks or ()) for each in run] == ([] if looks is None else [looks])
    assert not findings(path)
    if looks is None:
        with open_store(path, plan) as store:
            (whole,) = certify_into(store, plan, clock=QUICK)
        assert isinstance(whole, Certificate)
        assert whole.estimation.total == 400


def test_to_conclude_twice_changes_nothing(concluded: Path) -> None:
    before = dump(concluded)
    with ss.conclude_run(concluded) as run:
        assert run.progress.aborted == 1
    assert dump(concluded) == before


def test_a_concluded_run_is_not_continued(concluded: Path) -> None:
    """Neither by a process that comes later, nor by one that had opened the file before."""
    before = dump(concluded)
    with pytest.raises(ValueError, match="was concluded: 1 of its images were aborted"):
        open_store(concluded, looked_run())
    with Store.reopen(concluded) as store, pytest.raises(ValueError, match="was concluded"):
        next(certify_into(store, looked_run(), clock=QUICK))
    assert dump(concluded) == before


def test_while_another_process_takes_part_nothing_is_concluded(interrupted: Path) -> None:
    with Store.reopen(interrupted) as other, Leases(other), Store.reopen(interrupted) as store:
        with pytest.raises(ValueError, match="another process is at work"):
            conclude(store)
        assert not store.progress().aborted
    with ss.conclude_run(interrupted) as run:
        assert run.progress.aborted == 1


def test_an_image_on_which_the_model_failed_is_concluded_too(tmp_path: Path) -> None:
    path, calls = tmp_path / "run.db", 0

    def fails_later(batch: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls > 20:
            raise RuntimeError("no more")
        return brightness_of_three(batch)

    plan = looked_run(inputs(1), fails_later)
    calls = 0
    with open_store(path, plan) as store:
        assert [record.status for record in certify_into(store, plan, clock=QUICK)] == ["failed"]
    with ss.conclude_run(path) as run:
        assert (run.progress.failed, run.progress.aborted) == (0, 1)
    assert not findings(path)


def test_floats_that_are_not_at_hand_pay_the_most(tmp_path: Path) -> None:
    """This image is a little off the grid. A certificate of the whole run would pay less."""
    path, tiny = tmp_path / "run.db", 1e-9
    image = np.full((2, 2), 40 / 255 + tiny)
    smooth = ss.Smoother(brightness_of_three, "0.5", batch_size=10, threads=1, independence="assumed")
    given = ss.load(image[None], labels=[0], grid=smooth.smoothing.law.grid)
    assert isinstance(given.rounded[0], Rounding)
    plan = looked_run(given)
    interrupt(plan, path, 130)
    with ss.conclude_run(path) as run:
        (ended,) = run
    due = plan.paid(0)
    assert ended.paid is not None
    assert due is not None
    assert ended.paid > due
    assert not findings(path)


def test_runs_that_have_nothing_to_conclude(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    interrupt(looked_run(radii=None), path, 60)
    with pytest.raises(ValueError, match="promised no looks"):
        ss.conclude_run(path)
    with pytest.raises(ValueError, match="there is no run"):
        ss.conclude_run(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


def test_images_that_share_batches_are_replayed_as_they_were(tmp_path: Path) -> None:
    """The last round's packs are only partly there, and the others are made again from what is stored."""
    path, model = tmp_path / "run.db", str(embedded.MODELS[Fraction(1, 4)])
    smooth = ss.Smoother(model, "0.25", threads=1)
    given = ss.load(embedded.IMAGES, limit=3, grid=smooth.smoothing.law.grid)
    asked = settings(n0=100, n=2000, radii="steps", looks=[100, 300, 2000], patience=10**9)
    plan = plan_run(LocalPool(smooth.smoothing), given, asked, secret("end"))
    interrupt(plan, path, 3 * 100 + 3 * 300)
    with ss.conclude_run(path) as run:
        assert run.progress.aborted > 1
    audit = ss.verify(path, model=model, data=embedded.IMAGES, replay="all")
    assert audit.full
    assert audit.tally.aborted > 1


@pytest.mark.parametrize("share", ["all", "50%"])
def test_a_part_of_the_next_look_is_no_part_of_what_is_replayed(concluded: Path, tmp_path: Path, share: str) -> None:
    data, given = tmp_path / "data.npz", inputs(3)
    x, y = np.zeros((12, 2, 2), np.uint8), np.zeros(12, int)
    x[list(given.indices)] = given.levels
    y[list(given.indices)] = [label or 0 for label in given.labels]
    np.savez(data, x=x, y=y)
    with ss.open_run(concluded) as run:
        looks = [each.looks or () for each in run]
    with closing(sqlite3.connect(concluded)) as db:
        ((most,),) = db.execute("SELECT MAX(first + count) FROM blocks WHERE place = 1 AND purpose = 1")
    assert most > looks[1][-1].n
    model = {"model": brightness_of_three, "independence": "assumed"}
    audit = ss.verify(concluded, data=data, replay=share, **model)
    assert audit.ok
    assert audit.replay is not None
    assert audit.replay.blocks * 20 == sum(each[-1].n for each in looks)


def forge(path: Path, place: int, change: Callable[[Certificate], Certificate]) -> None:
    """Change the certificate at a place, with everything that follows: bounds, radius and digest."""
    with Store.reopen(path) as store:
        stored = dict(store.placed_certificates())[place]
        forged = change(stored)
        found = certify(forged.selection, forged.estimation, forged.law, store.terms.settings, looks=forged.looks)
        store.db.execute("DELETE FROM certificates WHERE place = ?", place)
        store.add_certificate(place, replace(forged, **asdict(found)))


def marked(certificate: Certificate) -> Certificate:
    return replace(certificate, aborted=True)


def unmarked(certificate: Certificate) -> Certificate:
    return replace(certificate, aborted=None)


def cut(certificate: Certificate) -> Certificate:
    """The certificate of an earlier look: its counts are those of its hits."""
    assert certificate.looks is not None
    *looks, _ = certificate.looks
    n, hits, others = looks[-1]
    classes = [0] * len(certificate.estimation.classes)
    label = certificate.selection.top
    classes[label], classes[label - 1], classes[label - 2] = hits, others, n - hits - others
    counts = Counts(tuple(classes), 0)
    return replace(certificate, looks=tuple(looks), estimation=counts, aborted=True)


@pytest.mark.parametrize(
    ("place", "change", "why"),
    [
        (0, marked, "said to be aborted"),
        (1, unmarked, "which its certificate does not say"),
        (1, cut, "do not add up to its certificate's looks"),
        (0, cut, "do not add up to its certificate's looks"),
    ],
)
def test_a_false_mark_is_found(concluded: Path, place: int, change: Callable[..., Certificate], why: str) -> None:
    """The forger computes anew what follows from the mark, and its digest."""
    forge(concluded, place, change)
    assert any(why in text for text in findings(concluded))


@pytest.mark.parametrize("statement", ["aborted = 1", "aborted = 0", "aborted = NULL WHERE place = 1"])
def test_a_mark_alone_does_not_fit_the_digest(concluded: Path, statement: str) -> None:
    with closing(sqlite3.connect(concluded)) as db, db:
        db.execute(f"UPDATE certificates SET {statement}")
    assert any("does not fit its digest" in text for text in findings(concluded))


@pytest.mark.parametrize("mark", [2, -1])
def test_a_mark_is_written_in_one_way_only(concluded: Path, mark: int) -> None:
    with closing(sqlite3.connect(concluded)) as db, db:
        db.execute("UPDATE certificates SET aborted = ? WHERE place = 1", (mark,))
    assert findings(concluded) == [f"image 8: a mark is 0 or 1, not {mark}"]


@pytest.mark.parametrize("change", [marked, unmarked])
def test_a_false_mark_is_found_without_the_blocks(concluded: Path, tmp_path: Path, change: Callable[..., Any]) -> None:
    """Certificates as JSON, with their checksums: the promised rule alone tells."""
    place = 0 if change is marked else 1
    with ss.open_run(concluded) as run:
        honest = list(run)[place]
    path = tmp_path / "one.json"
    path.write_text(honest.to_json())
    audit = ss.verify(path)
    assert audit.ok
    assert audit.tally.aborted == place
    path.write_text(change(honest).to_json())
    assert any("the promised rule" in text for text in findings(path))


def test_votes_that_are_added_after_the_end_are_found(interrupted: Path) -> None:
    """Blocks up to the next look: then the image has a look that its certificate does not know."""
    other = copied(interrupted, interrupted.with_name("other.db"))
    with Store.reopen(other) as store:
        list(certify_into(store, looked_run(), clock=QUICK))
    ss.conclude_run(interrupted).close()
    with Store.reopen(other) as source, closing(sqlite3.connect(interrupted)) as db, db:
        rows = list(source.db.rows("SELECT * FROM blocks WHERE place = 1"))
        db.executemany("INSERT OR IGNORE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    assert findings(interrupted)


def test_an_image_that_is_opened_again_is_only_an_unfinished_one(concluded: Path) -> None:
    """Whoever takes the certificate away claims less. With the state alone the file contradicts itself."""
    with closing(sqlite3.connect(concluded)) as db, db:
        db.execute("UPDATE images SET state = 0 WHERE place = 1")
    assert any("its state is 0, but it has a certificate" in text for text in findings(concluded))
    with closing(sqlite3.connect(concluded)) as db, db:
        db.execute("DELETE FROM certificates WHERE place = 1")
    audit = ss.verify(concluded)
    assert audit.ok
    assert (audit.tally.aborted, audit.tally.open) == (0, 2)


def test_rows_that_are_to_vote_alone_need_the_model(tmp_path: Path) -> None:
    path, smoother = (
        tmp_path / "run.db",
        ss.Smoother(str(embedded.MODELS[Fraction(1, 4)]), "0.25", independence="measured"),
    )
    given = ss.load(embedded.IMAGES, limit=1, grid=smoother.smoothing.law.grid)
    asked = settings(n0=100, n=400, width="1%", looks=(100, 400))
    plan = plan_run(LocalPool(smoother.smoothing), given, asked, secret("end"), try_rows=False)
    open_store(path, plan).close()
    with pytest.raises(
        ValueError, match="independence is measured m=1000: rows of each image have still to vote alone"
    ):
        ss.conclude_run(path)
