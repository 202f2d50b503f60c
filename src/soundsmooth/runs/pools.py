"""Where workers live: in this process, in others (`process_pool`), on a cluster (`ray_pool`).

A worker is called through its handle. Calls are queued and answered in order.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from threading import Condition, Thread
from typing import Any, NamedTuple, Protocol

from ..certification.settings import Settings
from ..core.grid import Levels
from ..independence.measure import Rehearsal
from ..smoothing.classifier import Smoothing
from .worker import ModelSurvey, Worker

#: Seconds between two looks at clocks and at the size of the pool.
LOOK = 1.0
#: Seconds in which the first worker must have found a place and loaded its model; and in which it must have checked it.
FIRST_SECONDS = 900.0
#: Seconds in which it must have loaded its model, if it also chooses kernels by timing.
TUNING_SECONDS = 7200.0
#: A check of rows is as long as this many of the shortest blocks.
CHECK_BLOCKS = 10
#: How to go on with a model that cannot be checked.
UNCHECKED = "independence assumed leaves the check out, and the certificate says so"


class WorkerDied(NamedTuple):
    """The end of a worker, and whether the tasks it held may have caused it (not if its machine was lost)."""

    reason: str
    suspicious: bool = True


class WorkerHandle(Protocol):
    """A `Worker` somewhere. Calls are queued and answered in order."""

    def call(self, method: str, *arguments: Any) -> None: ...

    def kill(self) -> None: ...


#: The answer to a worker's oldest call, the error that it raised, or the worker's death; and whose it is.
Message = tuple[WorkerHandle, Any]


class WorkerPool(ABC):
    """Where workers come from."""

    #: Tasks that a worker holds beyond those it looks ahead at: one to vote on, one for when that is finished.
    in_hand = 2
    #: Seconds after which a worker that has not answered is killed.
    timeout: float | None = None
    #: Whether the first worker chooses kernels by timing.
    tunes = False
    #: The worker that was asked for the survey, until it is given something to vote on.
    _first: WorkerHandle | None = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.surveyor():
            worker.kill()

    @abstractmethod
    def capacity(self) -> int:
        """How many workers there can be now."""

    @abstractmethod
    def start_worker(self) -> WorkerHandle:
        """One more; it may take its time to get ready."""

    @abstractmethod
    def wait(self, workers: list[WorkerHandle], seconds: float) -> list[Message]:
        """What has been answered, after this many seconds at the latest."""

    def share(self, value: Any) -> Any:
        """The value in a form in which it is sent to each machine once, however many calls it is an argument of."""
        return value

    def describe(self) -> Mapping[str, str]:
        """What is recorded about it beside a certificate."""
        return {}

    def survey(self, images: Sequence[Levels], settings: Settings, count: int) -> ModelSurvey:
        """What is to be promised of the model, if each worker is expected to get `count` images like these; a
        ValueError if it cannot be loaded.
        """
        self._first = self.start_worker()
        self._first.call("survey", images, settings, count)
        work, advice = "the model was built", "is there a free place for it, and enough memory?"
        limit = TUNING_SECONDS if self.tunes else FIRST_SECONDS
        found: ModelSurvey = self._first_answer(work, advice, limit)
        return found

    def check_rows(self, images: Sequence[Levels], settings: Settings) -> int | None:
        """A ValueError if rows of the model are seen to depend on each other; its number of classes, if it tells.

        After `survey`.
        """
        assert self._first is not None
        self._first.call("check", images, settings)
        seconds = FIRST_SECONDS if self.timeout is None else CHECK_BLOCKS * self.timeout
        classes: int | None = self._first_answer("the model's rows were checked", UNCHECKED, seconds)
        return classes

    def rehearse_rows(self, images: Sequence[Levels]) -> Rehearsal:
        """How rows alone are voted; a ValueError if they cannot be. After `survey`."""
        assert self._first is not None
        self._first.call("rehearse", images)
        advice = "independence checked leaves the measurement out"
        found: Rehearsal = self._first_answer("rows were voted alone", advice, FIRST_SECONDS)
        return found

    def _first_answer(self, work: str, advice: str, limit: float) -> Any:
        """The answer to the only call that the first worker was given; what goes wrong is raised."""
        worker, start = self._first, time.monotonic()
        assert worker is not None
        while time.monotonic() - start < limit:
            for _, what in self.wait([worker], min(LOOK, limit)):
                if isinstance(what, BaseException):
                    raise what
                if isinstance(what, WorkerDied):
                    raise ValueError(f"a worker died while {work}: {what.reason}; {advice}")
                return what
        worker.kill()
        raise ValueError(f"no answer within {limit:g} seconds while {work}; {advice}")

    def surveyor(self) -> list[WorkerHandle]:
        """The worker that made the survey, if it has nothing to do yet."""
        found, self._first = self._first, None
        return [] if found is None else [found]


class LocalPool(WorkerPool):
    """Workers in this process, one for each replica: in the thread that asks, or several in threads of their own."""

    def __init__(self, smoothing: Smoothing) -> None:
        self.smoothing = smoothing
        self.in_hand = 1 if len(smoothing.replicas) == 1 else 2
        self._started = 0
        self._answered = Condition()

    def capacity(self) -> int:
        return len(self.smoothing.replicas)

    def start_worker(self) -> "LocalWorker":
        worker = Worker(self._smoothing, self._started % self.capacity())
        self._started += 1
        return LocalWorker(worker) if self.capacity() == 1 else ThreadWorker(worker, self._answered)

    def wait(self, workers: list[WorkerHandle], seconds: float) -> list[Message]:
        local = [worker for worker in workers if isinstance(worker, LocalWorker)]
        with self._answered:
            self._answered.wait_for(lambda: any(worker.answers for worker in local), seconds)
            return [(worker, worker.answers.popleft()) for worker in local for _ in range(len(worker.answers))]

    def survey(self, images: Sequence[Levels], settings: Settings, count: int) -> ModelSurvey:
        """In the thread that asks: there is nobody to wait for."""
        return Worker(self._smoothing).survey(images, settings, count)

    def check_rows(self, images: Sequence[Levels], settings: Settings) -> int | None:
        return Worker(self._smoothing).check(images, settings)

    def rehearse_rows(self, images: Sequence[Levels]) -> Rehearsal:
        return Worker(self._smoothing).rehearse(images)

    def _smoothing(self) -> Smoothing:
        return self.smoothing


class LocalWorker:
    """A worker in the thread that calls it: every call is answered when it returns."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.answers: deque[Any] = deque()

    def call(self, method: str, *arguments: Any) -> None:
        self.answers.append(self._answer(method, arguments))

    def kill(self) -> None:
        self._worker.close()

    def _answer(self, method: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return getattr(self._worker, method)(*arguments)
        except Exception as error:  # it is raised again by the one who waits for the answer
            return error


class ThreadWorker(LocalWorker):
    """A worker in a thread of its own."""

    def __init__(self, worker: Worker, answered: Condition) -> None:
        super().__init__(worker)
        self._calls: SimpleQueue[tuple[str, tuple[Any, ...]] | None] = SimpleQueue()
        self._answered, self._ended = answered, False
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def call(self, method: str, *arguments: Any) -> None:
        self._calls.put((method, arguments))

    def kill(self) -> None:
        """A thread cannot be ended from outside: it ends after the call at which it works."""
        self._ended = True
        self._calls.put(None)
        self._thread.join()
        super().kill()

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None and not self._ended:
            try:
                answer = self._answer(*call)
            except BaseException as error:  # a model that calls sys.exit() ends this thread, and nobody would know
                answer = error
            with self._answered:
                self.answers.append(answer)
                self._answered.notify_all()
