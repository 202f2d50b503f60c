"""Workers in threads of this process: on the GPUs or the cores at hand."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Event
from typing import NamedTuple

from .engine import Run, Worker
from .side_by_side import side_by_side
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
    stop, inboxes = Event(), [SimpleQueue[list[Task] | None]() for _ in run.smoothing.workers]

    def work(
        worker: Worker, inbox: "SimpleQueue[list[Task] | None]", send: Callable[[Outcome | _Hungry], None]
    ) -> None:
        tasks = _tasks(inbox, lambda: send(_Hungry(inbox)), stop)
        for outcome in Voter(run.duty, worker).ready().vote(tasks, lambda place: image_at(run, place)):
            send(outcome)

    def send_home() -> None:
        for inbox in inboxes:
            inbox.put(None)

    works = [partial(work, worker, inbox) for worker, inbox in zip(run.smoothing.workers, inboxes, strict=True)]
    with closing(side_by_side(works, stop, send_home)) as sent:
        for each in sent:
            if isinstance(each, _Hungry):
                each.inbox.put(None if stop.is_set() else next(images, None))
            else:
                yield each


def _tasks(inbox: "SimpleQueue[list[Task] | None]", ask: Callable[[], None], stop: Event) -> Iterator[Task]:
    """The tasks of one image after the other, each asked for when the last one's are done."""
    while not stop.is_set():
        ask()
        image = inbox.get()
        if image is None:
            return
        for task in image:
            if stop.is_set():
                return
            yield task
