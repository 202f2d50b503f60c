"""Pushes tasks to the workers of a pool; they may die, hang or arrive late, and the outcomes are the same.

Every worker is given the blocks of images of its own, a few at a time, and when there are none left it takes blocks
from the worker that has most. A block whose worker dies is given to another one, with its own noise. If a worker dies
(or hangs) over several blocks, nobody knows which it was: each is tried again alone, and only a block that does it
alone counts as failed.
"""

import math
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..noise import Purpose
from ..smoothing.blocks import VoteBlock
from .plan import RunPlan
from .pools import LOOK, WorkerDied, WorkerHandle
from .tasks import Outcome, Part, Task
from .voter import ATTEMPTS
from .worker import MIXED, WorkerKind, WorkerReady

#: This many groups of images for each worker are kept where the workers can fetch them.
IMAGES_KEPT = 3
#: When this many workers in a row die before they have voted on anything, more of them will not help.
BAD_STARTS = 5
#: A run waits this long for a cluster that has lost all its machines.
UNMANNED_SECONDS = 600.0


@dataclass(eq=False)
class _WorkerState:
    """A worker, the tasks that are kept for it, and those that it has been given."""

    handle: WorkerHandle
    ready: WorkerReady | None = None
    own: deque[Task] = field(default_factory=deque)
    begun: list[Task] = field(default_factory=list)
    resting: bool = True
    since: float = 0.0
    """When it last gave an answer, or was given something to do after it had nothing."""


