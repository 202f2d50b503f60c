"""Works in threads of their own, and what they send in the thread that asked."""

from collections.abc import Callable, Generator, Sequence
from queue import SimpleQueue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")
Work = Callable[[Callable[[T], None]], None]
"""Is given the means to send, and returns when it is done."""


class _Done:
    """A work has ended."""


def side_by_side(
    works: Sequence[Work[T]], stop: Event, release: Callable[[], None] = lambda: None
) -> Generator[T, None, None]:
    """What the works send, as it comes, until all have ended.

    The first error of a work sets `stop`, which all works should heed, and is raised when the others have ended and
    what they sent was handed out. Whoever leaves early stops them as well; `release` wakes those that wait.
    """
    sent: SimpleQueue[T | BaseException | _Done] = SimpleQueue()

    def run(work: Work[T]) -> None:
        try:
            work(sent.put)
        except BaseException as error:  # it is raised again where somebody listens
            stop.set()
            sent.put(error)
        sent.put(_Done())

    threads = [Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield from _collected(sent, len(threads))
    finally:
        stop.set()
        release()
        for thread in threads:
            thread.join()


def _collected(sent: "SimpleQueue[T | BaseException | _Done]", running: int) -> Generator[T, None, None]:
    errors: list[BaseException] = []
    while running:
        each = sent.get()
        if isinstance(each, _Done):
            running -= 1
        elif isinstance(each, BaseException):
            errors.append(each)
        else:
            yield each
    if errors:
        raise errors[0]
