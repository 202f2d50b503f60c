"""Certification with noise and votes on the device: the counts of the CPU, doubts voted again, losses for nobody.

Without a GPU a torch model on the CPU stands in: it asks for its batches as tensors and leaves its votes as tensors.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from soundsmooth.certification.certify import Counts
from soundsmooth.certification.settings import settings
from soundsmooth.core import cuda_streams
from soundsmooth.core.machine import InputPlacement
from soundsmooth.models import Votes
from soundsmooth.models.callables import CallableModel
from soundsmooth.models.torch_module import TorchModel
from soundsmooth.noise import SHARED_STREAM, Gaussian, GpuSampler, Keystream, Law, Noisy, Purpose, Sampler
from soundsmooth.noise.keystream import LAST_LEVEL
from soundsmooth.noise.sources import CopyRange, FreshNoise, SharedNoise
from soundsmooth.smoothing.voting import PendingVotes, Voting, counted, sample_under_noise, vote_on_copies
from tied_laws import beginning, forced

GPU = torch.cuda.is_available()
DEVICE = "cuda:0" if GPU else "cpu"
KEY, STREAM = bytes(range(32)), 3
IMAGE = (np.arange(48) * 5 % 256).astype(np.int16).reshape(3, 4, 4)
SETTINGS = settings(n0=10, n=25)
BATCH = 10
HALF = Gaussian("1/2")


class FirstCoordinate(torch.nn.Module):
    """Exact on any device: a copy votes by its first coordinate."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = x.flatten(1)[:, 0]
        return torch.stack([0.25 - first, first - 0.25], dim=1)


class OnDevice(TorchModel):
    """A model that reads and votes on its device; on the CPU it behaves as if that were a GPU."""

    @property
    def placement(self) -> InputPlacement:
        return InputPlacement(str(self._device), self._precision, self._channels_last)

    def vote(self, values: Any) -> Votes:
        assert isinstance(values, torch.Tensor)
        labels, classes = super().vote(values)
        with torch.inference_mode():
            return Votes(torch.as_tensor(labels, device=self._device), classes)


def counts(model: Any, noise: Any, x: np.ndarray, batch: int = BATCH) -> tuple[Counts, Counts]:
    voting = Voting(model, batch, model.flags())
    return both(voting, noise, x)


def both(voting: Voting, noise: Any, x: np.ndarray) -> tuple[Counts, Counts]:
    """Selection, then estimation."""
    samples = ((Purpose.SELECTION, SETTINGS.n0), (Purpose.ESTIMATION, SETTINGS.n))
    selection, estimation = (sample_under_noise(voting, noise, x, purpose, range(n)) for purpose, n in samples)
    return selection, estimation


def on_device(**options: Any) -> OnDevice:
    return OnDevice(FirstCoordinate(), DEVICE, **options)


def on_cpu(a_law: Law, x: np.ndarray, stream: int = STREAM) -> tuple[Counts, Counts]:
    """What the CPU counts, with NumPy alone."""
    return counts(TorchModel(FirstCoordinate(), "cpu"), FreshNoise(Sampler(a_law, 1), KEY, stream), x)


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch, quick_interpreter: None) -> None:
    """Fewer places for undecided elements make the interpreter quicker."""
    monkeypatch.setattr("soundsmooth.noise.gpu.FEW_UNDECIDED", 2)


@pytest.mark.parametrize(
    ("options", "batch"), [({}, 4), ({"channels_last": True}, 10), ({"channels_last": True}, 25)], ids=str
)
def test_the_same_counts_as_on_the_cpu(options: Mapping[str, Any], batch: int) -> None:
    """Fresh and shared noise, batches that fill up and batches that do not."""
    model, a_law = on_device(**options), Gaussian("1/2")
    sampler = GpuSampler(a_law, model.placement, threads=1)
    assert counts(model, FreshNoise(sampler, KEY, STREAM), IMAGE, batch) == on_cpu(a_law, IMAGE)
    if batch == 10:
        shared = SharedNoise(sampler, KEY)
        for x in (IMAGE, 255 - IMAGE):
            assert counts(model, shared, x, batch) == on_cpu(a_law, x, SHARED_STREAM)


