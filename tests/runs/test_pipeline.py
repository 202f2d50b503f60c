"""A run against its store: the same certificates, whatever the model and the machine do in between."""

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import soundsmooth as ss
from classifiers import brightness_of_three
from issuing import issue
from runs.interrupted import inputs, looked_run, small_run, without_time
from soundsmooth import embedded
from soundsmooth.certification.certify import Counts, ModelChangedError
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import settings
from soundsmooth.core.grid import IMAGES
from soundsmooth.core.independence import CHECKED
from soundsmooth.data.load import load
from soundsmooth.noise import Noisy, Purpose
from soundsmooth.noise.sources import Source
from soundsmooth.runs import voter
from soundsmooth.runs.leases import LeaseClock, LeaseHolder, Leases
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import RunPlan, plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.store import Store
from soundsmooth.runs.stored import Failure
from soundsmooth.smoothing.blocks import VoteBlock, hits_of
from soundsmooth.smoothing.job import VotingJob


def undisturbed(run: RunPlan) -> list[ss.Certificate]:
    issued = issue(run.pool.smoothing, run.inputs, run.settings, run.secret)
    return [without_time(certificate) for certificate in issued]


def finished(path: Path, run: RunPlan, **options: object) -> list[ss.Certificate]:
    """Work until the end; every certificate is issued in order and found again in the store."""
    with open_store(path, run, **options) as store:
        list(certify_into(store, run))
        return [without_time(certificate) for certificate in store.certificates()]


@pytest.fixture(params=["fresh", "shared", "batchwise"])
def noise(request: pytest.FixtureRequest) -> str:
    return request.param


def test_certificates_are_those_of_a_run_without_a_store(noise: str, tmp_path: Path) -> None:
    run = small_run(noise, 8)
    assert finished(tmp_path / "run.db", run) == undisturbed(run)
    assert finished(tmp_path / "run.db", run) == undisturbed(run)  # there is nothing left to do


@pytest.mark.parametrize("bound", ["clopper-pearson", "hoeffding", "runner-up"])
@pytest.mark.parametrize(("n0", "n", "batch"), [(20, 95, 10), (7, 30, 50), (100, 101, 1)])
def test_blocks_that_do_not_divide_the_sample(bound: str, n0: int, n: int, batch: int, tmp_path: Path) -> None:
    smoothing = ss.Smoother(brightness_of_three, "0.5", batch_size=batch, threads=1).smoothing
    run = plan_run(LocalPool(smoothing), inputs(3), settings(n0, n, bound=bound), secret("s"))
    assert finished(tmp_path / "run.db", run) == undisturbed(run)


def test_what_is_issued_is_stored_before_it_is_shown(tmp_path: Path) -> None:
    run = small_run(count=4)
    with open_store(tmp_path / "run.db", run) as store:
        for count, issued in enumerate(certify_into(store, run), 1):
            with Store.read(tmp_path / "run.db") as other:
                assert list(other.certificates())[-1] == issued
                assert other.progress().finished == count


def test_the_bitmap_of_hits_is_what_was_voted(tmp_path: Path) -> None:
    """Every copy's vote for the selected class, from the noise itself; counts and certificate are their sums."""
    run = small_run(count=3)
    finished(tmp_path / "run.db", run)
    worker = run.pool.smoothing.replicas[0]
    with Store.read(tmp_path / "run.db") as store:
        for place, certificate in store.placed_certificates():
            guess, hits = certificate.selection.top, []
            for stored in store.blocks(place):
                if stored.block.purpose == Purpose.SELECTION:
                    assert stored.hits is None
                    continue
                hits.append(hits_of(stored.hits, stored.block.count))
                assert hits[-1].sum() == stored.counts.classes[guess]
            x = run.inputs.levels[place]
            values = run.job.noise(worker)(run.inputs.indices[place]).noisy(Purpose.ESTIMATION, x, 0, 400).values
            assert np.array_equal(np.concatenate(hits), brightness_of_three(values).argmax(axis=1) == guess)
            assert np.concatenate(hits).sum() == certificate.estimation.classes[guess]


def test_votes_can_be_left_out(tmp_path: Path) -> None:
    run = small_run(count=3)
    assert finished(tmp_path / "run.db", run, votes=False) == undisturbed(run)
    with Store.read(tmp_path / "run.db") as store:
        assert all(stored.hits is None for stored in store.blocks(0))
        assert len(list(store.blocks(0))) == len(store.all_blocks)


