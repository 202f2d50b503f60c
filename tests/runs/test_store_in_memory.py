"""A run in memory: the same records as in a file."""

import os
from pathlib import Path

import pytest

from runs.interrupted import small_run, without_time
from soundsmooth.runs.export import export
from soundsmooth.runs.pipeline import certify_into, open_store, terms_of
from soundsmooth.runs.reader import RunReader
from soundsmooth.runs.store import Store


def test_a_run_in_memory_is_the_run_of_a_file(tmp_path: Path) -> None:
    run = small_run(count=4)
    with open_store(tmp_path / "run.db", run) as store:
        list(certify_into(store, run))
    before = os.listdir()
    with Store.begin(None, terms_of(run), run.inputs) as memory, RunReader.read(tmp_path / "run.db") as file:
        list(certify_into(memory, run))
        assert memory.terms == file.terms
        assert memory.schema == file.schema
        assert [*map(without_time, memory.certificates())] == [*map(without_time, file.certificates())]
        assert memory.progress() == file.progress()
        for place in range(4):
            votes = [[(each.block, each.counts, each.hits) for each in run.blocks(place)] for run in (memory, file)]
            assert votes[0] == votes[1]
        assert export(memory, tmp_path / "a.jsonl") == 4
    assert os.listdir() == before


def test_two_runs_in_memory_know_nothing_of_each_other() -> None:
    run = small_run(count=2)
    with Store.begin(None, terms_of(run), run.inputs) as first, Store.begin(None, terms_of(run), run.inputs) as second:
        first.add_finding(1, "only here")
        assert len(list(first.findings())) == 1
        assert not list(second.findings())


def test_what_is_interrupted_in_memory_is_not_there() -> None:
    run = small_run(count=2)
    with Store.begin(None, terms_of(run), run.inputs) as store:

        def interrupted() -> None:
            with store.db.transaction():
                store.add_finding(0, "never seen")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert not list(store.findings())
