"""Runs whose independence is measured: kept, killed, continued and shared, they end as the same run without a store."""

import os
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import classifiers
import soundsmooth as ss
from issuing import issue
from runs.row_processes import lasting_rows_alone
from runs.test_pools import SECRET, FakePool, elsewhere, inputs, small
from soundsmooth.certification.certificate import Certificate
from soundsmooth.models.row_voter import RowVoter
from soundsmooth.runs.export import export
from soundsmooth.runs.leases import LeaseClock
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import RunPlan, plan_run
from soundsmooth.runs.pools import LocalPool, WorkerPool
from soundsmooth.runs.process_pool import ProcessPool
from soundsmooth.runs.reader import terms_at
from soundsmooth.runs.store import Store
from soundsmooth.runs.stored import Failure
from soundsmooth.smoothing.recipe import SmootherRecipe

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="rows are voted alone in forked processes")

MEASURED = {"batch_size": 10, "threads": 1, "independence": "measured", "again": 80}


def here(scores: object = classifiers.brightness, noise: str = "fresh") -> RunPlan:
    return plan_run(LocalPool(ss.Smoother(scores, "0.5", **MEASURED).smoothing), inputs(3), small(noise), SECRET)


def plain(certificate: Certificate) -> Certificate:
    return replace(certificate, seconds=0.0, environment={})


def without_store(run: RunPlan) -> list[Certificate]:
    return [plain(each) for each in issue(run.pool.smoothing, run.inputs, run.settings, run.secret)]


@cache
def expected() -> list[Certificate]:
    """What the run of an honest model ends with."""
    return without_store(here())


def stored(path: Path) -> tuple[list[Certificate], list[tuple[object, ...]]]:
    with Store.read(path) as store:
        assert not list(store.findings())
        return [plain(each) for each in store.certificates()], list(
            store.db.rows("SELECT place, first, kept FROM alone")
        )


@pytest.mark.parametrize("noise", ["fresh", "shared"])
@pytest.mark.slow("starts processes that vote on rows alone")
def test_certificates_are_those_of_the_same_run_without_a_store(tmp_path: Path, noise: str) -> None:
    """For a model that sees its batches: rows are lost, and the same ones."""
    run = here(classifiers.Evader(0), noise)
    with open_store(tmp_path / "run.db", run) as store:
        issued = [plain(each) for each in certify_into(store, run)]
    expected = without_store(here(classifiers.Evader(0), noise))
    assert issued == stored(tmp_path / "run.db")[0] == expected
    assert all(each.measured.rows == 80 for each in issued)
    assert any(each.measured.lost > 5 for each in issued)
    export_path = tmp_path / "run.jsonl"
    with Store.read(tmp_path / "run.db") as store:
        export(store, export_path)
    lines = export_path.read_text(encoding="utf-8").splitlines()
    assert [plain(Certificate.from_json(line)) for line in lines] == expected


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize(
    ("commits", "most"), [(25, 3), pytest.param(10, 8, marks=pytest.mark.long("starts many processes after each kill"))]
)
@pytest.mark.slow("starts a process after each kill")
def test_kills_repeat_no_finished_row_and_change_none(commits: int, most: int, tmp_path: Path) -> None:
    """Killed after every so many commits, and another run in the middle of what it writes about rows.

    Where no commit was cut off, each row is voted alone exactly once.
    """
    from runs.test_pipeline_interruption import disturb

    lives, tried, doubtful = disturb("rows", tmp_path / "run.db", "fresh", commits)
    assert lives > most
    assert tried == doubtful
    (cut,) = disturb("cut", tmp_path / "cut.db", "fresh", 30)
    assert cut > 3
    disturb("rows", tmp_path / "quiet.db", "fresh", 10_000)
    assert stored(tmp_path / "run.db") == stored(tmp_path / "quiet.db") == stored(tmp_path / "cut.db")


FAR = SmootherRecipe.of(classifiers.brightness, "0.5", **MEASURED)


@pytest.mark.parametrize(
    "pool", [FakePool(FAR), FakePool(FAR, deaths=0.05), ProcessPool(FAR, 2)], ids=["fake", "deadly", "processes"]
)
@pytest.mark.slow("starts processes that vote on rows alone")
def test_other_processes_vote_on_rows_as_well(tmp_path: Path, pool: WorkerPool) -> None:
    with lasting_rows_alone():  # for the two pools in this process
        issued = elsewhere(tmp_path / "far.db", plan_run(pool, inputs(3), small(), SECRET))
    assert sorted((plain(each) for each in issued), key=lambda each: each.index) == expected()


def test_a_look_ahead_leaves_rows_for_another_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where votes come back when the last image has been handed out. Nobody waits for others then."""
    from soundsmooth.runs import voter

    def never(seconds: float) -> None:
        raise AssertionError("it waits for nobody")

    monkeypatch.setattr(voter, "look_ahead", lambda worker: 4)
    run = here()
    with open_store(tmp_path / "run.db", run) as store:
        assert len(list(certify_into(store, run, clock=LeaseClock(sleep=never)))) == 3
    assert stored(tmp_path / "run.db")[0] == expected()


def test_what_cannot_be_measured_is_refused_before_the_first_vote(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="leave out --no-votes"):
        open_store(tmp_path / "run.db", here(), votes=False)
    assert terms_at(tmp_path / "run.db") is None
    with pytest.raises(ValueError, match="cannot vote on one row alone"):
        here(classifiers.NotAlone())
    with pytest.raises(ValueError, match="not with batchwise"):
        plan_run(FakePool(FAR), inputs(3), small("batchwise"), SECRET)


@pytest.mark.slow("starts processes that die")
def test_a_process_that_dies_over_a_row_is_an_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fresh process dies over the hundredth row; a new one is asked the same, and the result is the same."""
    begin, count = RowVoter._begin, [0]

    def dies_once(alone: RowVoter, row: object) -> object:
        count[0] += 1
        if count[0] == 100:
            alone._process.kill()
        return begin(alone, row)

    run = here()  # rows that are tried out first do not count
    monkeypatch.setattr(RowVoter, "_begin", dies_once)
    with open_store(tmp_path / "run.db", run) as store:
        issued = list(certify_into(store, run))
        assert not any(isinstance(each, Failure) for each in issued)
        assert store.db.one("SELECT SUM(attempts) FROM images") == 1
    monkeypatch.undo()
    assert stored(tmp_path / "run.db")[0] == expected()


def test_the_first_stored_result_wins(tmp_path: Path) -> None:
    run = here()
    with open_store(tmp_path / "run.db", run) as store:
        list(certify_into(store, run))
    with closing(sqlite3.connect(tmp_path / "run.db")) as db:
        place, first, kept = db.execute("SELECT place, first, kept FROM alone LIMIT 1").fetchone()
    with open_store(tmp_path / "run.db", run) as store:
        block = next(each for each in store.all_blocks if each.purpose == 1 and each.first == first)
        assert not store.add_alone(place, block, kept, 0.0, {})
        assert not list(store.findings())
        assert not store.add_alone(place, block, b"another", 0.0, {})
        ((_, text),) = store.findings()
        assert "voted alone twice" in text
        assert store.alone(place)[first] == kept