class Scheduler:
    """From the first task to the last: `add` tasks while it `wants_tasks`, then `step`; until it is not `busy`.

    Guarantee: of every image, the outcomes of selection come before those of estimation, and a failure last.
    """

    def __init__(self, plan: RunPlan, keep: int | None) -> None:
        """Shared noise is kept for the last `keep` batches, or all of it (None)."""
        self._plan, self._pool = plan, plan.pool
        self._begin = (self._pool.share(plan.job), keep)
        self._workers: dict[WorkerHandle, _WorkerState] = {}
        self._spare: deque[Task] = deque()
        self._suspects: dict[Task, list[str]] = {}
        self._images: dict[int, Any] = {}
        self._order = _SelectionFirst()
        self._kinds: dict[WorkerKind, None] = {}
        self._bad_starts = 0
        self._looked = 0.0
        self._manned = time.monotonic()
        self._error: BaseException | None = None
        for handle in self._pool.surveyor():
            self._add_worker(handle)
        self._start_workers()

    @property
    def environment(self) -> Mapping[str, str]:
        """What is recorded beside a certificate that is issued now."""
        found = {**self._plan.survey.environment, **self._pool.describe()}
        if self._plan.survey.identity.device == MIXED:
            found[MIXED] = "; ".join(sorted(str(kind) for kind in self._kinds))
        return found

    @property
    def busy(self) -> bool:
        """Whether there is something to wait for."""
        held = any(worker.begun or worker.own for worker in self._workers.values())
        return held or bool(self._spare) or self._error is not None

    def wants_tasks(self) -> bool:
        """Give out what there is; whether a worker could begin more than that. After an error, nobody may."""
        if self._error is not None:
            return False
        self._hand_out(steal=False)
        if self._spare:
            return False
        if any(worker.ready for worker in self._workers.values()):
            return self._hungry() is not None
        return not any(worker.own for worker in self._workers.values())

    def add(self, tasks: Iterable[Task]) -> None:
        """Tasks that are best voted on by one worker: those of an image, or one block of all images."""
        tasks = list(tasks)
        self._order.expect(tasks)
        worker = self._hungry() or next((each for each in self._workers.values() if not each.own), None)
        (self._spare if worker is None else worker.own).extend(tasks)

    def step(self) -> list[Outcome]:
        """Let workers that want more than was added take it from others, and wait a moment for what comes back.

        The first error of a worker is raised after all else that came with it was handed out.
        """
        if self._error is not None:
            raise self._error
        self._hand_out(steal=True)
        for worker in self._workers.values():
            self._let_rest(worker)
        self._start_workers()
        came: list[Outcome] = []
        for handle, what in self._pool.wait(list(self._workers), LOOK):
            came += self._on_message(self._workers[handle], what)
        came += self._check_clocks()
        return [outcome for one in came for outcome in self._order.sort(one)]

    def ask(self, method: str, *arguments: Any) -> Any:
        """What one worker answers when nothing is left to vote on; None if there is none, it fails, dies or hangs.

        For what is worth no failure. Outcomes that come late, of images that were given up, are passed over.
        """
        worker = next((each for each in self._workers.values() if each.ready is not None), None)
        if worker is None:
            return None
        worker.handle.call(method, *arguments)
        limit, start = self._pool.timeout or math.inf, time.monotonic()
        while time.monotonic() - start < limit:
            for _, what in self._pool.wait([worker.handle], LOOK):
                if isinstance(what, BaseException | WorkerDied):
                    return None
                if not isinstance(what, list):  # of outcomes
                    return what
        return None

    def close(self) -> None:
        for worker in self._workers.values():
            worker.handle.kill()

    # The workers

    def _start_workers(self) -> None:
        """As many workers as there can be now: machines may have joined, and workers have died."""
        if self._workers and time.monotonic() - self._looked < LOOK:
            return
        self._looked = time.monotonic()
        if self._workers:
            self._manned = self._looked
        elif self._looked - self._manned > UNMANNED_SECONDS:
            raise ValueError(f"for {UNMANNED_SECONDS:.0f} seconds there was no worker; the same command continues")
        for _ in range(self._pool.capacity() - len(self._workers)):
            self._add_worker(self._pool.start_worker())

    def _add_worker(self, handle: WorkerHandle) -> None:
        self._workers[handle] = _WorkerState(handle)
        handle.call("begin", *self._begin)

    def _on_message(self, worker: _WorkerState, what: Any) -> list[Outcome]:
        if isinstance(what, BaseException):  # not from the model on a block: that is an outcome
            self._error = self._error or what
            return []
        if isinstance(what, WorkerDied):
            return self._on_death(worker, what)
        worker.since, self._bad_starts = time.monotonic(), 0
        if isinstance(what, WorkerReady):
            self._accept(what.kind)
            worker.ready = what
            return []
        if what and worker.ready is not None:
            worker.resting = worker.ready.ahead == 0
        return [self._settle(worker, outcome) for outcome in what if outcome.task in worker.begun]

    def _accept(self, kind: WorkerKind) -> None:
        """A ValueError for a worker of another kind than the first, unless that was promised."""
        self._kinds[kind] = None
        if kind != self._plan.survey.kind and self._plan.survey.identity.device != MIXED:
            raise ValueError(
                f"the workers are of different kinds: {self._plan.survey.kind}; and {kind}. Their votes may round "
                "differently: leave those nodes out, or begin a run with --allow-mixed"
            )

    def _settle(self, worker: _WorkerState, outcome: Outcome) -> Outcome:
        """Off the list; with the deaths that the block has caused before."""
        worker.begun.remove(outcome.task)
        errors = (*self._suspects.pop(outcome.task, ()), *outcome.errors)
        if outcome.votes is None:
            self._give_up(outcome.task.places)
        return outcome._replace(errors=errors)

    def _on_death(self, worker: _WorkerState, death: WorkerDied) -> list[Outcome]:
        """What the dead held goes to others; each task that may have killed it is tried alone."""
        del self._workers[worker.handle]
        if death.suspicious:
            self._bad_starts += not worker.begun
            if self._bad_starts >= BAD_STARTS:
                raise ValueError(f"{BAD_STARTS} workers died before they could vote; the last: {death.reason}")
            for task in worker.begun:
                errors = self._suspects.setdefault(task, [])
                if len(worker.begun) == 1:
                    errors.append(death.reason)
        failed = [task for task in worker.begun if len(self._suspects.get(task, ())) >= ATTEMPTS]
        lost = [task for task in (*worker.begun, *worker.own) if task not in failed]
        self._spare.extendleft(reversed(lost))
        return [self._fail(task) for task in failed]

    def _fail(self, task: Task) -> Outcome:
        self._give_up(task.places)
        return Outcome(task, None, tuple(self._suspects.pop(task)), 0.0)

    def _give_up(self, places: set[int]) -> None:
        """Nobody is given another block of these images alone, and none is waited for."""
        for worker in self._workers.values():
            worker.begun = [task for task in worker.begun if not task.places <= places]
            worker.own = deque(task for task in worker.own if not task.places <= places)
        self._spare = deque(task for task in self._spare if not task.places <= places)

    def _check_clocks(self) -> list[Outcome]:
        """End workers that have been silent for too long."""
        limit, now = self._pool.timeout, time.monotonic()
        if limit is None:
            return []
        late = [worker for worker in self._workers.values() if worker.begun and now - worker.since > limit]
        for worker in late:
            worker.handle.kill()
        reason = f"TimeoutError: no votes within {limit:g} seconds"
        return [outcome for worker in late for outcome in self._on_death(worker, WorkerDied(reason))]

    # The tasks

    def _hungry(self) -> _WorkerState | None:
        """A worker that could begin more than there is for it."""
        for worker in self._workers.values():
            if self._may_hold_more(worker) and not worker.own and not self._holds_suspect(worker):
                return worker
        return None

    def _hand_out(self, steal: bool) -> None:
        """Give every worker as much as it may hold."""
        for worker in self._workers.values():
            while self._may_hold_more(worker) and (task := self._next(worker, steal)) is not None:
                self._give(worker, task)

    def _may_hold_more(self, worker: _WorkerState) -> bool:
        return worker.ready is not None and len(worker.begun) < worker.ready.ahead + self._pool.in_hand

    def _holds_suspect(self, worker: _WorkerState) -> bool:
        return any(task in self._suspects for task in worker.begun)

    def _next(self, worker: _WorkerState, steal: bool) -> Task | None:
        """The next task for this worker: left over from the dead, its own, or another worker's."""
        if self._holds_suspect(worker):  # it is tried alone
            return None
        for source in (self._spare, worker.own):
            if source:
                return None if source[0] in self._suspects and worker.begun else source.popleft()
        return self._steal_task(worker) if steal else None

    def _steal_task(self, worker: _WorkerState) -> Task | None:
        rich = max(self._workers.values(), key=lambda other: len(other.own))
        return rich.own.pop() if rich is not worker and rich.own else None

    def _let_rest(self, worker: _WorkerState) -> None:
        """There is nothing more to give: let it finish the oldest of what it has only begun. The decisions that follow
        are made while it votes on the others.
        """
        if self._may_hold_more(worker) and worker.begun and not worker.resting:
            worker.handle.call("rest")
            worker.resting = True

    def _give(self, worker: _WorkerState, task: Task) -> None:
        if not worker.begun:
            worker.since = time.monotonic()
        worker.begun.append(task)
        worker.handle.call("give", task, *(self._shared_image(part.place) for part in task.parts))
        worker.resting = worker.ready is not None and worker.ready.ahead == 0  # it answers every call at once

    def _shared_image(self, place: int) -> Any:
        """The image as an argument of calls; the last ones are kept in the form in which they are shared."""
        if place not in self._images:
            self._images[place] = self._pool.share(self._plan.image(place))
            while len(self._images) > 1 + IMAGES_KEPT * self._plan.sharing * len(self._workers):
                del self._images[next(iter(self._images))]
        return self._images[place]