class Faulty:
    """Raises an error as long as it is told to, on images that are darker than a level."""

    def __init__(self, below: float = -99.0, times: int = 10**9) -> None:
        self.below, self.times = below, times
        self.batches: list[np.ndarray] = []

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        if self.times and batch[..., 0].mean() < self.below:
            self.times -= 1
            raise RuntimeError("out of memory\nin three lines\nof text")
        self.batches.append(batch.copy())
        return brightness_of_three(batch)


def faulty_run(below: float, times: int = 10**9) -> tuple[Faulty, RunPlan]:
    """The promise is that of a healthy model; what it is told is told afterwards."""
    model = Faulty()
    run = small_run(count=8, scores=model)
    model.below, model.times = below, times
    return model, run


def healthy() -> list[ss.Certificate]:
    return undisturbed(small_run(count=8, scores=Faulty()))


def test_a_failing_block_is_tried_again_on_its_own_noise(tmp_path: Path) -> None:
    """Ledger, row 16. Every batch that votes is one that votes in an undisturbed run, and each votes once."""
    (model, run), quiet = faulty_run(below=9, times=2), Faulty()
    undisturbed(small_run(count=8, scores=quiet))
    assert finished(tmp_path / "run.db", run) == healthy()
    assert sorted(batch.tobytes() for batch in model.batches) == sorted(batch.tobytes() for batch in quiet.batches)
    with Store.read(tmp_path / "run.db") as store:
        assert store.db.one("SELECT attempts FROM images WHERE place = 0") == 2
        assert store.db.one("SELECT error FROM images WHERE place = 0") == "RuntimeError: out of memory"


def test_images_on_which_the_model_fails_are_wrong_answers_and_the_others_go_on(tmp_path: Path) -> None:
    model, run = faulty_run(below=0.4)
    with open_store(tmp_path / "run.db", run) as store:
        issued = list(certify_into(store, run))
        failed = [record for record in issued if isinstance(record, Failure)]
        assert failed
        assert failed == list(store.failures())
        assert {failure.error for failure in failed} == {"RuntimeError: out of memory"}
        assert {failure.attempts for failure in failed} == {voter.ATTEMPTS}
        assert len(issued) == 8
        right = {c.index: c for c in healthy()}
        for record in issued:
            if not isinstance(record, Failure):
                assert without_time(record) == right[record.index]
        done = store.progress()
        assert (done.failed, done.finished, done.open) == (len(failed), 8 - len(failed), 0)

    model.times = 0  # the same command later, when there is memory again: the same noise, the same certificates
    assert finished(tmp_path / "run.db", run) == healthy()


def test_a_model_that_never_works_ends_the_run(tmp_path: Path) -> None:
    run = small_run(count=40, scores=Faulty(below=99))
    with open_store(tmp_path / "run.db", run) as store:
        with pytest.raises(ValueError, match="failed on the first 10 images, the last time with: RuntimeError"):
            list(certify_into(store, run))
        assert store.progress().failed == 10


class Learner(torch.nn.Module):
    """Changes a buffer with its third call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.learns = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.learns:
            Learner.total = getattr(Learner, "total", 0) + 1
            if Learner.total > 10:
                self.calls.add_(1)
        return torch.stack([x.flatten(1).mean(1), self.calls.expand(len(x))], dim=1)


def test_votes_of_a_model_that_has_changed_are_never_stored(tmp_path: Path) -> None:
    """Otherwise a resumed run could count them: the model that is loaded then is the promised one again."""
    smoothing = ss.Smoother(Learner(), "0.5", batch_size=10, independence="assumed").smoothing
    run = plan_run(LocalPool(smoothing), inputs(3), settings(n0=20, n=400), secret("s"))
    with open_store(tmp_path / "run.db", run) as store:
        with pytest.raises(ModelChangedError, match="the model changed"):
            list(certify_into(store, run))
        assert store.copies_voted() <= 100


class Doubtful:
    """Noise that leaves a doubt, unless it has to be sure."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def noisy(self, purpose: Purpose, x: np.ndarray, first: int, copies: int, sure: bool = False) -> Noisy:
        found = self._source.noisy(purpose, x, first, copies)
        return dataclasses.replace(found, doubt=None if sure else np.ones(1, np.int32))


