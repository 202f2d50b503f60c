"""How far work is: a live line in terminals and notebooks; elsewhere a plain line every minute, and one at the end."""

import time
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from types import TracebackType

from rich import get_console
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from .decimals import grouped, truncated

#: Seconds between two plain lines.
EVERY = 60.0


class Meter:
    """Counts steps of work and the items that they finish, and shows both with the rate and the time that is left.

    `start` says how many steps were done before, `finished` and `right` how many items and how many right answers.
    Nothing is shown before the first step. The rate is that of this process.

    If items may end early, `steps` is the most that all may take, and `spent` what the finished ones took before. What
    is left is then estimated, and never as more than may be left (`_steps_left`).
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
        spent: int | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console = console or get_console()
        self._doing, self._noun, self._clock = doing, noun, clock
        self._steps, self._items = steps, items
        self._first = self._done = start
        self._before = self._finished = finished
        self._right = right
        self._spent = spent
        self._began = self._said = clock()
        live = self.console.is_interactive or self.console.is_jupyter
        columns = (TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.fields[status]}"))
        self._bar = Progress(*columns, console=self.console, transient=True, disable=not live, expand=True)
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

    def finish_items(self, count: int = 1, right: int = 0, spent: int = 0) -> None:
        """So many items more are finished, and so many answers are right. All steps of theirs are `spent`."""
        self._finished += count
        if self._spent is not None:
            self._spent += spent
        if self._right is not None:
            self._right += right

    def _show(self) -> None:
        if self._task is None:
            self._task = self._bar.add_task(self._doing, total=1.0, status="")
        whole = self._done + self._steps_left()[0]
        status = f"{self._status()}{self._left()}"
        self._bar.update(self._task, completed=self._done / whole if whole else 1.0, status=status)

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def _status(self) -> str:
        """7 of 25 images, 1.3/s, accuracy 0.857: short enough for a narrow terminal. Votes are said instead of the rate
        where each item has as many as it needs.
        """
        speed = rate_text(self._rate()) if self._spent is None else votes_text(self._done)
        parts = [f"{self._finished} of {self._items} {self._noun}", speed]
        if self._right is not None and self._finished:
            parts.append(f"accuracy {self._accuracy()}")
        return ", ".join(part for part in parts if part)

    def _end(self) -> str:
        """8 of 8 images in 0:00:02, 3.8/s."""
        took = timedelta(seconds=round(self._clock() - self._began))
        before = f", {self._before} of them before" if self._before else ""
        parts = [f"{self._finished} of {self._items} {self._noun} in {took}{before}", rate_text(self._rate())]
        if self._spent is not None:
            parts.append(votes_text(self._done))
        return f"{self._doing}: {', '.join(part for part in parts if part)}"

    def _accuracy(self) -> str:
        """Truncated, as every share is."""
        assert self._right is not None
        thousandths = 1000 * self._right // self._finished
        return f"{thousandths // 1000}.{thousandths % 1000:03}"

    def _rate(self) -> float:
        """Items per second: by the steps that this process has made, or by the items where these end early."""
        elapsed = self._clock() - self._began
        if elapsed <= 0 or not self._steps:
            return 0.0
        if self._spent is not None:
            return (self._finished - self._before) / elapsed
        return (self._done - self._first) / elapsed * self._items / self._steps

    def _left(self) -> str:
        elapsed, made = self._clock() - self._began, self._done - self._first
        if elapsed <= 0 or not made:
            return ""
        steps, word = self._steps_left()
        return f", {word} {timedelta(seconds=round(steps * elapsed / made))} left"

    def _steps_left(self) -> tuple[float, str]:
        """How many steps are left, and whether that is `about` so or `at most`.

        An item that may end early is expected to take as many steps as were made for each finished item, those of
        unfinished items counted. Items in flight are expected to take as many again as they took: those that take long
        are decided last. Without a finished item, only the most is known.
        """
        if self._spent is None:
            return self._steps - self._done, "about"
        unfinished, in_flight = self._items - self._finished, self._done - self._spent
        most = max(unfinished * self._steps / self._items - in_flight, 0)
        if not self._finished:
            return most, "at most"
        expected = max(unfinished * self._done / self._finished, in_flight)
        return (expected, "about") if expected < most else (most, "at most")


def votes_text(count: int) -> str:
    """12 345 votes, 1.23 million votes; truncated."""
    return f"{grouped(count)} votes" if count < 10**6 else f"{truncated(Fraction(count, 10**6), 2)} million votes"


def rate_text(per_second: float) -> str:
    """A rate in the unit in which it is a number that one can read; nothing if it is not known."""
    for seconds, unit in ((1, "s"), (60, "min"), (3600, "h")):
        if per_second * seconds >= 1:
            rate = per_second * seconds
            return f"{rate:,.0f}/{unit}" if rate >= 100 else f"{rate:.3g}/{unit}"
    return f"{per_second * 86400:.3g}/day" if per_second else ""
