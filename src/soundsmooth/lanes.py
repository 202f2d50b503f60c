"""Two lanes on a GPU: the model votes in front, and the next noise is made in what it leaves free.

Kernels of the front lane go first wherever both could run, so that noise fills the ends of the model's kernels instead
of making it wait. On a processor there is one lane, and nothing is made before it is asked for.
"""

from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from .machine import Place

T = TypeVar("T")

#: Of torch's priorities, of which 0 is the lowest.
HIGH = -1


class _Made(NamedTuple):
    """What was made in the back lane, and the event after which it is there."""

    noise: Any
    there: Any


class OneLane:
    """Everything in turn."""

    def make(self, request: Callable[[], Any]) -> Callable[[], Any]:
        return request

    def use(self, made: Callable[[], Any], work: Callable[[Any], T]) -> T:
        return work(made())

    def __enter__(self) -> "OneLane":
        return self

    def __exit__(self, *_: object) -> None:
        pass


class TwoLanes:
    """The lanes of a GPU, beside the stream that is current outside.

    Guarantee: no memory is written before everything that reads it is finished.
    - Noise lies in memory of the back lane. A batch is given back once its votes are queued in front; before anything
      is made in the back lane, that waits for all that is queued in front.
    - Votes lie in memory of the front lane. They are read outside, after the end of the `with`, which makes the outside
      wait for both lanes; and both wait for the outside when they begin again.
    """

    def __init__(self, device: str) -> None:
        import torch

        self._torch = torch
        self._front, self._back = _streams(device)
        self._outside = torch.cuda.current_stream(self._front.device)

    def __enter__(self) -> "TwoLanes":
        self._front.wait_stream(self._outside)
        self._back.wait_stream(self._outside)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._outside.wait_stream(self._front)
        self._outside.wait_stream(self._back)

    def make(self, request: Callable[[], Any]) -> _Made:
        """Begin in the back lane what `use` will need."""
        self._back.wait_stream(self._front)
        with self._torch.cuda.stream(self._back):
            noise = request()
        return _Made(noise, self._back.record_event())

    def use(self, made: _Made, work: Callable[[Any], T]) -> T:
        """Work in front, with what was made."""
        self._front.wait_event(made.there)
        with self._torch.cuda.stream(self._front):
            return work(made.noise)


Lanes = OneLane | TwoLanes


def lanes_of(place: Place | None) -> Lanes:
    """The lanes for a model that reads its batches at a place."""
    return TwoLanes(place.device) if place is not None and place.device.startswith("cuda") else OneLane()


@cache
def _streams(device: str) -> tuple[Any, Any]:
    """Always the same two: torch keeps memory apart for each stream."""
    import torch

    return torch.cuda.Stream(device, priority=HIGH), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
