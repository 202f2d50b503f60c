"""The order that two streams keep, with streams that only write down who waits for whom."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from threading import Event, RLock, Thread
from types import SimpleNamespace

import numpy as np
import pytest

from soundsmooth.core import cuda_streams
from soundsmooth.core.cuda_streams import TwoStreams, overlap
from soundsmooth.core.machine import InputPlacement
from soundsmooth.models import Votes
from soundsmooth.noise import Noisy, Purpose
from soundsmooth.smoothing import voting as votings
from soundsmooth.smoothing.voting import Voting


@dataclass(eq=False)
class Stream:
    """A queue. What is queued comes after everything that was queued here before, and after what is waited for."""

    device: str = "cuda:0"
    after: set[str] = field(default_factory=set)

    def wait_event(self, event: set[str]) -> None:
        self.after |= event

    def wait_stream(self, other: "Stream") -> None:
        self.after |= other.after

    def record_event(self) -> set[str]:
        return set(self.after)

    def queue(self, name: str) -> set[str]:
        """What is certainly finished when this begins."""
        before = set(self.after)
        self.after.add(name)
        return before


class Gpu:
    """Three streams, and which of them is current."""

    def __init__(self) -> None:
        self.outside, self.front, self.back = Stream(), Stream(), Stream()
        self.current = self.outside
        self.turn = RLock()
        self.cuda = SimpleNamespace(current_stream=lambda _: self.outside, stream=self.stream)
        self.inference_mode = contextlib.nullcontext

    @contextlib.contextmanager
    def stream(self, chosen: Stream) -> Iterator[None]:
        before, self.current = self.current, chosen
        try:
            yield
        finally:
            self.current = before


@pytest.fixture
def gpu() -> Gpu:
    return Gpu()


def two_streams(gpu: Gpu) -> TwoStreams:
    found = TwoStreams.__new__(TwoStreams)
    found._torch, found._front, found._back, found._outside = gpu, gpu.front, gpu.back, gpu.outside
    found._turn = gpu.turn
    return found


def vote(gpu: Gpu, count: int, name: str = "") -> dict[str, set[str]]:
    """What was finished when each noise was made, each batch voted, and the votes were counted."""
    before: dict[str, set[str]] = {}

    def queue(what: str) -> None:
        before[what] = gpu.current.queue(what)

    def noise(number: int) -> int:
        queue(f"{name}noise {number}")
        return number

    def votes(number: int) -> tuple[()]:
        queue(f"{name}votes {number}")
        return ()

    with two_streams(gpu) as both:
        assert list(both.overlap((partial(noise, i) for i in range(count)), votes)) == [()] * count
    queue(f"{name}counts")
    return before


def test_votes_wait_for_their_noise_and_not_for_the_next(gpu: Gpu) -> None:
    before = vote(gpu, 4)
    for i in range(4):
        assert f"noise {i}" in before[f"votes {i}"]
        assert f"noise {i + 1}" not in before[f"votes {i}"]


def test_noise_waits_for_the_votes_whose_memory_it_may_take(gpu: Gpu) -> None:
    """When noise i is requested, the batches up to i − 2 have been given back."""
    before = vote(gpu, 5)
    for i in range(2, 5):
        assert {f"votes {j}" for j in range(i - 1)} <= before[f"noise {i}"]


def test_counts_wait_for_all_votes_and_what_comes_later_for_the_counts(gpu: Gpu) -> None:
    before = vote(gpu, 3, "first ") | vote(gpu, 2, "second ")
    assert {"first votes 0", "first votes 1", "first votes 2"} <= before["first counts"]
    for what in ("second noise 0", "second votes 0"):
        assert "first counts" in before[what]


def test_after_an_error_everything_is_waited_for(gpu: Gpu) -> None:
    def fail(_: object) -> None:
        raise ValueError("no votes")

    def attempt() -> None:
        with two_streams(gpu) as both:
            both.make(lambda: gpu.current.queue("noise that nobody used"))
            both.use(both.make(lambda: gpu.current.queue("noise")), fail)

    with pytest.raises(ValueError, match="no votes"):
        attempt()
    assert {"noise", "noise that nobody used"} <= gpu.outside.queue("later")
    assert gpu.current is gpu.outside


def test_no_votes_are_queued_between_a_wait_for_them_and_the_noise_that_may_take_their_memory(gpu: Gpu) -> None:
    """Two threads on one GPU: the votes of one would be queued while the other makes noise, if they did not take turns.
    A batch that is given back after its votes are queued is then read by votes that all later noise waits for.
    """
    began, order = Event(), []

    def cast() -> None:
        with two_streams(gpu) as both:
            began.set()
            both.use((None, set()), lambda _: (order.append("votes"),))

    def noise() -> None:
        other.start()
        assert began.wait(120)
        other.join(0.2)  # as long as it takes to queue votes, and longer
        order.append("noise")

    other = Thread(target=cast)
    with two_streams(gpu) as both:
        both.make(noise)
        other.join()
    assert order == ["noise", "votes"]


class Kept:
    """A tensor that notes which stream its memory is kept for."""

    is_cuda = True

    def __init__(self, labels: int = 2) -> None:
        self.kept: list[Stream] = []
        self._labels = labels

    def __len__(self) -> int:
        return self._labels

    def __getitem__(self, _: slice) -> "Kept":
        return self

    def record_stream(self, stream: Stream) -> None:
        self.kept.append(stream)


def test_votes_and_doubts_are_kept_for_the_outside(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are memory of the streams, where other votes could be given it before the outside has read it."""
    monkeypatch.setattr(cuda_streams, "TwoStreams", lambda _: two_streams(gpu))
    labels, doubt = Kept(), Kept()
    noise = SimpleNamespace(noisy=lambda *_: Noisy(np.zeros((2, 3), np.float32), (), doubt))
    model = SimpleNamespace(placement=InputPlacement("cuda:0"), flags=dict, vote=lambda _: Votes(labels, 2))
    voting = Voting(model, 2, {})
    wanted = votings.CopyRange(noise, np.zeros(3, np.int16), Purpose.ESTIMATION, range(2))
    ((votes, found),) = votings.vote_on_copies(voting, [wanted])
    assert votes.labels is labels
    assert found is doubt
    assert labels.kept == doubt.kept == [gpu.outside]
    two_streams(gpu).keep_alive((None, np.zeros(2)))  # nothing of a stream


