"""Workers elsewhere: whoever dies, hangs or comes late, the run ends with exactly what one process would have found."""

import itertools
import random
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

import numpy as np
import pytest
import torch

import soundsmooth as ss
from classifiers import brightness_of_three
from runs.far_models import DiesOnce, HangsOnce, Once, Slow, batch_mean
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import Settings, settings
from soundsmooth.core.independence import CHECKED, measured
from soundsmooth.models import Identity, Votes
from soundsmooth.runs import pools, voter, worker
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import RunPlan, plan_run
from soundsmooth.runs.pools import LocalPool, Message, WorkerDied, WorkerPool
from soundsmooth.runs.process_pool import ProcessPool
from soundsmooth.runs.store import Store
from soundsmooth.runs.stored import Failure
from soundsmooth.runs.tasks import Outcome
from soundsmooth.runs.worker import Worker, WorkerKind
from soundsmooth.smoothing.recipe import SmootherRecipe
from soundsmooth.verification import audit_file

COUNT = 4
SECRET = secret("far away", "ab" * 32)


def inputs(count: int = COUNT) -> Inputs:
    levels = tuple(np.full((2, 2), 40 + 25 * (i % 8), np.int16) for i in range(count))
    return Inputs(tuple(range(5, 5 + 3 * count, 3)), levels, [None] * count)


def recipe(model: object = brightness_of_three) -> SmootherRecipe:
    """Models that misbehave or wait are to do so in the run, and not while the rows are checked before it."""
    how = "assumed" if isinstance(model, Once | Slow) else "auto"
    return SmootherRecipe.of(model, "0.5", batch_size=10, threads=1, independence=how)


def small(noise: str = "fresh") -> Settings:
    """23 blocks for each image: three of selection."""
    return settings(n0=50, n=400, noise=noise)


def here(model: object = brightness_of_three, noise: str = "fresh", count: int = COUNT) -> RunPlan:
    return plan_run(LocalPool(recipe(model).build()), inputs(count), small(noise), SECRET)


def rows(path: Path) -> tuple[list, list]:
    """Certificates and blocks; what depends on time or place is left out."""
    with Store.read(path) as store:
        assert not list(store.findings())
        blocks = list(store.db.rows("SELECT place, purpose, first, count, votes, hits FROM blocks ORDER BY 1, 2, 3"))
        return [replace(each, seconds=0.0, environment={}) for each in store.certificates()], blocks


def locally(path: Path, run: RunPlan) -> tuple[list, list]:
    with open_store(path, run) as store:
        assert not any(isinstance(issued, Failure) for issued in certify_into(store, run))
    return rows(path)


def elsewhere(path: Path, plan: RunPlan) -> list:
    with open_store(path, plan) as store:
        return list(certify_into(store, plan))


def planned(pool: WorkerPool, noise: str = "fresh", allow_mixed: bool = False) -> RunPlan:
    return plan_run(pool, inputs(), small(noise), SECRET, allow_mixed)


@dataclass(eq=False)
class FakeWorker:
    """A worker in this process."""

    worker: Worker
    calls: deque = field(default_factory=deque)
    killed: bool = False

    def call(self, method: str, *arguments: object) -> None:
        self.calls.append((method, arguments))
        assert sum(name == "give" for name, _ in self.calls) <= voter.AHEAD + WorkerPool.in_hand  # it is bounded

    def kill(self) -> None:
        self.killed = True


@dataclass(eq=False)
class FakePool(WorkerPool):
    """Workers that answer in a random order, and die at random."""

    recipe: SmootherRecipe = field(default_factory=lambda: recipe())
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    deaths: float = 0.0
    size: int = 3
    started: int = 0

    def capacity(self) -> int:
        return self.size

    def start_worker(self) -> FakeWorker:
        self.started += 1
        return FakeWorker(Worker(self.recipe.build))

    def wait(self, workers: list[FakeWorker], seconds: float) -> list[Message]:
        busy = [worker for worker in workers if worker.calls]
        self.chance.shuffle(busy)
        return [(worker, self._answer(worker)) for worker in busy[: 1 + self.chance.randrange(self.size)]]

    def _answer(self, worker: FakeWorker) -> object:
        method, arguments = worker.calls.popleft()
        if method in ("give", "rest") and self.chance.random() < self.deaths:
            return WorkerDied("it died", suspicious=self.chance.random() < 0.5)
        try:
            return getattr(worker.worker, method)(*arguments)
        except Exception as error:
            return error

    def describe(self) -> dict[str, str]:
        return {"engine": "fake"}


@pytest.fixture(params=[0, 4], ids=["as a CPU", "as a GPU, looking ahead"])
def ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voter, "look_ahead", lambda replica: request.param)