class LateLearner(torch.nn.Module):
    """Changes a buffer with its fourth call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.left = 4

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.left -= 1
        self.calls.add_(self.left == 0)
        return torch.stack([x.flatten(1).mean(1), self.calls.expand(len(x))], dim=1)


@pytest.mark.parametrize("stored", [True, False])
def test_a_model_that_changes_when_it_is_asked_once_more_is_noticed(
    stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One batch of selection, one of estimation, each voted on twice: the last call comes after the usual look."""
    noise = VotingJob.noise
    monkeypatch.setattr(VotingJob, "noise", lambda *given: lambda index: Doubtful(noise(*given)(index)))
    smoothing = ss.Smoother(LateLearner(), "0.5", batch_size=20, independence="assumed").smoothing
    run = plan_run(LocalPool(smoothing), inputs(1), settings(n0=20, n=20), secret("s"))
    with pytest.raises(ModelChangedError, match="the model changed"):
        finished(tmp_path / "run.db", run) if stored else undisturbed(run)


def test_the_number_of_classes_may_not_change_between_blocks(tmp_path: Path) -> None:
    sizes = iter([3] * 9 + [4] * 1000)
    run = small_run(count=3, scores=lambda batch: np.zeros((len(batch), next(sizes))))
    with open_store(tmp_path / "run.db", run) as store:
        with pytest.raises(ModelChangedError, match=r"3 classes and now has 4|\[3, 4\]"):
            list(certify_into(store, run))
        assert store.classes() == 3
        with pytest.raises(ModelChangedError, match="3 classes and now has 4"):  # nor with the next start
            list(certify_into(store, run))


def test_several_workers_give_the_same(tmp_path: Path) -> None:
    smoothing = ss.Smoother(embedded.MODELS[Fraction(1, 4)], "0.25", threads=1, workers=3).smoothing
    run = plan_run(LocalPool(smoothing), load(embedded.IMAGES, grid=IMAGES, limit=7), settings(n=600), secret("s"))
    assert finished(tmp_path / "run.db", run) == undisturbed(run)


class Broken:
    """A model for several threads that fails on one image and changes its mind about the classes at the end."""

    batch = shape = place = None

    def __init__(self, fails: Callable[[np.ndarray], bool]) -> None:
        from soundsmooth.models.callables import CallableModel

        self._model, self._fails = CallableModel(brightness_of_three, "assumed"), fails

    def __getattr__(self, name: str) -> object:
        return getattr(self._model, name)

    def replica(self, number: int) -> "Broken":
        return self

    def vote(self, values: np.ndarray) -> object:
        if self._fails(values):
            raise RuntimeError("no")
        return self._model.vote(values)


def threaded(fails: Callable[[np.ndarray], bool]) -> RunPlan:
    from soundsmooth.noise import Gaussian
    from soundsmooth.smoothing.classifier import Smoothing

    smoothing = Smoothing.of(Broken(fails), Gaussian("0.5"), 10, 1, 3)
    return plan_run(LocalPool(smoothing), inputs(8), settings(n0=20, n=400), secret("kill", "ab" * 32))


def test_failures_in_threads_are_recorded_like_others(tmp_path: Path) -> None:
    run = threaded(lambda values: values.mean() < 0.3)
    with open_store(tmp_path / "run.db", run) as store:
        issued = list(certify_into(store, run))
        assert store.progress().failed == sum(isinstance(record, Failure) for record in issued) > 0
        assert store.progress().open == 0
    quiet = threaded(lambda values: False)
    assert finished(tmp_path / "run.db", quiet) == undisturbed(quiet)


def test_an_error_that_ends_the_run_ends_the_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = threaded(lambda values: False)

    def changed(*_: object) -> None:
        raise ModelChangedError("the model changed while it was certified")

    monkeypatch.setattr(VotingJob, "check_model", changed)
    with open_store(tmp_path / "run.db", run) as store:
        with pytest.raises(ModelChangedError):
            list(certify_into(store, run))
        assert store.copies_voted() == 0
    monkeypatch.undo()
    assert finished(tmp_path / "run.db", run) == undisturbed(run)


def test_a_run_left_in_the_middle_continues(noise: str, tmp_path: Path) -> None:
    """As Ctrl-C leaves it: in threads, ahead of the votes, or batch by batch."""
    for run in (small_run(noise, 8), dataclasses.replace(threaded(lambda values: False))):
        path = tmp_path / f"{len(run.pool.smoothing.replicas)}.db"
        with open_store(path, run) as store:
            work = certify_into(store, run)
            next(work)
            work.close()
            assert not store.db.one("SELECT COUNT(*) FROM claims")
            assert not store.db.one("SELECT COUNT(*) FROM owners")
        assert finished(path, run) == undisturbed(run)


