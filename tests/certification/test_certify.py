"""Algorithm 2, step by step: which copies vote, whose votes count, and what the counts prove."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch

import soundsmooth as ss
from classifiers import brightness
from issuing import issue
from soundsmooth.certification.certify import Counts, certify
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import settings
from soundsmooth.core.grid import IMAGES
from soundsmooth.exact import (
    clopper_pearson_above,
    clopper_pearson_below,
    hoeffding_below,
    radius_below,
    radius_two_below,
)
from soundsmooth.exact.balls import float_above
from soundsmooth.models.callables import CallableModel
from soundsmooth.noise import Gaussian, Keystream, Noisy, Purpose, Sampler
from soundsmooth.noise.sources import FreshNoise, SharedNoise
from soundsmooth.smoothing import voting as votings
from soundsmooth.smoothing.voting import Voting, sample_under_noise

KEY = bytes(range(32))
IMAGE = np.arange(12, dtype=np.int16).reshape(3, 2, 2) * 20


class Recorder:
    """A classifier that keeps what it saw and votes by the sign of the first coordinate."""

    def __init__(self) -> None:
        self.batches: list[np.ndarray] = []

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        self.batches.append(batch)
        first = batch.reshape(len(batch), -1)[:, 0]
        return np.stack([-first, first], axis=1)


def fresh(sigma: str = "0.5", stream: int = 0) -> FreshNoise:
    return FreshNoise(Sampler(Gaussian(sigma), 1), KEY, stream)


def votes(scores: Callable, n: int, batch: int, noise: object | None = None) -> Counts:
    return sample_under_noise(
        Voting(CallableModel(scores), batch, {}), noise or fresh(), IMAGE, Purpose.ESTIMATION, range(n)
    )


def test_the_model_sees_the_noisy_copies_in_order() -> None:
    seen = Recorder()
    votes(seen, 10, 5)
    a_law = Gaussian("0.5")
    noise = Sampler(a_law, 1).noise(Keystream(KEY, Purpose.ESTIMATION, 0), 0, 10, 12).levels.reshape(10, 3, 2, 2)
    expected = IMAGES.values(np.clip(noise.astype(int) + IMAGE, a_law.lowest, a_law.highest))
    assert np.array_equal(np.concatenate(seen.batches), expected)


def test_every_batch_has_the_same_shape_and_filling_votes_are_dropped() -> None:
    """Copies 10 and 11 fill the last batch; a classifier that votes 1 only for them gets no vote."""
    seen = Recorder()
    counts = votes(seen, 10, 4)
    assert [batch.shape for batch in seen.batches] == [(4, 3, 2, 2)] * 3
    assert counts.total == 10
    filling = seen.batches[2][2:]

    def only_filling(batch: np.ndarray) -> np.ndarray:
        hit = np.array([any(np.array_equal(row, extra) for extra in filling) for row in batch])
        return np.stack([~hit, hit], axis=1).astype(float)

    assert votes(only_filling, 10, 4).classes == (10, 0)
    assert votes(only_filling, 12, 4).classes == (10, 2)


@pytest.mark.parametrize("batch", [1, 3, 7, 50, 64])
def test_the_batch_split_changes_nothing(batch: int) -> None:
    assert votes(Recorder(), 50, batch) == votes(Recorder(), 50, 50)


def test_selection_and_estimation_have_different_noise() -> None:
    voting = Voting(CallableModel(Recorder()), 1000, {})
    one = sample_under_noise(voting, fresh(), IMAGE, Purpose.SELECTION, range(1000))
    two = sample_under_noise(voting, fresh(), IMAGE, Purpose.ESTIMATION, range(1000))
    assert one != two


def test_nan_votes_for_nobody_and_counts_in_n() -> None:
    def sometimes_nan(batch: np.ndarray) -> np.ndarray:
        scores = np.tile([0.0, 1.0], (len(batch), 1))
        scores[::2, 0] = np.nan
        return scores

    assert votes(sometimes_nan, 10, 10) == Counts((0, 5), 5)


class LosingNoise:
    """Noise in which the copies 1 and 6 were lost (undecided after the last level of bits)."""

    def noisy(self, purpose: Purpose, x: np.ndarray, first: int, copies: int, sure: bool = False) -> Noisy:
        lost = tuple(i - first for i in (1, 6) if first <= i < first + copies)
        return Noisy(np.zeros((copies, *x.shape), np.float32), lost)


@pytest.mark.parametrize("batch", [1, 4, 10])
def test_lost_copies_vote_for_nobody(batch: int) -> None:
    assert votes(lambda b: np.tile([0.0, 1.0], (len(b), 1)), 10, batch, LosingNoise()) == Counts((0, 8), 2)


def vandal(batch: np.ndarray) -> np.ndarray:
    """Votes honestly, then destroys what it was given."""
    scores = Recorder()(batch.copy())
    batch[...] = np.nan
    return scores


def hoarder() -> Callable:
    """Keeps every batch it was given, and spoils the earlier ones while it votes on the next."""
    kept: list[np.ndarray] = []

    def classify(batch: np.ndarray) -> np.ndarray:
        for old in kept:
            old[...] = 7
        kept.append(batch)
        return Recorder()(batch)

    return classify


def test_no_way_leads_from_a_batch_to_rows_that_have_not_voted() -> None:
    """Batches of one block are made together, but the model gets a copy: its memory holds nothing else."""

    def reaches(batch: np.ndarray) -> np.ndarray:
        assert batch.base is None or batch.base.size == batch.size
        root = batch if batch.base is None else batch.base
        scores = Recorder()(batch.copy())
        root[...] = 0
        return scores

    assert votes(reaches, 60, 10) == votes(Recorder(), 60, 10)


@pytest.mark.parametrize("make", [lambda: vandal, hoarder], ids=["writes in place", "keeps views"])
@pytest.mark.parametrize("shared", [False, True], ids=["fresh", "shared"])
def test_a_model_that_writes_into_its_batch_spoils_nothing(make: Callable, shared: bool) -> None:
    def source() -> object:
        return SharedNoise(Sampler(Gaussian("0.5"), 1), KEY) if shared else fresh()

    noise = source()
    assert votes(make(), 50, 10, noise) == votes(Recorder(), 50, 10, source())
    assert votes(Recorder(), 50, 10, noise) == votes(Recorder(), 50, 10, source())  # the kept noise is unharmed


def test_shared_noise_is_read_only() -> None:
    noise = SharedNoise(Sampler(Gaussian("0.5"), 1), KEY)
    noise.noisy(Purpose.ESTIMATION, IMAGE, 0, 3)
    (kept,) = noise._kept.values()
    with pytest.raises(ValueError, match="read-only"):
        kept.levels[0, 0] = 1


SIGMA = Fraction(1, 2)
LAW = Gaussian(SIGMA)


def test_verdict_from_the_winner_alone() -> None:
    found = certify(Counts((2, 8, 0), 0), Counts((100, 890, 5), 5), LAW, settings(n=1000))
    p = clopper_pearson_below(890, 1000, Fraction(1, 1000))
    assert (found.label, found.p_lower, found.p_upper, found.radius) == (1, p, None, radius_below(p, SIGMA))


def test_verdict_by_hoeffding() -> None:
    found = certify(Counts((2, 8), 0), Counts((100, 900), 0), LAW, settings(n=1000, bound="hoeffding"))
    assert found.p_lower == hoeffding_below(900, 1000, Fraction(1, 1000))


def test_ties_between_counts_fall_to_the_lowest_class() -> None:
    assert Counts((3, 5, 5, 1), 9).top == 1
    assert certify(Counts((50, 50), 0), Counts((1000, 0), 0), LAW, settings(n=1000)).label == 0


def test_the_label_is_the_one_that_selection_chose() -> None:
    """Even when estimation prefers another class: choosing after the fact would cost more than α."""
    found = certify(Counts((6, 4), 0), Counts((10, 990), 0), LAW, settings(n=1000))
    assert found.label is None
    assert found.p_lower == clopper_pearson_below(10, 1000, Fraction(1, 1000))


@pytest.mark.parametrize("nobody", [0, 300])
def test_runner_up_is_the_most_frequent_of_all_others_nobody_included(nobody: int) -> None:
    counts = Counts((150, 500 - nobody + 150, 200, 0), nobody)
    found = certify(Counts((0, 9, 0, 0), 0), counts, LAW, settings(n=1000, bound="runner-up"))
    half = Fraction(1, 2000)
    p_lower = clopper_pearson_below(counts.classes[1], 1000, half)
    p_upper = clopper_pearson_above(max(200, nobody), 1000, half)
    assert (found.p_lower, found.p_upper) == (p_lower, p_upper)
    if p_lower > p_upper:
        assert found.radius == radius_two_below(p_lower, p_upper, SIGMA)
    else:
        assert found.label is None


@pytest.mark.parametrize("hits", [600, 750, 990, 1000])
def test_runner_up_never_exceeds_what_the_winner_leaves(hits: int) -> None:
    """With two classes both bounds on the loser are the same number, up to their rounding: the smaller counts."""
    found = certify(Counts((9, 0), 0), Counts((hits, 1000 - hits), 0), LAW, settings(n=1000, bound="runner-up"))
    above = clopper_pearson_above(1000 - hits, 1000, Fraction(1, 2000))
    assert found.p_upper == min(above, float_above(1 - Fraction(found.p_lower)))


def test_runner_up_can_certify_below_one_half() -> None:
    found = certify(
        Counts((9, 0, 0, 0), 0), Counts((4500, 2000, 1800, 1700), 0), LAW, settings(n=10_000, bound="runner-up")
    )
    assert found.label == 0
    assert found.p_lower < 0.5
    assert found.radius > 0


@pytest.mark.parametrize("bound", ["clopper-pearson", "hoeffding", "runner-up"])
def test_abstention_claims_nothing(bound: str) -> None:
    found = certify(Counts((5, 5), 0), Counts((505, 495), 0), LAW, settings(n=1000, bound=bound))
    assert (found.label, found.radius) == (None, 0.0)


def test_only_nobody_abstains() -> None:
    found = certify(Counts((0, 0), 10), Counts((0, 0), 1000), LAW, settings(n=1000))
    assert found.label is None


def three_images() -> Inputs:
    images = tuple(np.full((2, 2), level, np.int16) for level in (60, 128, 200))
    return Inputs((3, 10, 17), images, (0, 0, 1))


def run(noise: str, batch: int = 100) -> list[ss.Certificate]:
    smooth = ss.Smoother(brightness, "0.5", batch_size=batch)
    return list(issue(smooth.smoothing, three_images(), settings(n=950, noise=noise), secret("s")))


def test_streams_are_the_indices_in_the_data_set() -> None:
    smooth = ss.Smoother(brightness, "0.5")
    for certificate, x in zip(run("fresh"), three_images().levels, strict=True):
        key = secret("s").key(certificate.promise)
        noise = FreshNoise(smooth.smoothing.replicas[0].sampler, key, certificate.index)
        voting = Voting(smooth.smoothing.model, 100, {})
        assert certificate.selection == sample_under_noise(voting, noise, x, Purpose.SELECTION, range(100))
        assert certificate.estimation == sample_under_noise(voting, noise, x, Purpose.ESTIMATION, range(950))


def test_shared_and_batchwise_are_the_same_noise() -> None:
    """The promise differs in the mode, so the keys do too: compare under one key."""
    smooth = ss.Smoother(brightness, "0.5").smoothing
    sampler = smooth.replicas[0].sampler
    kept, last_only = SharedNoise(sampler, KEY), SharedNoise(sampler, KEY, keep=1)
    voting = Voting(smooth.model, 100, {})
    for x in three_images().levels:
        one = sample_under_noise(voting, kept, x, Purpose.ESTIMATION, range(950))
        assert one == sample_under_noise(voting, last_only, x, Purpose.ESTIMATION, range(950))
        assert one != sample_under_noise(voting, FreshNoise(sampler, KEY, 0), x, Purpose.ESTIMATION, range(950))
    assert len(last_only._kept) == 1


def test_batchwise_gives_what_shared_noise_gives() -> None:
    smooth = ss.Smoother(brightness, "0.5").smoothing
    for certificate, x in zip(run("batchwise"), three_images().levels, strict=True):
        noise = SharedNoise(smooth.replicas[0].sampler, secret("s").key(certificate.promise))
        voting = Voting(smooth.model, 100, {})
        assert certificate.selection == sample_under_noise(voting, noise, x, Purpose.SELECTION, range(100))
        assert certificate.estimation == sample_under_noise(voting, noise, x, Purpose.ESTIMATION, range(950))
    for certificate, x in zip(run("shared"), three_images().levels, strict=True):
        noise = SharedNoise(smooth.replicas[0].sampler, secret("s").key(certificate.promise))
        assert certificate.estimation == sample_under_noise(voting, noise, x, Purpose.ESTIMATION, range(950))


class Learner(torch.nn.Module):
    """Keeps a running mean over its calls, in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.9).add_(0.1 * x.mean())
        return torch.stack([x.flatten(1).mean(1), self.mean.expand(len(x))], dim=1)


