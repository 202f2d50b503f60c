"""Workers elsewhere: whoever dies, hangs or comes late, the run ends with exactly what one process would have found."""

import itertools
import random
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

import numpy as np
import pytest

import soundsmooth as ss
from runs.far_models import DiesOnce, HangsOnce, Once, Slow, batch_mean, brightness
from soundsmooth.core.independence import CHECKED, measured
from soundsmooth.models import Identity
from soundsmooth.promise import Inputs, secret
from soundsmooth.recipe import SmootherRecipe
from soundsmooth.runs import crew, station, voter
from soundsmooth.runs.blocks import BlockVotes
from soundsmooth.runs.checked import DependentRowsError
from soundsmooth.runs.crew import Death, Muster, News
from soundsmooth.runs.engine import Run, run_of
from soundsmooth.runs.processes import Processes
from soundsmooth.runs.resume import certify_into, open_store
from soundsmooth.runs.station import Kind, Station
from soundsmooth.runs.store import Failure, Store
from soundsmooth.runs.voter import Outcome
from soundsmooth.settings import Settings, settings
from soundsmooth.verify import verify

COUNT = 4
SECRET = secret("far away", "ab" * 32)


def inputs(count: int = COUNT) -> Inputs:
    levels = tuple(np.full((2, 2), 40 + 25 * (i % 8), np.int16) for i in range(count))
    return Inputs(tuple(range(5, 5 + 3 * count, 3)), levels, [None] * count)


def recipe(model: object = brightness) -> SmootherRecipe:
    """Models that misbehave or wait are to do so in the run, and not while the rows are checked before it."""
    how = "assumed" if isinstance(model, Once | Slow) else "auto"
    return SmootherRecipe.of(model, "0.5", batch_size=10, threads=1, independence=how)


def small(noise: str = "fresh") -> Settings:
    """23 blocks for each image: three of selection."""
    return settings(n0=50, n=400, noise=noise)


def here(model: object = brightness, noise: str = "fresh", count: int = COUNT) -> Run:
    return run_of(recipe(model).build(), inputs(count), small(noise), SECRET)


def rows(path: Path) -> tuple[list, list]:
    """Certificates and blocks; what depends on time or place is left out."""
    with Store.read(path) as store:
        assert not list(store.findings())
        blocks = list(store.db.rows("SELECT place, purpose, first, count, votes, hits FROM blocks ORDER BY 1, 2, 3"))
        return [replace(each, seconds=0.0, environment={}) for each in store.certificates()], blocks


def locally(path: Path, run: Run) -> tuple[list, list]:
    with open_store(path, run) as store:
        assert not any(isinstance(issued, Failure) for issued in certify_into(store, run))
    return rows(path)


def elsewhere(path: Path, muster: Muster, timeout: float | None = None, mixed: bool = False) -> list:
    run = muster.run(SECRET, mixed)
    with open_store(path, run) as store:
        return list(certify_into(store, run, engine=muster.engine(run, timeout)))


@dataclass(eq=False)
class FakeHand:
    """A station in this process."""

    station: Station = field(default_factory=Station)
    calls: deque = field(default_factory=deque)
    killed: bool = False

    def call(self, method: str, *arguments: object) -> None:
        self.calls.append((method, arguments))
        assert sum(name == "give" for name, _ in self.calls) <= voter.AHEAD + crew.IN_HAND  # the queue is bounded

    def kill(self) -> None:
        self.killed = True


@dataclass(eq=False)
class FakeCrew:
    """Hands that answer in a random order, and die at random."""

    chance: random.Random = field(default_factory=lambda: random.Random(1))
    deaths: float = 0.0
    size: int = 3
    hired: int = 0

    def strength(self) -> int:
        return self.size

    def hire(self) -> FakeHand:
        self.hired += 1
        return FakeHand()

    def share(self, value: object) -> object:
        return value

    def wait(self, hands: list[FakeHand], seconds: float) -> list[News]:
        busy = [hand for hand in hands if hand.calls]
        self.chance.shuffle(busy)
        return [News(hand, self._answer(hand)) for hand in busy[: 1 + self.chance.randrange(self.size)]]

    def _answer(self, hand: FakeHand) -> object:
        method, arguments = hand.calls.popleft()
        if method in ("give", "rest") and self.chance.random() < self.deaths:
            return Death("it died", suspicious=self.chance.random() < 0.5)
        try:
            return getattr(hand.station, method)(*arguments)
        except Exception as error:
            return error

    def describe(self) -> dict[str, str]:
        return {"engine": "fake"}


