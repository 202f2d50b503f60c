"""Two lanes on a GPU: the model votes in front, and the next noise is made in what it leaves free.

Kernels of the front lane go first wherever both could run, so that noise fills the ends of the model's kernels instead
of making it wait. On a processor there is one lane, and nothing is made before it is asked for.
"""

from collections.abc import Callable
from functools import cache
from threading import RLock
from types import TracebackType
from typing import Any, TypeVar

from .machine import InputPlacement

T = TypeVar("T")

#: Of torch's priorities, of which 0 is the lowest.
HIGH = -1


class OneLane:
    """Everything in turn."""

    def make(self, request: Callable[[], Any]) -> Callable[[], Any]:
        return request

    def use(self, made: Callable[[], Any], work: Callable[[Any], T]) -> T:
        return work(made())

    def hand_out(self, *_: Any) -> None:
        pass

    def __enter__(self) -> "OneLane":
        return self

    def __exit__(self, *_: object) -> None:
        pass


class TwoLanes:
    """The lanes of a GPU, beside the stream that is current outside.

    Guarantee: no memory is written before everything that reads it is finished; whatever threads share the GPU, also
    if one cast is begun within another, or never finished. (torch gives freed memory to whoever asks for some in the
    same lane next, without waiting for other lanes.)
    - Noise lies in memory of the back lane and is read in front. It is given back after its votes are queued there, and
      what is made next waits for all that is queued in front. Nobody queues anything between that wait and the making:
      both lanes are one thread's at a time.
    - Votes and doubts are read outside, after the end of the `with`, which makes the outside wait for both lanes. They
      are handed out: torch keeps their memory until what was queued outside, before they were given back, is finished.
    - What the outside has made (weights, tables) is there when the lanes begin: both wait for it.
    """

    def __init__(self, device: str) -> None:
        import torch

        self._torch = torch
        self._front, self._back, self._turn = _shared(device)
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

    def make(self, request: Callable[[], Any]) -> tuple[Any, Any]:
        """Begin in the back lane what `use` will need: the noise, and the event after which it is there."""
        with self._turn:
            self._back.wait_stream(self._front)
            with self._torch.cuda.stream(self._back):
                noise = request()
            return noise, self._back.record_event()

    def use(self, made: tuple[Any, Any], work: Callable[[Any], T]) -> T:
        """Work in front, with what was made."""
        noise, there = made
        with self._turn:
            self._front.wait_event(there)
            with self._torch.cuda.stream(self._front):
                return work(noise)

    def hand_out(self, *tensors: Any) -> None:
        """Memory of a lane that is read outside."""
        with self._torch.inference_mode():  # votes may not be touched in any other
            for tensor in tensors:
                if getattr(tensor, "is_cuda", False):
                    tensor.record_stream(self._outside)


Lanes = OneLane | TwoLanes


def lanes_of(placement: InputPlacement | None) -> Lanes:
    """The lanes for a model that reads its batches there."""
    return TwoLanes(placement.device) if placement is not None and placement.device.startswith("cuda") else OneLane()


@cache
def _shared(device: str) -> tuple[Any, Any, Any]:
    """The lanes in front and back of a GPU, and the lock of the thread whose turn it is to queue something.

    They are always the same: torch keeps memory apart for each stream.
    """
    import torch

    front, back = torch.cuda.Stream(device, priority=HIGH), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return front, back, RLock()
