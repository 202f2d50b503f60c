"""Workers elsewhere, with looks: who votes, and in which order they answer, does not change where an image stops."""

import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness_of_three
from golden.surface import DATA
from runs.test_pools import SECRET, FakePool, FakeWorker, elsewhere, locally, rows
from soundsmooth.certification.promise import Inputs
from soundsmooth.certification.settings import settings
from soundsmooth.runs import plan as plans
from soundsmooth.runs import voter
from soundsmooth.runs.plan import RunPlan, plan_run
from soundsmooth.runs.pools import LocalPool, WorkerDied, WorkerPool
from soundsmooth.runs.process_pool import ProcessPool
from soundsmooth.runs.tasks import Outcome
from soundsmooth.smoothing.recipe import SmootherRecipe

COUNT = 6
#: Models whose rows are proved to be independent share batches between images; others do not.
MODELS = {"proved": DATA / "linear.onnx", "assumed": brightness_of_three}


def inputs() -> Inputs:
    """Every other image is black, and is soon decided; the rest are doubtful."""
    black, doubtful = np.zeros((1, 2, 2), np.int16), np.array([[[90, 200], [75, 75]]], np.int16)
    return Inputs(tuple(range(COUNT)), [doubtful if i % 2 else black for i in range(COUNT)], [None] * COUNT)


def looking_recipe(kind: str) -> SmootherRecipe:
    return SmootherRecipe.of(MODELS[kind], "1/2", batch_size=10, threads=1, independence=kind)


def looking(pool: WorkerPool) -> RunPlan:
    chosen = settings(n0=20, n=400, alpha="1/100", radii=[0, "1/4"], looks=[40, 80, 160, 400])
    return plan_run(pool, inputs(), chosen, SECRET)


@cache
def here(kind: str) -> tuple[list, list]:
    """What one process finds."""
    with TemporaryDirectory() as folder:
        return locally(Path(folder) / "near.db", looking(LocalPool(looking_recipe(kind).build())))


@pytest.mark.parametrize("kind", MODELS)
def test_images_stop_at_different_looks(kind: str) -> None:
    """With another key a black image goes on to the end in less than a tenth of all cases, a doubtful one in most."""
    certificates, _ = here(kind)
    assert certificates[0].promise.independence.text == kind
    assert ("group" in certificates[0].promise.values) == (kind == "proved")
    assert len({len(each.looks) for each in certificates}) > 1


class Counting(FakePool):
    """Counts its dead."""

    died = 0

    def _answer(self, worker: FakeWorker) -> object:
        found = super()._answer(worker)
        self.died += isinstance(found, WorkerDied)
        return found


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("deaths", [0.0, 0.2])
def test_the_rows_are_those_of_one_process(kind: str, deaths: float, tmp_path: Path) -> None:
    """Three workers answer in random order, and die at random."""
    pool = Counting(looking_recipe(kind), chance=random.Random(7), deaths=deaths)
    issued = elsewhere(tmp_path / "far.db", looking(pool))
    assert [type(each) for each in issued] == [ss.Certificate] * COUNT
    assert (pool.died > 0) == (deaths > 0)
    assert rows(tmp_path / "far.db") == here(kind)


@pytest.mark.parametrize("away", [False, True], ids=["in this process", "elsewhere"])
def test_a_gpu_votes_on_while_a_group_is_decided(away: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever a pack is finished, one of another group is begun already, until only one group has anything to vote."""
    events: list[tuple[int, int]] = []
    finish = voter.Voter._finish

    def finishing(self: voter.Voter, begun: Any) -> Outcome:
        events.append((begun.task.parts[0].place // 2, len(self._waiting)))
        return finish(self, begun)

    monkeypatch.setattr(voter, "look_ahead", lambda replica: voter.AHEAD)
    monkeypatch.setattr(plans, "GROUP_IMAGES", 2)
    monkeypatch.setattr(voter.Voter, "_finish", finishing)
    pool = FakePool(looking_recipe("proved"), size=1) if away else LocalPool(looking_recipe("proved").build())
    issued = elsewhere(tmp_path / "run.db", looking(pool))
    groups = [group for group, _ in events]
    assert (len(issued), {*groups}) == (COUNT, {0, 1, 2})
    others = [any(later != group for later in groups[at + 1 :]) for at, group in enumerate(groups)]
    assert others.count(True) > 8
    assert all(waiting for (_, waiting), other in zip(events, others, strict=True) if other)


@pytest.mark.parametrize("kind", MODELS)
def test_a_lone_image_stops_where_a_run_of_it_does(kind: str) -> None:
    smooth = ss.Smoother(MODELS[kind], "1/2", batch_size=10, threads=1, independence=kind)  # type: ignore[arg-type]
    image = inputs().levels[1].astype(np.uint8)
    how = {"n0": 20, "n": 400, "alpha": "1/100", "radii": [0, "1/4"], "looks": [40, 80, 160, 400], "seed": "one"}
    (one,), lone = smooth.certify_all(image[None], **how), smooth.certify(image, **how)
    assert lone.promise == one.promise
    assert (lone.looks, lone.label, lone.radius, lone.p_lower) == (one.looks, one.label, one.radius, one.p_lower)


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("kind", MODELS)
def test_two_processes_find_the_same(kind: str, tmp_path: Path) -> None:
    elsewhere(tmp_path / "far.db", looking(ProcessPool(looking_recipe(kind), 2)))
    assert rows(tmp_path / "far.db") == here(kind)