@pytest.fixture(params=[0, 4], ids=["as a CPU", "as a GPU, looking ahead"])
def ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (station, voter):
        monkeypatch.setattr(module, "look_ahead", lambda worker: request.param)


@pytest.mark.usefixtures("ahead")
@pytest.mark.parametrize("noise", ["fresh", "shared", "batchwise"])
@pytest.mark.parametrize("deaths", [0.0, 0.05])
def test_the_rows_are_those_of_one_process(tmp_path: Path, noise: str, deaths: float) -> None:
    crew = FakeCrew(random.Random(7), deaths)
    issued = elsewhere(tmp_path / "far.db", Muster.of(crew, recipe(), inputs(), small(noise)))
    assert [type(each) for each in issued] == [ss.Certificate] * COUNT
    assert crew.hired > crew.size if deaths else crew.hired == crew.size
    assert rows(tmp_path / "far.db") == locally(tmp_path / "near.db", here(noise=noise))


class DeadlyCrew(FakeCrew):
    """Hands that die whenever they are given the darkest image."""

    def _answer(self, hand: FakeHand) -> object:
        method, arguments = hand.calls[0]
        if method == "give" and arguments[1].number == 5:
            hand.calls.clear()
            return Death("SegmentationFault: it died")
        return super()._answer(hand)


@pytest.mark.usefixtures("ahead")
def test_an_image_that_kills_its_workers_fails_and_no_other(tmp_path: Path) -> None:
    issued = elsewhere(tmp_path / "far.db", Muster.of(DeadlyCrew(), recipe(), inputs(), small()))
    failed = [each for each in issued if isinstance(each, Failure)]
    assert [(each.index, each.attempts, each.error) for each in failed] == [(5, 3, "SegmentationFault: it died")]
    far, near = rows(tmp_path / "far.db")[0], locally(tmp_path / "near.db", here())[0]
    assert far == near[1:]


def test_a_run_continues_with_another_engine(tmp_path: Path) -> None:
    muster = Muster.of(FakeCrew(), recipe(), inputs(), small())
    run = muster.run(SECRET)
    with open_store(tmp_path / "far.db", run) as store:
        assert len(list(itertools.islice(certify_into(store, run, engine=muster.engine(run)), 2))) == 2
    assert locally(tmp_path / "far.db", here()) == locally(tmp_path / "near.db", here())


def test_workers_that_never_get_ready_are_not_hired_forever(tmp_path: Path) -> None:
    class Stillborn(FakeCrew):
        def _answer(self, hand: FakeHand) -> object:
            return Death("it died") if hand.calls[0][0] == "begin" else super()._answer(hand)

    with pytest.raises(ValueError, match="workers died before they could vote; the last: it died"):
        elsewhere(tmp_path / "far.db", Muster.of(Stillborn(), recipe(), inputs(), small()))


def test_a_model_that_is_not_the_promised_one_is_refused(tmp_path: Path) -> None:
    muster = Muster.of(FakeCrew(), recipe(), inputs(), small())
    other = replace(muster, build=recipe(lambda batch: -brightness(batch)), hand=FakeHand())
    with pytest.raises(ValueError, match=r"a worker's model is not the promised one: digest .*… -> "):
        elsewhere(tmp_path / "far.db", other)