@pytest.mark.usefixtures("ahead")
@pytest.mark.parametrize("noise", ["fresh", "shared", "batchwise"])
@pytest.mark.parametrize("deaths", [0.0, 0.05])
def test_the_rows_are_those_of_one_process(tmp_path: Path, noise: str, deaths: float) -> None:
    pool = FakePool(chance=random.Random(7), deaths=deaths)
    issued = elsewhere(tmp_path / "far.db", planned(pool, noise))
    assert [type(each) for each in issued] == [ss.Certificate] * COUNT
    assert pool.started > pool.size if deaths else pool.started == pool.size
    assert rows(tmp_path / "far.db") == locally(tmp_path / "near.db", here(noise=noise))


class DeadlyPool(FakePool):
    """Workers that die whenever they are given the darkest image."""

    def _answer(self, worker: FakeWorker) -> object:
        method, arguments = worker.calls[0]
        if method == "give" and arguments[1].number == 5:
            worker.calls.clear()
            return WorkerDied("SegmentationFault: it died")
        return super()._answer(worker)


@pytest.mark.usefixtures("ahead")
def test_an_image_that_kills_its_workers_fails_and_no_other(tmp_path: Path) -> None:
    issued = elsewhere(tmp_path / "far.db", planned(DeadlyPool()))
    failed = [each for each in issued if isinstance(each, Failure)]
    assert [(each.index, each.attempts, each.error) for each in failed] == [(5, 3, "SegmentationFault: it died")]
    far, near = rows(tmp_path / "far.db")[0], locally(tmp_path / "near.db", here())[0]
    assert far == near[1:]


def test_a_run_continues_with_another_pool(tmp_path: Path) -> None:
    plan = planned(FakePool())
    with open_store(tmp_path / "far.db", plan) as store:
        assert len(list(itertools.islice(certify_into(store, plan), 2))) == 2
    assert locally(tmp_path / "far.db", here()) == locally(tmp_path / "near.db", here())


def test_workers_that_never_get_ready_are_not_started_forever(tmp_path: Path) -> None:
    class Stillborn(FakePool):
        def _answer(self, worker: FakeWorker) -> object:
            return WorkerDied("it died") if worker.calls[0][0] == "begin" else super()._answer(worker)

    with pytest.raises(ValueError, match="workers died before they could vote; the last: it died"):
        elsewhere(tmp_path / "far.db", planned(Stillborn()))


def test_a_model_that_is_not_the_promised_one_is_refused(tmp_path: Path) -> None:
    other = replace(planned(FakePool()), pool=FakePool(recipe(lambda batch: -brightness_of_three(batch))))
    with pytest.raises(ValueError, match=r"a worker's model is not the promised one: digest .*… -> "):
        elsewhere(tmp_path / "far.db", other)


def test_the_processor_counts_where_it_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a model on a GPU too, if rows are voted alone: they decide there which F is certified."""
    monkeypatch.setattr(worker, "processor", lambda: "an EPYC")
    gpu = Identity("torch", "0" * 64, device="cuda NVIDIA H200", independence=CHECKED)
    assert worker.kind_of(gpu).processor == "any"
    assert worker.kind_of(replace(gpu, device="cpu")).processor == "an EPYC"
    assert worker.kind_of(replace(gpu, independence=measured(10))).processor == "an EPYC"


@pytest.mark.parametrize("tunes", [False, True])
def test_a_worker_that_tunes_has_longer_for_its_first_answer(tunes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "FIRST_SECONDS", 0.0)
    pool = FakePool()
    pool.tunes = tunes
    with nullcontext() if tunes else pytest.raises(ValueError, match="no answer within 0 seconds"):
        pool.survey([inputs().levels[0]], small(), 1)


def test_who_tunes_is_known_from_the_recipe() -> None:
    """A worker that is given an artifact has nothing to choose."""
    build = SmootherRecipe.of(torch.nn.Flatten(), "0.5", threads=1, compile="tuned")
    assert [each.tunes for each in (build, recipe())] == [True, False]
    assert [ProcessPool(each, 1).tunes for each in (build, recipe())] == [True, False]
    given = replace(build, model=replace(build.model, options={**build.model.options, "artifact": b"kernels"}))
    assert not given.tunes


class Wrong(FakePool):
    """Workers that forget the last vote, or answer another question."""

    answer: object = None

    def _answer(self, worker: FakeWorker) -> object:
        method, arguments = worker.calls[0]
        found = super()._answer(worker)
        return [Outcome(arguments[0], self.answer, (), 0.0)] if method == "give" else found


@pytest.mark.parametrize("answer", [(Votes(np.zeros(19, np.int64), 2),), np.ones(20, bool)])
def test_answers_of_the_wrong_size_are_never_counted(answer: object, tmp_path: Path) -> None:
    pool = Wrong()
    pool.answer, plan = answer, planned(pool)
    with open_store(tmp_path / "run.db", plan) as store:
        with pytest.raises(ValueError, match=r"a worker was asked for 20 votes and gave (19|20)"):
            list(certify_into(store, plan))
        assert not list(store.blocks(0))


def two_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second worker runs on another processor."""
    kinds = itertools.cycle([WorkerKind("cpu", "an EPYC", "torch=1"), WorkerKind("cpu", "a Xeon", "torch=1")])
    monkeypatch.setattr(worker, "kind_of", lambda identity: next(kinds))