def test_what_a_user_has_set_in_torch_changes_no_count() -> None:
    """The device and the type of new tensors, and inference mode. On a CPU a device without memory stands for a GPU."""
    usual, a_law = torch.get_default_dtype(), Gaussian("1/2")
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device(DEVICE if GPU else "meta"), torch.inference_mode():
            model = on_device()
            noise = FreshNoise(GpuSampler(a_law, model.placement, threads=1), KEY, STREAM)
            assert counts(model, noise, IMAGE) == on_cpu(a_law, IMAGE)
    finally:
        torch.set_default_dtype(usual)


class Doubtful:
    """Noise of which one request of estimation is wrong and in doubt, unless it has to be sure."""

    def __init__(self, wrong_from: int, doubt: int = 1) -> None:
        self._exact = FreshNoise(Sampler(Gaussian("1/2"), 1), KEY, STREAM)
        self._wrong_from, self._doubt = wrong_from, doubt
        self.asked: list[tuple[Purpose, int, int, bool]] = []

    def noisy(self, purpose: Purpose, x: np.ndarray, first: int, copies: int, sure: bool = False) -> Noisy:
        self.asked.append((purpose, first, copies, sure))
        exact = self._exact.noisy(purpose, x, first, copies)
        if sure:
            return exact
        wrong = self._doubt and purpose == Purpose.ESTIMATION and first == self._wrong_from
        return Noisy(exact.values + 9 * wrong, exact.lost, np.int32(self._doubt if wrong else 0))


def by_first_coordinate(batch: np.ndarray) -> np.ndarray:
    first = batch.reshape(len(batch), -1)[:, 0]
    return np.stack([0.25 - first, first - 0.25], axis=1)


@pytest.mark.parametrize("wrong_from", [0, 10, 20])
def test_a_doubtful_batch_is_voted_again(monkeypatch: pytest.MonkeyPatch, wrong_from: int) -> None:
    """The same copies of the same purpose, now sure; selection, which was not in doubt, is left alone."""
    monkeypatch.setattr("soundsmooth.smoothing.voting.BLOCK_ELEMENTS", 1)
    model, noise = CallableModel(by_first_coordinate), Doubtful(wrong_from)
    assert both(Voting(model, BATCH, {}), noise, IMAGE) == on_cpu(Gaussian("1/2"), IMAGE)
    blocks = [(Purpose.ESTIMATION, first, 10) for first in (0, 10, 20)]
    once = [(Purpose.SELECTION, 0, 10, False), *((*block, False) for block in blocks)]
    assert noise.asked == [*once, *((*block, True) for block in blocks)]


def test_without_a_doubt_nothing_is_voted_again() -> None:
    noise = Doubtful(0, doubt=0)
    assert counts(CallableModel(by_first_coordinate), noise, IMAGE) == on_cpu(Gaussian("1/2"), IMAGE)
    assert not any(sure for *_, sure in noise.asked)


def estimation(stream: int) -> Keystream:
    return Keystream(KEY, Purpose.ESTIMATION, stream)


@pytest.mark.parametrize("shared", [False, True], ids=["fresh", "shared"])
def test_a_tie_of_96_bits_through_the_whole_certification(shared: bool) -> None:
    """The GPU raises its flag, the CPU decides, and the counts are the CPU's. Shared noise is made again once."""
    x, stream = np.zeros((1, 4, 4), np.int16), SHARED_STREAM if shared else STREAM
    a_law = forced(beginning(estimation(stream), 7 * 16, 2, -1), Fraction(1, 3), Fraction(1, 2), Fraction(3, 4))
    model = on_device()
    sampler = GpuSampler(a_law, model.placement, threads=1)
    noise = SharedNoise(sampler, KEY) if shared else FreshNoise(sampler, KEY, STREAM)
    assert noise.noisy(Purpose.ESTIMATION, x, 0, 30).doubt.item() > 0
    assert counts(model, noise, x) == on_cpu(a_law, x, stream)
    if shared:
        assert counts(model, noise, x) == on_cpu(a_law, x, stream)
        assert [kept.doubt is None for kept in noise._kept.values()] == [True, False]  # estimation is sure by now