def test_the_processor_counts_where_it_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a model on a GPU too, if rows are voted alone: they decide there which F is certified."""
    monkeypatch.setattr(station, "processor", lambda: "an EPYC")
    gpu = Identity("torch", "0" * 64, device="cuda NVIDIA H200", independence=CHECKED)
    assert station._kind(gpu).processor == "any"
    assert station._kind(replace(gpu, device="cpu")).processor == "an EPYC"
    assert station._kind(replace(gpu, independence=measured(10))).processor == "an EPYC"


@dataclass
class Wrong:
    """An engine whose workers forget the last vote, or answer another question."""

    answer: object
    environment: dict[str, str] = field(default_factory=dict)

    def outcomes(self, groups: object, keep: object) -> Generator[list[Outcome], None, None]:
        for task in next(groups):  # type: ignore[call-overload]
            yield [Outcome(task, self.answer, (), 0.0)]  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [BlockVotes(np.zeros(19, np.int64), 2), np.ones(20, bool)])
def test_answers_of_the_wrong_size_are_never_counted(answer: object, tmp_path: Path) -> None:
    run = here()
    with open_store(tmp_path / "run.db", run) as store:
        with pytest.raises(ValueError, match=r"a worker was asked for 20 votes and gave (19|20)"):
            list(certify_into(store, run, engine=Wrong(answer)))
        assert not list(store.blocks(0))


def two_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second worker runs on another processor."""
    kinds = itertools.cycle([Kind("cpu", "an EPYC", "torch=1"), Kind("cpu", "a Xeon", "torch=1")])
    monkeypatch.setattr(station, "_kind", lambda identity: next(kinds))


def test_mixed_kinds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_kinds(monkeypatch)
    with pytest.raises(ValueError, match=r"different kinds: cpu, an EPYC .*and cpu, a Xeon .*--allow-mixed"):
        elsewhere(tmp_path / "far.db", Muster.of(FakeCrew(), recipe(), inputs(), small()))


def test_mixed_kinds_are_promised_and_named_if_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_kinds(monkeypatch)
    issued = elsewhere(tmp_path / "far.db", Muster.of(FakeCrew(), recipe(), inputs(), small()), mixed=True)
    assert {each.promise.values["device"] for each in issued} == {"mixed"}
    assert issued[-1].environment["mixed"] == "cpu, a Xeon processor, torch=1; cpu, an EPYC processor, torch=1"
    assert not verify(tmp_path / "far.db").refuted


def test_what_is_promised_as_checked_is_checked_there() -> None:
    """Ledger, row 6: votes by company are seen, before anything is promised."""
    with pytest.raises(DependentRowsError, match="the vote of a row depends on its batch"):
        Muster.of(FakeCrew(), recipe(batch_mean), inputs(), small())


@pytest.mark.parametrize(
    ("kind", "timeout", "message"), [(HangsOnce, 0.2, "no answer within 2 seconds"), (DiesOnce, 60.0, "died")]
)
def test_a_model_that_hangs_or_dies_while_it_is_checked_is_one_line(
    kind: type[Once], timeout: float, message: str, tmp_path: Path
) -> None:
    build = SmootherRecipe.of(kind(tmp_path, 1), "0.5", batch_size=10, threads=1)
    with pytest.raises(ValueError, match=rf"{message}.* while the model's rows were checked.* assumed leaves"):
        Muster.of(Processes(1), build, inputs(), small(), timeout=timeout)


def test_a_model_that_cannot_be_sent_is_one_line() -> None:
    lock = Lock()
    build = SmootherRecipe.of(lambda batch: [lock.locked()] * len(batch), "0.5", batch_size=10, threads=1)
    with pytest.raises(ValueError, match=r"cannot be sent to another process .*: use a function or class at the top"):
        Muster.of(Processes(1), build, inputs(), small())


def test_the_seed_stays_at_home() -> None:
    run = Muster.of(FakeCrew(), recipe(), inputs(), small()).run(SECRET)
    assert SECRET.seed not in vars(run.duty).values()
    assert run.duty.key == SECRET.key(run.promise)
    assert run.duty.key.hex() not in repr(run.duty)
    assert str(run.duty.key) not in repr(run.duty)


@pytest.mark.parametrize(("kind", "timeout"), [(DiesOnce, None), (HangsOnce, 2.0)])
def test_a_process_that_dies_or_hangs(tmp_path: Path, kind: type[Once], timeout: float | None) -> None:
    path, muster = tmp_path / "far.db", Muster.of(Processes(2), recipe(kind(tmp_path, 60)), inputs(), small())
    issued = elsewhere(path, muster, timeout)
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