class _SelectionFirst:
    """Of every image, the blocks of selection before those of estimation, in whatever order they come."""

    def __init__(self) -> None:
        self._open: dict[int, set[VoteBlock]] = {}
        self._held: dict[int, list[Outcome]] = {}

    def expect(self, tasks: list[Task]) -> None:
        for place, block in (part for task in tasks for part in task.parts):
            if block.purpose == Purpose.SELECTION:
                self._open.setdefault(place, set()).add(block)

    def sort(self, outcome: Outcome) -> list[Outcome]:
        """The outcomes that may be written now that this one is there."""
        parts = outcome.task.parts
        if outcome.votes is None:
            for place in outcome.task.places:
                self._open.pop(place, None)
                self._held.pop(place, None)
            return [outcome]
        if parts[0].block.purpose != Purpose.SELECTION:
            waits = next((place for place, _ in parts if self._open.get(place)), None)
            if waits is not None:
                self._held.setdefault(waits, []).append(outcome)
            return [outcome] if waits is None else []
        return [outcome, *(held for part in parts for held in self._close(part))]

    def _close(self, part: Part) -> list[Outcome]:
        """What waited for the last block of selection of an image, if this is it."""
        self._open[part.place].discard(part.block)
        if self._open[part.place]:
            return []
        del self._open[part.place]
        return self._held.pop(part.place, [])
