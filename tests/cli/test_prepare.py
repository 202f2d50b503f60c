"""Who votes, as it is chosen on the command line."""

import sys
from pathlib import Path

import pytest

from soundsmooth.cli.certify import run_certify
from soundsmooth.cli.options import Choices
from soundsmooth.cli.prepare import engine_name
from soundsmooth.runs.ray_pool import ray_module
from soundsmooth.runs.store import Store

SMALL = {"limit": 3, "n": 200, "n0": 10, "seed": "the same", "threads": 1}


def rows(path: Path) -> list[tuple]:
    with Store.read(path) as store:
        return [
            (each.index, each.label, each.radius, each.estimation, each.commitment) for each in store.certificates()
        ]


def test_processes_give_the_rows_of_threads(tmp_path: Path) -> None:
    for name, engine in (("near", "local"), ("far", "processes")):
        run_certify(Choices({**SMALL, "engine": engine, "out": str(tmp_path / f"{name}.db")}, None))
    assert len(rows(tmp_path / "far.db")) == 3
    assert rows(tmp_path / "far.db") == rows(tmp_path / "near.db")
    for name in ("near", "far"):
        with Store.read(tmp_path / f"{name}.db") as store:
            assert store.information.clean == 1  # asked of a worker, wherever it is


@pytest.mark.parametrize(
    ("given", "engine"),
    [
        ({}, "local"),
        ({"timeout": 60.0}, "processes"),
        ({"engine": "ray", "timeout": 60.0}, "ray"),
        ({"address": "auto"}, "ray"),
    ],
)
def test_which_engine(given: dict[str, object], engine: str) -> None:
    assert engine_name(Choices(given, None)) == engine


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"engine": "spark"}, "engine must be one of local, processes, ray, not 'spark'"),
        ({"engine": "local", "allow_mixed": True}, "--allow-mixed goes with --engine ray"),
        ({"engine": "processes", "address": "auto"}, "--address goes with --engine ray"),
        ({"timeout": 0.0}, "timeout must be a positive number of seconds"),
        ({"timeout": float("nan")}, "timeout must be a positive number of seconds"),
        ({"timeout": float("inf")}, "timeout must be a positive number of seconds"),
    ],
)
def test_what_cannot_be(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        engine_name(Choices(given, None))


def test_a_cluster_needs_a_store() -> None:
    with pytest.raises(ValueError, match=r"--out run\.db"):
        run_certify(Choices({**SMALL, "engine": "ray"}, None))


def test_ray_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'soundsmooth\[ray\]'"):
        ray_module()