@pytest.mark.parametrize(("shared", "batch"), [(False, 25), (True, 25), (True, 4)])
@pytest.mark.slow("Triton's interpreter, and ties of 16352 bits")
def test_lost_copies_vote_for_nobody(shared: bool, batch: int) -> None:
    """Copies 1 and 6 stay undecided after the last level of bits: two votes fewer, in one batch or in several."""
    x, stream = np.zeros((1, 4, 4), np.int16), SHARED_STREAM if shared else STREAM
    a_law = forced(*(beginning(estimation(stream), copy * 16 + 3, LAST_LEVEL) for copy in (1, 6)), Fraction(1, 2))
    model = on_device()
    sampler = GpuSampler(a_law, model.placement, threads=1)
    noise = SharedNoise(sampler, KEY) if shared else FreshNoise(sampler, KEY, STREAM)
    found = counts(model, noise, x, batch)
    assert found[1].nobody == 2
    assert found == on_cpu(a_law, x, stream)


def test_votes_of_inference_mode_stand_in_for_a_gpus() -> None:
    """The stand-in above leaves what a GPU leaves: tensors that torch refuses to write to."""
    labels = on_device().vote(torch.zeros(2, 1, 2, 2, device=DEVICE)).labels
    assert labels.is_inference()
    assert labels.device == torch.device(DEVICE)


@pytest.mark.skipif(not GPU, reason="only a GPU can be waited for")
@pytest.mark.parametrize("compilation", ["none", "cuda-graph"])
def test_nothing_waits_for_the_gpu_before_the_counts(compilation: str) -> None:
    """Sampling, voting and counting are queued: torch would raise an error at any synchronisation."""
    model, a_law = TorchModel(FirstCoordinate(), DEVICE, compilation=compilation), Gaussian("1/2")
    assert model.placement is not None
    noise = FreshNoise(GpuSampler(a_law, model.placement), KEY, STREAM)
    voting = Voting(model, BATCH, model.flags())
    copies = [CopyRange(noise, IMAGE, Purpose.ESTIMATION, range(25))]

    PendingVotes(voting, copies).votes()  # compiles, records and uploads
    torch.cuda.set_sync_debug_mode("error")
    try:
        votes = PendingVotes(voting, copies)
        changed = model.changes()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    (found,) = votes.votes()
    assert counted(found) == on_cpu(a_law, IMAGE)[1]
    assert not changed()


class Slow(FirstCoordinate):
    """Votes by the first coordinate after work that keeps a GPU busy for some milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.eye(2048))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        busy = self.weights
        for _ in range(20):
            busy = busy @ self.weights
        return super().forward(x) * busy[0, 0]


@pytest.mark.skipif(not GPU, reason="only a GPU has two streams")
def test_noise_that_is_made_ahead_overwrites_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 batches in two streams, whose memory is used again and again, against one: the same votes, copy by copy."""
    monkeypatch.setattr("soundsmooth.smoothing.voting.BLOCK_ELEMENTS", 1)
    model, a_law = TorchModel(Slow(), DEVICE), Gaussian("1/2")
    assert model.placement is not None
    noise, voting = FreshNoise(GpuSampler(a_law, model.placement), KEY, STREAM), Voting(model, 500, model.flags())
    x = np.tile(IMAGE, (1, 16, 16))

    def labels() -> list[int]:
        parts = list(vote_on_copies(voting, [CopyRange(noise, x, Purpose.ESTIMATION, range(20_000))]))
        return torch.cat([votes.labels for votes, _ in parts]).tolist()

    two = [labels() for _ in range(3)]

    def in_turn(
        _: object, requests: Iterable[Callable[[], Noisy]], work: cuda_streams.Work, ahead: bool
    ) -> Iterator[Any]:
        return cuda_streams.overlap(None, requests, work)

    monkeypatch.setattr("soundsmooth.smoothing.voting.overlap", in_turn)
    one = labels()
    assert len({*one}) == 2
    assert two == [one] * 3


# --- several images in one batch -------------------------------------------------------------------------------


def three_ranges(
    sources: list[Any], starts: tuple[int, ...] = (3, 0, 40), purpose: Purpose = Purpose.ESTIMATION
) -> list[CopyRange]:
    """For images whose votes differ."""
    images = [np.roll(IMAGE, place) for place in range(3)]
    spans = [range(start, start + count) for start, count in zip(starts, (4, 9, 2), strict=True)]
    return [CopyRange(*each[:2], purpose, each[2]) for each in zip(sources, images, spans, strict=True)]