@pytest.mark.parametrize("placement", [None, InputPlacement("cpu")])
def test_on_a_cpu_nothing_is_made_ahead(placement: InputPlacement | None) -> None:
    order: list[str] = []

    def noise(number: int) -> int:
        order.append(f"noise {number}")
        return number

    def votes(number: int) -> tuple[int]:
        order.append(f"votes {number}")
        return (number,)

    assert list(overlap(placement, (partial(noise, i) for i in range(2)), votes)) == [(0,), (1,)]
    assert order == ["noise 0", "votes 0", "noise 1", "votes 1"]


def test_in_a_thread_the_next_request_is_made_while_the_work_goes_on() -> None:
    """The work on one request waits until the next one is being made: one after the other, that would never end."""
    begun = [threading.Event() for _ in range(4)]
    makers = set[str]()

    def make(number: int) -> int:
        begun[number].set()
        makers.add(threading.current_thread().name)
        return number

    def work(number: int) -> tuple[int]:
        assert number == 3 or begun[number + 1].wait(20)
        return (number * number,)

    found = overlap(None, [partial(make, number) for number in range(4)], work, ahead=True)
    assert list(found) == [(0,), (1,), (4,), (9,)]
    assert len(makers) == 1
    assert threading.current_thread().name not in makers


@pytest.mark.parametrize("ahead", [False, True])
def test_an_error_of_either_side_ends_it(ahead: bool) -> None:
    def fail(*_: object) -> tuple[int]:
        raise ZeroDivisionError

    threads = threading.active_count()
    requests: list[Callable[[], int]] = [lambda: 1, fail, lambda: 3]  # type: ignore[list-item]
    with pytest.raises(ZeroDivisionError):
        list(overlap(None, requests, lambda one: (one,), ahead))
    with pytest.raises(ZeroDivisionError):
        list(overlap(None, [lambda: 1, lambda: 2], fail, ahead))
    begun = overlap(None, [lambda: 1, lambda: 2, lambda: 3], lambda one: (one,), ahead)
    assert next(begun) == (1,)
    begun.close()  # type: ignore[attr-defined]
    assert threading.active_count() == threads


def test_one_request_and_none_are_enough() -> None:
    assert list(overlap(None, [], lambda one: (one,), ahead=True)) == []
    assert list(overlap(None, [lambda: 5], lambda one: (one,), ahead=True)) == [(5,)]