@pytest.mark.parametrize("votes", [True, False])
@pytest.mark.parametrize(("independence", "refused"), [("checked", True), ("assumed", False)])
def test_a_model_that_reads_other_weights_today_is_refused(
    noise: str, independence: str, refused: bool, votes: bool, tmp_path: Path
) -> None:
    """The promise is the same, and blocks of two models in one certificate would be true of neither. A model whose
    independence is assumed may draw at random: nothing is compared.
    """
    weights, path = tmp_path / "weights.npy", tmp_path / "run.db"

    def model(batch: np.ndarray) -> np.ndarray:
        return brightness_of_three(batch) * np.load(weights)

    def run() -> RunPlan:
        smoothing = ss.Smoother(model, "0.5", batch_size=10, threads=1, independence=independence).smoothing
        return plan_run(LocalPool(smoothing), inputs(4), settings(n0=20, n=200, noise=noise), secret("a"))

    np.save(weights, 1.0)
    began = run()
    with open_store(path, began, votes) as store:
        work = certify_into(store, began)
        next(work)
        work.close()
        voted = store.copies_voted()
    np.save(weights, -1.0)
    later = run()
    assert later.promise == began.promise
    with open_store(path, later, votes) as store:
        if refused:
            with pytest.raises(ModelChangedError, match="votes otherwise than the one that began this run"):
                list(certify_into(store, later))
            assert store.copies_voted() == voted
            assert not store.db.one("SELECT COUNT(*) FROM owners")
        else:
            list(certify_into(store, later))
    np.save(weights, 1.0)
    assert len(finished(path, run(), votes=votes)) == 4


def test_the_model_is_compared_on_several_images_that_are_begun(tmp_path: Path) -> None:
    """Weights that change the votes on all images but the last: with batchwise noise all are open. Four of six are
    looked at, so that one with other votes always is among them. Nothing new is stored.
    """
    weights, path = tmp_path / "weights.npy", tmp_path / "run.db"

    def model(batch: np.ndarray) -> np.ndarray:
        scores = brightness_of_three(batch)
        return np.where(scores[:, :1] > -0.2, scores * np.load(weights), scores)  # bright rows vote as before

    def run() -> RunPlan:
        smoothing = ss.Smoother(model, "0.05", batch_size=10, threads=1, independence="checked").smoothing
        levels = [np.full((2, 2), 60, np.int16)] * 5 + [np.full((2, 2), 250, np.int16)]
        images = Inputs(tuple(range(6)), tuple(levels), (0,) * 6)
        return plan_run(LocalPool(smoothing), images, settings(n0=20, n=400, noise="batchwise"), secret("a"))

    np.save(weights, 1.0)
    began = run()
    with open_store(path, began) as store:
        with pytest.raises(KeyboardInterrupt):
            list(certify_into(store, began, advance=stop_after(20)))
        voted = store.copies_voted()
    assert 0 < voted < 6 * 420
    np.save(weights, -1.0)
    later = run()
    with open_store(path, later) as store:
        with pytest.raises(ModelChangedError, match="votes otherwise"):
            list(certify_into(store, later))
        assert store.copies_voted() == voted


def test_votes_that_another_process_has_stored_are_those_that_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took over a claim, and its device rounds otherwise: here all its votes for a class are for the next one."""
    run, add = looked_run(), Store.add_block

    def late(store: Store, place: int, block: VoteBlock, counts: Counts, *rest: Any) -> bool:
        if (place, block.first) == (1, 0):
            add(store, place, block, Counts((0, *counts.classes[:-1]), 0), *rest)
        return add(store, place, block, counts, *rest)

    monkeypatch.setattr(Store, "add_block", late)
    with open_store(tmp_path / "run.db", run) as store:
        found = list(certify_into(store, run))[1]
        assert {place for place, _ in store.findings()} == {found.index}
        votes = store.votes(1)
    assert (found.selection, found.estimation, found.looks) == (votes.selection, votes.estimation, votes.looks)


def stop_after(calls: int) -> Callable[[int], None]:
    """Ctrl-C, when so many blocks are stored."""
    left = iter(range(calls))

    def advance(_: int) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    return advance


def test_looking_ahead_changes_nothing(noise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: blocks are begun before the votes of the last ones are asked for, also when blocks fail."""
    monkeypatch.setattr(voter, "look_ahead", lambda worker: 4)
    run = small_run(noise, 8)
    assert finished(tmp_path / "run.db", run) == undisturbed(run)
    model = Faulty(below=0.4)
    failing = small_run(noise, 8, model)
    with open_store(tmp_path / "failing.db", failing) as store:
        list(certify_into(store, failing))
        assert store.progress().failed
        assert store.progress().open == 0
    model.times = 0
    assert finished(tmp_path / "failing.db", failing) == undisturbed(failing)


