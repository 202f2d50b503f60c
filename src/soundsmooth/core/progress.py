"""How far work is: a live line in terminals and notebooks; elsewhere a plain line every minute, and one at the end."""

import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType

from rich import get_console
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

#: Seconds between two plain lines.
EVERY = 60.0


class Meter:
    """Counts steps of work and the items that they finish, and shows both with the rate and the time that is left.

    `start` says how many steps were done before, `finished` and `right` how many items and how many right answers.
    Nothing is shown before the first step. The rate is that of this process.
    """

    def __init__(
        self,
        doing: str,
        steps: int,
        items: int,
        noun: str = "images",
        *,
        start: int = 0,
        finished: int = 0,
        right: int | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console = console or get_console()
        self._doing, self._noun, self._clock = doing, noun, clock
        self._steps, self._items = steps, items
        self._first = self._done = start
        self._before = self._finished = finished
        self._right = right
        self._began = self._said = clock()
        live = self.console.is_interactive or self.console.is_jupyter
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[status]}"))
        self._bar = Progress(
            *columns, TimeRemainingColumn(), TextColumn("left"), console=self.console, transient=True, disable=not live
        )
        self._task: TaskID | None = None

    def __enter__(self) -> "Meter":
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
        if kind is None and self._done > self._first:
            self._say(self._end())

    def stop(self) -> None:
        """Take the live line away."""
        self._bar.stop()

    def advance(self, steps: int) -> None:
        """So many steps more are done."""
        self._done += steps
        if not self._bar.disable:
            self._show()
        elif self._clock() - self._said >= EVERY:
            self._said = self._clock()
            self._say(f"{self._doing}: {self._status()}{self._left()}")

    def finish_items(self, count: int = 1, right: int = 0) -> None:
        """So many items more are finished, and so many answers are right."""
        self._finished += count
        if self._right is not None:
            self._right += right

    def _show(self) -> None:
        if self._task is None:
            self._task = self._bar.add_task(self._doing, total=self._steps, completed=self._first, status="")
        self._bar.update(self._task, completed=self._done, status=self._status())

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def _status(self) -> str:
        """7 of 25 images, 1.3/s, accuracy 0.857: short enough for a narrow terminal."""
        parts = [f"{self._finished} of {self._items} {self._noun}", rate_text(self._rate())]
        if self._right is not None and self._finished:
            parts.append(f"accuracy {self._accuracy()}")
        return ", ".join(part for part in parts if part)

    def _end(self) -> str:
        """8 of 8 images in 0:00:02, 3.8/s."""
        took = timedelta(seconds=round(self._clock() - self._began))
        before = f", {self._before} of them before" if self._before else ""
        parts = [
            f"{self._finished} of {self._items} {self._noun} in {took}{before}",
            rate_text(self._rate()),
        ]
        return f"{self._doing}: {', '.join(part for part in parts if part)}"

    def _accuracy(self) -> str:
        """Truncated, as every share is."""
        assert self._right is not None
        thousandths = 1000 * self._right // self._finished
        return f"{thousandths // 1000}.{thousandths % 1000:03}"

    def _rate(self) -> float:
        """Items per second, by the steps that this process has made."""
        elapsed = self._clock() - self._began
        return (self._done - self._first) / elapsed * self._items / self._steps if elapsed > 0 and self._steps else 0.0

    def _left(self) -> str:
        rate = self._rate()
        if not rate:
            return ""
        seconds = (self._steps - self._done) / self._steps * self._items / rate
        return f", about {timedelta(seconds=round(seconds))} left"


def rate_text(per_second: float) -> str:
    """A rate in the unit in which it is a number that one can read; nothing if it is not known."""
    for seconds, unit in ((1, "s"), (60, "min"), (3600, "h")):
        if per_second * seconds >= 1:
            rate = per_second * seconds
            return f"{rate:,.0f}/{unit}" if rate >= 100 else f"{rate:.3g}/{unit}"
    return f"{per_second * 86400:.3g}/day" if per_second else ""
