"""The order that two lanes keep, with streams that only write down who waits for whom."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from soundsmooth.lanes import OneLane, TwoLanes, lanes_of
from soundsmooth.machine import Place


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
        self.cuda = SimpleNamespace(current_stream=lambda _: self.outside, stream=self.stream)

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


def two_lanes(gpu: Gpu) -> TwoLanes:
    found = TwoLanes.__new__(TwoLanes)
    found._torch, found._front, found._back, found._outside = gpu, gpu.front, gpu.back, gpu.outside
    return found


def cast(gpu: Gpu, count: int, name: str = "") -> dict[str, set[str]]:
    """`certify.cast`: each noise is requested before the votes on the one before it."""
    before: dict[str, set[str]] = {}

    def queue(what: str) -> Any:
        before[what] = gpu.current.queue(what)

    with two_lanes(gpu) as both:
        made = [both.make(lambda: queue(f"{name}noise 0"))]
        for i in range(1, count):
            made.append(both.make(lambda i=i: queue(f"{name}noise {i}")))
            both.use(made[i - 1], lambda _, i=i: queue(f"{name}votes {i - 1}"))
        both.use(made[-1], lambda _: queue(f"{name}votes {count - 1}"))
    queue(f"{name}counts")
    return before


def test_votes_wait_for_their_noise_and_not_for_the_next(gpu: Gpu) -> None:
    before = cast(gpu, 4)
    for i in range(4):
        assert f"noise {i}" in before[f"votes {i}"]
        assert f"noise {i + 1}" not in before[f"votes {i}"]


def test_noise_waits_for_the_votes_whose_memory_it_may_take(gpu: Gpu) -> None:
    """When noise i is requested, the batches up to i − 2 have been given back."""
    before = cast(gpu, 5)
    for i in range(2, 5):
        assert {f"votes {j}" for j in range(i - 1)} <= before[f"noise {i}"]


def test_counts_wait_for_all_votes_and_what_comes_later_for_the_counts(gpu: Gpu) -> None:
    before = cast(gpu, 3, "first ") | cast(gpu, 2, "second ")
    assert {"first votes 0", "first votes 1", "first votes 2"} <= before["first counts"]
    for what in ("second noise 0", "second votes 0"):
        assert "first counts" in before[what]


def test_after_an_error_everything_is_waited_for(gpu: Gpu) -> None:
    def fail(_: object) -> None:
        raise ValueError("no votes")

    def attempt() -> None:
        with two_lanes(gpu) as both:
            both.make(lambda: gpu.current.queue("noise that nobody used"))
            both.use(both.make(lambda: gpu.current.queue("noise")), fail)

    with pytest.raises(ValueError, match="no votes"):
        attempt()
    assert {"noise", "noise that nobody used"} <= gpu.outside.queue("later")
    assert gpu.current is gpu.outside


def test_one_lane_makes_nothing_ahead() -> None:
    order: list[str] = []
    with lanes_of(None) as one:
        made = [one.make(lambda i=i: order.append(f"noise {i}")) for i in range(2)]
        for i in range(2):
            one.use(made[i], lambda _, i=i: order.append(f"votes {i}"))
    assert order == ["noise 0", "votes 0", "noise 1", "votes 1"]
    assert isinstance(one, OneLane)
    assert isinstance(lanes_of(Place("cpu")), OneLane)