def test_waiting_for_another_process_and_taking_over_when_it_is_gone(tmp_path: Path) -> None:
    """Another machine holds an image and goes silent: it is waited for until its claim expires."""
    run, clock = small_run(count=3), [0.0]
    me = LeaseHolder.me()
    away = LeaseHolder("away", "elsewhere", me.boot, 1, "1")
    with open_store(tmp_path / "run.db", run) as store:
        other = Leases(store, LeaseClock(now=lambda: 0.0), away)
        other.__enter__()
        assert other.take() == [0]

        def sleep(seconds: float) -> None:
            clock[0] += 50

        issued = list(certify_into(store, run, clock=LeaseClock(monotonic=lambda: clock[0], sleep=sleep)))
        assert [record.index for record in issued] == [8, 11, 5]
        assert clock[0] == 300
        assert [without_time(certificate) for certificate in store.certificates()] == undisturbed(run)


def test_blocks_under_different_software_are_a_finding(tmp_path: Path) -> None:
    run = small_run(count=2)
    with open_store(tmp_path / "run.db", run) as store:
        work = certify_into(store, run)
        next(work)
        work.close()
        store.db.execute('UPDATE environments SET text = \'{"torch": "one"}\'')  # as if it had been another version
        assert not list(store.findings())
    later = dataclasses.replace(run, survey=dataclasses.replace(run.survey, environment={"torch": "another"}))
    with open_store(tmp_path / "run.db", later) as store:
        store.db.execute("DELETE FROM certificates")
        store.db.execute("DELETE FROM blocks WHERE first = 40")
        store.db.execute("UPDATE images SET state = 0")
        list(certify_into(store, later))
        assert [text for _, text in store.findings()] == [
            "its blocks were voted under different versions of software or machines"
        ]


def test_what_failed_here_and_was_opened_again_elsewhere_is_tried_again(tmp_path: Path) -> None:
    """Another process starts, and with it the failed images are open again: nobody waits for himself."""
    model, run = faulty_run(below=0.4)
    with open_store(tmp_path / "run.db", run) as store:
        for record in certify_into(store, run):
            if isinstance(record, Failure):
                store.reopen_failures()
                model.times = min(model.times, 4)
        assert [without_time(certificate) for certificate in store.certificates()] == healthy()


def test_numbers_of_images_name_the_noise_not_their_places(tmp_path: Path) -> None:
    run = small_run(count=4)
    alone = Inputs(run.inputs.indices[2:3], run.inputs.levels[2:3], run.inputs.labels[2:3])
    other = plan_run(LocalPool(run.pool.smoothing), alone, run.settings, run.secret)
    assert finished(tmp_path / "run.db", other)[0].index == run.inputs.indices[2]


def test_a_failure_while_the_model_is_compared_ends(tmp_path: Path) -> None:
    """Three threads continue a run. An image fails while its stored block is voted again: the run goes on and ends."""
    run = replace_independence(threaded(lambda values: False))
    with open_store(tmp_path / "run.db", run) as store:
        work = certify_into(store, run)
        next(work)
        work.close()
        assert store.begun_blocks(4)
    failing = replace_independence(threaded(lambda values: values.mean() < 0.45))
    waited: list[float] = []
    pace = LeaseClock(sleep=waited.append)
    with open_store(tmp_path / "run.db", failing) as store:
        issued = list(certify_into(store, failing, clock=pace))
        assert any(isinstance(record, Failure) for record in issued)
        assert store.progress().open == 0
    assert not waited
    quiet = replace_independence(threaded(lambda values: False))
    assert len(finished(tmp_path / "run.db", quiet)) == 8


def replace_independence(run: RunPlan) -> RunPlan:
    """The same run as one whose model is compared when it is continued."""
    for replica in run.pool.smoothing.replicas:
        replica.model._model.demand = CHECKED
    return plan_run(run.pool, run.inputs, run.settings, run.secret, try_rows=False)