def test_a_module_whose_buffers_change_gets_no_certificate() -> None:
    with pytest.raises(ValueError, match="the model changed while it was certified"):
        ss.Smoother(Learner(), "0.5", independence="assumed").certify(np.zeros((1, 2, 2), np.uint8), n=200)


def test_nor_a_prediction() -> None:
    """It would be the answer of none of the models that voted, under the digest of the first."""
    with pytest.raises(ValueError, match="the model changed while it was asked"):
        ss.Smoother(Learner(), "0.5", independence="assumed").predict(np.zeros((1, 2, 2), np.uint8), n=200)


class Switcher(torch.nn.Module):
    """Toggles a kernel flag from inside its forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.set_num_threads(torch.get_num_threads() + 1)
        return x.flatten(1)[:, :2]


@pytest.mark.parametrize(
    ("batch_size", "in_a_run", "message"),
    [(10, False, "kernel flags changed"), (100, False, "the model changed"), (100, True, "the model changed")],
)
def test_kernel_flags_that_change_during_the_run_are_an_error(batch_size: int, in_a_run: bool, message: str) -> None:
    """With the next batch, if one is left of the block; else when the block is finished."""
    before, image = torch.get_num_threads(), np.zeros((1, 2, 2), np.uint8)
    smooth = ss.Smoother(Switcher(), "0.5", batch_size=batch_size, independence="assumed")
    try:
        with pytest.raises(ValueError, match=message):
            smooth.certify_all([image], n=400) if in_a_run else smooth.certify(image, n=400)
    finally:
        torch.set_num_threads(before)


def test_of_a_module_that_is_proved_the_graph_runs_and_not_its_python() -> None:
    """What its forward does besides computing is done once, when the graph is made."""
    before = torch.get_num_threads()
    try:
        record = ss.Smoother(Switcher(), "0.5").certify(np.zeros((1, 2, 2), np.uint8), n=200)
        assert torch.get_num_threads() > before
    finally:
        torch.set_num_threads(before)
    assert record.promise.values["independence"] == "proved"
    assert "runs=exported-graph" in record.promise.values["flags"]


def test_what_is_not_proved_is_refused_on_demand() -> None:
    image = np.zeros((1, 2, 2), np.uint8)
    with pytest.raises(ValueError, match="cannot be proved for this module"):
        ss.Smoother(Learner(), "0.5", independence="proved").certify(image, n=200)
    assert ss.Smoother(Switcher(), "0.5", independence="proved").certify(image, n=200).estimation.total == 200


def test_reseeding_the_frameworks_generators_changes_nothing() -> None:
    """Ledger, row 4: the noise never enters a generator that the model can reach."""

    def reseeds(batch: np.ndarray) -> np.ndarray:
        np.random.seed(0)
        torch.manual_seed(0)
        return Recorder()(batch)

    assert votes(reseeds, 500, 10) == votes(Recorder(), 500, 10)


def test_an_error_inside_the_model_stops_the_certification() -> None:
    """Ledger, row 16: no vote is dropped and no new noise is drawn to get around a failing batch."""

    def fails(batch: np.ndarray) -> np.ndarray:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        votes(fails, 10, 10)


def test_a_module_whose_buffers_change_gets_no_batchwise_certificates() -> None:
    smooth = ss.Smoother(Learner(), "0.5", independence="assumed")
    with pytest.raises(ValueError, match="the model changed while it was certified"):
        list(smooth.certify_all(np.zeros((2, 1, 2, 2), np.uint8), n=200, noise="batchwise"))


class HiddenLearner(Learner):
    """The same, in a buffer that is not saved with the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1), persistent=False)