def voted(model: Any, ranges: list[CopyRange], sure: bool = False) -> list[list[int]]:
    voting = Voting(model, BATCH, model.flags())
    return [np.asarray(votes.labels).tolist() for votes in PendingVotes(voting, ranges, sure).votes()]


def by_numpy(ranges: list[CopyRange], a_law: Law = HALF) -> list[list[int]]:
    """What the CPU makes of each range alone."""
    model, found = TorchModel(FirstCoordinate(), "cpu"), []
    for each in ranges:
        noise = FreshNoise(Sampler(a_law, 1), each.noise.key, getattr(each.noise, "stream", SHARED_STREAM))
        found += voted(model, [each._replace(noise=noise)])
    return found


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests were made at once, each time that there were several."""
    found, make = list[int](), GpuSampler.noisy_together

    def noted(sampler: GpuSampler, requests: Any) -> Any:
        found.extend([len(requests)] if len(requests) > 1 else [])
        return make(sampler, requests)

    monkeypatch.setattr(GpuSampler, "noisy_together", noted)
    return found


@pytest.mark.parametrize(
    ("channels_last", "purpose"), [(False, Purpose.ESTIMATION), (True, Purpose.ESTIMATION), (True, Purpose.SELECTION)]
)
def test_noise_for_several_images_is_made_together(channels_last: bool, purpose: Purpose, together: list[int]) -> None:
    """In batches of ten: the first has copies of two images, the second of two, and more copies of the last to fill."""
    model = on_device(channels_last=channels_last)
    sampler = GpuSampler(HALF, model.placement, threads=1)
    ranges = three_ranges([FreshNoise(sampler, KEY, stream) for stream in (1, 7, 2)], purpose=purpose)
    found = voted(model, ranges)
    assert found == by_numpy(ranges)
    assert len({*map(str, found)}) == 3
    assert sum(together) >= 3


def test_noise_that_is_not_alike_is_made_one_after_the_other(together: list[int]) -> None:
    """Shared noise, other keys, samplers, purposes; across the end of a chunk, it is asked for and made again."""
    model = on_device()
    sampler, other = (GpuSampler(HALF, model.placement, threads=1) for _ in range(2))
    fresh = [FreshNoise(sampler, KEY, stream) for stream in range(3)]
    mixed = [
        [fresh[0], SharedNoise(sampler, KEY), fresh[2]],
        [fresh[0], FreshNoise(sampler, KEY[::-1], 1), fresh[2]],
        [fresh[0], FreshNoise(other, KEY, 1), fresh[2]],
    ]
    for sources in mixed:
        ranges = three_ranges(sources)
        assert voted(model, ranges) == by_numpy(ranges)
    ranges = three_ranges(fresh)
    assert voted(model, ranges, sure=True) == by_numpy(ranges)
    ranges = [ranges[0], ranges[1]._replace(purpose=Purpose.SELECTION), ranges[2]]
    assert voted(model, ranges) == by_numpy(ranges)
    other = [ranges[0], ranges[2]._replace(x=IMAGE.reshape(1, 4, 12))]
    with pytest.raises(RuntimeError, match="size"):  # torch cannot put them into one batch
        voted(model, other)
    assert together == []
    ranges = three_ranges(fresh, (3, 0, (1 << 36) // IMAGE.size - 1))
    assert voted(model, ranges) == by_numpy(ranges)
    assert together != []


def test_a_tie_of_96_bits_for_one_of_several_images() -> None:
    """The request is made again by the CPU, for all of them."""
    model = on_device()
    a_law = forced(beginning(estimation(7), 2 * 16, 2, -1), Fraction(1, 3), Fraction(1, 2), Fraction(3, 4))
    sampler, x = GpuSampler(a_law, model.placement, threads=1), np.zeros((1, 4, 4), np.int16)
    ranges = [CopyRange(FreshNoise(sampler, KEY, at), x, Purpose.ESTIMATION, range(5)) for at in (1, 7, 2)]
    pending = PendingVotes(Voting(model, BATCH, model.flags()), ranges)
    found = [np.asarray(votes.labels).tolist() for votes in pending.votes()]
    assert pending.repeated
    assert found == by_numpy(ranges, a_law)