def test_mixed_kinds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_kinds(monkeypatch)
    with pytest.raises(ValueError, match=r"different kinds: cpu, an EPYC .*and cpu, a Xeon .*--allow-mixed"):
        elsewhere(tmp_path / "far.db", planned(FakePool()))


def test_mixed_kinds_are_promised_and_named_if_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_kinds(monkeypatch)
    issued = elsewhere(tmp_path / "far.db", planned(FakePool(), allow_mixed=True))
    assert {each.promise.values["device"] for each in issued} == {"mixed"}
    assert issued[-1].environment["mixed"] == "cpu, a Xeon processor, torch=1; cpu, an EPYC processor, torch=1"
    assert not audit_file(tmp_path / "far.db").refuted


def test_what_is_promised_as_checked_is_checked_there() -> None:
    """Ledger, row 6: votes by company are seen, before anything is promised."""
    with pytest.raises(ValueError, match="the vote of a row depends on its batch"):
        planned(FakePool(recipe(batch_mean)))


@pytest.mark.parametrize(
    ("kind", "timeout", "message"), [(HangsOnce, 0.2, "no answer within 2 seconds"), (DiesOnce, 60.0, "died")]
)
@pytest.mark.slow("waits for a process that hangs")
def test_a_model_that_hangs_or_dies_while_it_is_checked_is_one_line(
    kind: type[Once], timeout: float, message: str, tmp_path: Path
) -> None:
    build = SmootherRecipe.of(kind(tmp_path, 1), "0.5", batch_size=10, threads=1)
    with pytest.raises(ValueError, match=rf"{message}.* while the model's rows were checked.* assumed leaves"):
        planned(ProcessPool(build, 1, timeout=timeout))


def test_a_model_that_cannot_be_sent_is_one_line() -> None:
    lock = Lock()
    build = SmootherRecipe.of(lambda batch: [lock.locked()] * len(batch), "0.5", batch_size=10, threads=1)
    with pytest.raises(ValueError, match=r"cannot be sent to another process .*: use a function or class at the top"):
        planned(ProcessPool(build, 1))


def test_the_seed_stays_at_home() -> None:
    run = planned(FakePool())
    assert SECRET.seed not in vars(run.job).values()
    assert run.job.key == SECRET.key(run.promise)
    assert run.job.key.hex() not in repr(run.job)
    assert str(run.job.key) not in repr(run.job)


@pytest.mark.parametrize(("kind", "timeout"), [(DiesOnce, None), (HangsOnce, 2.0)])
@pytest.mark.slow("waits for a process that hangs, and starts another")
def test_a_process_that_dies_or_hangs(tmp_path: Path, kind: type[Once], timeout: float | None) -> None:
    path, pool = tmp_path / "far.db", ProcessPool(recipe(kind(tmp_path, 60)), 2, timeout=timeout)
    issued = elsewhere(path, planned(pool))
    assert [type(each) for each in issued] == [ss.Certificate] * COUNT
    assert (tmp_path / "misbehaved").exists()
    assert rows(path) == locally(tmp_path / "near.db", here(kind(tmp_path, 60)))  # which misbehaves once


def test_files_travel_and_are_the_same_model() -> None:
    from soundsmooth import embedded

    path = embedded.model_for(1)
    far, near = SmootherRecipe.of(path, "0.5", threads=1).build(), ss.Smoother(path, "0.5", threads=1).smoothing
    assert far.model.identity() == near.model.identity()
    assert far.law == near.law


def test_a_torch_module_travels_with_its_switches() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        near = ss.Smoother(module, "0.5").smoothing.model.identity()
        packed = SmootherRecipe.of(module, "0.5")
    finally:
        torch.set_float32_matmul_precision(before)
    try:
        assert packed.build().model.identity() == near
        assert near.flags["matmul"] == "high"
    finally:
        torch.set_float32_matmul_precision(before)