def test_buffers_that_are_not_saved_are_watched_too() -> None:
    with pytest.raises(ValueError, match="the model changed while it was certified"):
        ss.Smoother(HiddenLearner(), "0.5", independence="assumed").certify(np.zeros((1, 2, 2), np.uint8), n=200)


class LateSwitcher(torch.nn.Module):
    """Toggles a kernel flag in its last batch only, when no further batch would notice."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        LateSwitcher.calls += 1
        if LateSwitcher.calls == 4:  # one row for the classes, one batch of selection, two of estimation
            torch.set_num_threads(torch.get_num_threads() + 1)
        return x.flatten(1)[:, :2]


def test_flags_are_checked_after_the_last_batch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LateSwitcher, "calls", 0)
    before = torch.get_num_threads()
    smooth = ss.Smoother(LateSwitcher(), "0.5", batch_size=100, independence="assumed")
    try:
        with pytest.raises(ValueError, match="the model changed"):
            smooth.certify(np.zeros((1, 2, 2), np.uint8), n=200)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("dtype", "name"), [(None, "float32"), ("bf16", "bfloat16")])
def test_precision_device_and_flags_are_promised(dtype: str | None, name: str) -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    promise = ss.Smoother(network, "0.5", dtype=dtype).certify(np.zeros((1, 2, 2), np.uint8), n=100).promise.values
    assert (promise["precision"], promise["device"]) == (name, "cpu")
    assert f"threads={torch.get_num_threads()}" in promise["flags"].split()


def test_prediction_draws_from_the_same_law_with_its_own_bits() -> None:
    """Ledger, row 14: what `predict` shows the model are the copies of purpose 2 under the disclosed key."""
    seen = Recorder()
    smooth = ss.Smoother(seen, "0.5", batch_size=50, threads=1)
    key = bytes.fromhex(smooth.predict(IMAGE, n=50).key)
    expected = smooth.smoothing.replicas[0].sampler.noisy(Keystream(key, Purpose.PREDICTION, 0), IMAGE, 0, 50).values
    assert np.array_equal(np.concatenate(seen.batches), expected)


def test_a_model_with_more_classes_in_estimation_is_refused() -> None:
    smooth = ss.Smoother(lambda b: np.zeros((len(b), 3 if len(b) == 100 else 2)), "0.5", independence="assumed")
    with pytest.raises(ValueError, match="had 2 classes and now has 3"):
        smooth.certify(IMAGE.astype(np.uint8), n0=50, n=100)


def test_the_number_of_classes_may_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    for elements in (1, 1 << 19):  # in another block, and within one
        monkeypatch.setattr(votings, "BLOCK_ELEMENTS", elements)
        sizes = iter([2, 3])
        with pytest.raises(ValueError, match=r"2 classes and now has 3|between batches: \[2, 3\]"):
            votes(lambda b, sizes=sizes: np.zeros((len(b), next(sizes))), 20, 10)


@pytest.mark.parametrize("elements", [1, 100, 12 * 3 * 7, 1 << 19])
@pytest.mark.parametrize(("n", "batch"), [(50, 7), (50, 50), (3, 10), (100, 1)])
def test_blocks_change_nothing(n: int, batch: int, elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many batches get their noise together: the same copies, in the same batches, with the same votes."""
    one, many = Recorder(), Recorder()
    counts = votes(one, n, batch)
    monkeypatch.setattr(votings, "BLOCK_ELEMENTS", elements)
    assert votes(many, n, batch) == counts
    assert len(one.batches) == len(many.batches)
    assert all(np.array_equal(a, b) for a, b in zip(one.batches, many.batches, strict=True))
