"""Workers in threads of this process: on the GPUs or the cores at hand."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread
from typing import NamedTuple

from .engine import Run, Worker
from .voter import Image, Outcome, Task, Voter


@dataclass(frozen=True)
class Threads:
    """The engine that needs nothing: one worker votes in the thread that asks, several in threads of their own."""

    run: Run

    @property
    def environment(self) -> Mapping[str, str]:
        return self.run.environment

    def outcomes(self, groups: Iterator[list[Task]], keep: int | None) -> Generator[list[Outcome], None, None]:
        workers = self.run.smoothing.workers
        if len(workers) == 1 or keep is not None:
            tasks = (task for group in groups for task in group)
            found = Voter(self.run.duty, workers[0], keep).ready().vote(tasks, lambda place: image_at(self.run, place))
        else:
            found = _side_by_side(self.run, groups)
        with closing(found):
            for outcome in found:
                yield [outcome]


def image_at(run: Run, place: int) -> Image:
    """What a voter sees of the image at a place."""
    return Image(run.inputs.indices[place], run.inputs.levels[place])


class _Hungry(NamedTuple):
    """A worker's request for an image."""

    inbox: "SimpleQueue[list[Task] | None]"


def _side_by_side(run: Run, images: Iterator[list[Task]]) -> Generator[Outcome, None, None]:
    """All workers at once, each with images of its own, in threads that never touch the store."""
    results: SimpleQueue[Outcome | _Hungry | BaseException | None] = SimpleQueue()
    stop = Event()
    inboxes = [SimpleQueue[list[Task] | None]() for _ in run.smoothing.workers]

    def tasks(inbox: "SimpleQueue[list[Task] | None]") -> Iterator[Task]:
        while not stop.is_set():
            results.put(_Hungry(inbox))
            image = inbox.get()
            if image is None:
                return
            for task in image:
                if stop.is_set():
                    return
                yield task

    def work(worker: Worker, inbox: "SimpleQueue[list[Task] | None]") -> None:
        try:
            for outcome in Voter(run.duty, worker).ready().vote(tasks(inbox), lambda place: image_at(run, place)):
                results.put(outcome)
        except BaseException as error:  # it is raised again where somebody listens
            stop.set()
            results.put(error)
        results.put(None)

    threads = [Thread(target=work, args=pair, daemon=True) for pair in zip(run.smoothing.workers, inboxes, strict=True)]
    for thread in threads:
        thread.start()
    try:
        yield from _collected(results, images, len(threads))
    finally:
        stop.set()
        for inbox in inboxes:
            inbox.put(None)
        for thread in threads:
            thread.join()


def _collected(
    results: "SimpleQueue[Outcome | _Hungry | BaseException | None]", images: Iterator[list[Task]], running: int
) -> Iterator[Outcome]:
    """What the workers send, while they are given what they ask for; after an error, what is still on its way."""
    errors: list[BaseException] = []
    while running:
        result = results.get()
        if result is None:
            running -= 1
        elif isinstance(result, BaseException):
            errors.append(result)
        elif isinstance(result, _Hungry):
            result.inbox.put(None if errors else next(images, None))
        else:
            yield result
    if errors:
        raise errors[0]
