"""Overlap noise generation with the forward pass: on a second CUDA stream of lower priority, or in a second thread.

Kernels of the front stream go first wherever both could run. So noise fills the ends of the model's kernels and does
not make it wait. On a CPU the noise fills what the model's threads leave.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from threading import RLock
from types import TracebackType
from typing import Any

from .machine import InputPlacement

#: The results for a batch of noise: tensors and other values.
Results = tuple[Any, ...]
Work = Callable[[Any], Results]

#: Of torch's priorities, of which 0 is the lowest.
HIGH = -1


class TwoStreams:
    """Two streams of a GPU, front and back, beside the stream that is current outside.

    Guarantee: no memory is written before everything that reads it is finished; whatever threads share the GPU, also
    if one vote is begun within another, or never finished. (torch gives freed memory to the next request
    in the same stream, without waiting for other streams.)
    - Noise lies in memory of the back stream and is read in front. It is given back after its votes are queued there,
      and what is made next waits for all that is queued in front. Nobody queues anything between that wait and the
      making: both streams are one thread's at a time.
    - Votes and doubts are read outside, after the end of the `with`, which makes the outside wait for both streams.
      They are kept alive: torch keeps their memory until what was queued outside, before they were given back, is
      finished.
    - What the outside has made (weights, tables) is there when the streams begin: both wait for it.
    """

    def __init__(self, device: str) -> None:
        import torch

        self._torch = torch
        self._front, self._back, self._turn = _shared(device)
        self._outside = torch.cuda.current_stream(self._front.device)

    def __enter__(self) -> "TwoStreams":
        self._front.wait_stream(self._outside)
        self._back.wait_stream(self._outside)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._outside.wait_stream(self._front)
        self._outside.wait_stream(self._back)

    def overlap(self, requests: Iterable[Callable[[], Any]], work: Work) -> Iterator[Results]:
        """Make each request before the work on the one before it is queued."""
        made: deque[tuple[Any, Any]] = deque()
        for request in requests:
            made.append(self.make(request))
            if len(made) > 1:
                yield self.keep_alive(self.use(made.popleft(), work))
        while made:
            yield self.keep_alive(self.use(made.popleft(), work))

    def make(self, request: Callable[[], Any]) -> tuple[Any, Any]:
        """Begin in the back stream what `use` will need: the noise, and the event after which it is there."""
        with self._turn:
            self._back.wait_stream(self._front)
            with self._torch.cuda.stream(self._back):
                noise = request()
            return noise, self._back.record_event()

    def use(self, made: tuple[Any, Any], work: Work) -> Results:
        """Work in front, with what was made."""
        noise, there = made
        with self._turn:
            self._front.wait_event(there)
            with self._torch.cuda.stream(self._front):
                return work(noise)

    def keep_alive(self, results: Results) -> Results:
        """The results, whose memory belongs to these streams and is read outside."""
        with self._torch.inference_mode():  # votes may not be touched in any other
            for tensor in results:
                if getattr(tensor, "is_cuda", False):
                    tensor.record_stream(self._outside)
        return results


def overlap(
    placement: InputPlacement | None, requests: Iterable[Callable[[], Any]], work: Work, ahead: bool = False
) -> Iterator[Results]:
    """The results of the work on what each request makes, in order.

    For a model that reads its batches on a GPU, the next request is made while the model works; for others too if one
    may be `ahead`: then there is memory for what two of them make.
    """
    if placement is not None and placement.device.startswith("cuda"):
        with TwoStreams(placement.device) as streams:
            yield from streams.overlap(requests, work)
    elif ahead:
        yield from _overlap_in_a_thread(requests, work)
    else:
        for request in requests:
            yield work(request())


def _overlap_in_a_thread(requests: Iterable[Callable[[], Any]], work: Work) -> Iterator[Results]:
    """A thread makes the next request while this one works. It ends with the last one, or with an error."""
    with ThreadPoolExecutor(1, "ahead") as thread:
        made: Future[Any] | None = None
        for request in requests:
            ready, made = made, thread.submit(request)
            if ready is not None:
                yield work(ready.result())
        if made is not None:
            yield work(made.result())


@cache
def _shared(device: str) -> tuple[Any, Any, Any]:
    """The streams in front and back of a GPU, and the lock of the thread whose turn it is to queue something.

    They are always the same: torch keeps memory apart for each stream.
    """
    import torch

    front, back = torch.cuda.Stream(device, priority=HIGH), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return front, back, RLock()
