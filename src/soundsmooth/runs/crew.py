"""Blocks for workers in other processes, which may die, hang or arrive late; the outcomes are the same.

Every worker is given the blocks of images of its own, a few at a time, and when there are no images left it takes
blocks from whoever has most. A block whose worker dies is given to another one, with its own noise. If a worker dies
(or hangs) over several blocks, nobody knows which it was: each is tried again alone, and only a block that does it
alone counts as failed.
"""

import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from ..noise import Purpose
from ..promise import Inputs, Secret
from ..settings import Settings
from .blocks import VoteBlock
from .checked import some
from .engine import Run
from .station import MIXED, Arrival, Build, Kind, Survey, run_elsewhere
from .voter import ATTEMPTS, Image, Outcome, Task

#: Blocks a worker holds beyond those it looks ahead at: one to vote on, one for when that is finished.
IN_HAND = 2
#: So many images for each worker are kept where the workers can fetch them.
IMAGES_KEPT = 3
#: Seconds between two looks at clocks and at the size of the crew.
LOOK = 1.0
#: When so many workers in a row die before they have voted on anything, more of them will not help.
BAD_STARTS = 5
#: So long a run waits for a cluster that has lost all its machines.
UNMANNED_SECONDS = 600.0
#: Seconds in which the first worker must have found a place and built its model; and in which it must have checked it.
FIRST_SECONDS = 900.0
#: A check of rows is as long as so many of the shortest blocks.
CHECK_BLOCKS = 10
#: How to go on with a model that cannot be checked.
UNCHECKED = "independence assumed leaves the check out, and the certificate says so"


class Death(NamedTuple):
    """The end of a worker, and whether the blocks it held may have caused it (not if its machine was lost)."""

    reason: str
    suspicious: bool = True


class Hand(Protocol):
    """A `Station` somewhere else. Calls are queued and answered in order."""

    def call(self, method: str, *arguments: Any) -> None: ...

    def kill(self) -> None: ...


class News(NamedTuple):
    """The answer to a hand's oldest call, the error that it raised, or the hand's death."""

    hand: Hand
    what: Any


class Crew(Protocol):
    """Where hands come from."""

    def strength(self) -> int:
        """How many hands there can be now."""

    def hire(self) -> Hand:
        """One more; it may take its time to arrive."""

    def share(self, value: Any) -> Any:
        """The value in a form in which it is sent to each machine once, however many calls it is an argument of."""

    def wait(self, hands: list[Hand], seconds: float) -> list[News]:
        """What has been answered, after so many seconds at the latest."""

    def describe(self) -> Mapping[str, str]:
        """What is recorded about it beside a certificate."""


@dataclass(frozen=True)
class Muster:
    """A crew of which the first hand has built the model and has said what is to be promised of it.

    with RayCrew(Need(gpus=1), address="auto") as crew:
        muster = Muster.of(crew, SmootherRecipe.of("model.onnx", "0.25", device="cuda"), inputs, settings(n=100_000))
        run = muster.run(secret())
        with open_store(Path("run.db"), run) as store:
            for issued in certify_into(store, run, engine=muster.engine(run)): ...
    """

    crew: Crew
    build: Build
    inputs: Inputs
    settings: Settings
    hand: Hand
    found: Survey

    @classmethod
    def of(cls, crew: Crew, build: Build, inputs: Inputs, settings: Settings, timeout: float | None = None) -> "Muster":
        """A ValueError if the model cannot be built, or is not what would be promised; `timeout` as for `engine`."""
        hand, images = crew.hire(), some(inputs.levels)
        hand.call("survey", crew.share(build), images, settings)
        found = _first_answer(crew, hand, "the model was built", "is there a free place for it, and enough memory?")
        if found.check:
            hand.call("check", images, settings)
            seconds = FIRST_SECONDS if timeout is None else CHECK_BLOCKS * timeout
            _first_answer(crew, hand, "the model's rows were checked", UNCHECKED, seconds)
        return cls(crew, build, inputs, settings, hand, found)

    def run(self, secret: Secret, mixed: bool = False) -> Run:
        """What is promised; with `mixed`, that workers of several kinds may take part (docs/scale.md)."""
        return run_elsewhere(self.found, self.inputs, self.settings, secret, mixed)

    def engine(self, run: Run, timeout: float | None = None) -> "Elsewhere":
        """Who votes; a worker that is silent for `timeout` seconds is ended, and its blocks are given to others."""
        return Elsewhere(self.crew, self.build, run, self.found.kind, self.hand, timeout)


def _first_answer(crew: Crew, hand: Hand, work: str, advice: str, seconds: float | None = None) -> Any:
    """The answer to the only call that the hand was given; what goes wrong is raised."""
    start, limit = time.monotonic(), FIRST_SECONDS if seconds is None else seconds
    while time.monotonic() - start < limit:
        for news in crew.wait([hand], min(LOOK, limit)):
            if isinstance(news.what, BaseException):
                raise news.what
            if isinstance(news.what, Death):
                raise ValueError(f"a worker died while {work}: {news.what.reason}; {advice}")
            return news.what
    hand.kill()
    raise ValueError(f"no answer within {limit:g} seconds while {work}; {advice}")


@dataclass(eq=False)
class _Post:
    """A hand at work."""

    hand: Hand
    arrival: Arrival | None = None
    own: deque[Task] = field(default_factory=deque)
    begun: list[Task] = field(default_factory=list)
    resting: bool = True
    since: float = 0.0
    """When it last gave an answer, or was given something to do after it had nothing."""


@dataclass(eq=False)
class Elsewhere:
    """The engine whose workers are in other processes."""

    crew: Crew
    build: Build
    run: Run
    kind: Kind
    """The kind that the first worker had: all must have it, unless the promise says `mixed`."""
    first: Hand | None = None
    timeout: float | None = None
    """Seconds after which a worker that has not answered is killed."""
    _kinds: dict[Kind, None] = field(default_factory=dict)

    @cached_property
    def shared(self) -> tuple[Any, Any]:
        return self.crew.share(self.build), self.crew.share(self.run.duty)

    @property
    def environment(self) -> Mapping[str, str]:
        found = {**self.run.environment, **self.crew.describe()}
        if self.run.identity.device == MIXED:
            found[MIXED] = "; ".join(sorted(str(kind) for kind in self._kinds))
        return found

    def outcomes(self, groups: Iterator[list[Task]], keep: int | None) -> Generator[list[Outcome], None, None]:
        first, self.first = self.first, None  # afterwards new ones are hired
        shift = _Shift(self, groups, keep)
        try:
            yield from shift.outcomes(first)
        finally:
            shift.close()

    def accept(self, kind: Kind) -> None:
        """A ValueError for a worker of another kind, unless that was promised."""
        self._kinds[kind] = None
        if kind != self.kind and self.run.identity.device != MIXED:
            raise ValueError(
                f"the workers are of different kinds: {self.kind}; and {kind}. Their votes may round differently: "
                "leave those nodes out, or begin a run with --allow-mixed"
            )


class _Shift:
    """From the first block to the last."""

    def __init__(self, engine: Elsewhere, groups: Iterator[list[Task]], keep: int | None) -> None:
        self._engine, self._crew, self._groups = engine, engine.crew, groups
        self._call = (*engine.shared, keep)
        self._posts: dict[Hand, _Post] = {}
        self._spare: deque[Task] = deque()
        self._suspects: dict[Task, list[str]] = {}
        self._images = _Images(engine.crew, engine.run)
        self._order = _SelectionFirst()
        self._bad_starts = 0
        self._looked = 0.0
        self._manned = time.monotonic()
        self._failed: set[int] = set()

    def outcomes(self, first: Hand | None) -> Iterator[list[Outcome]]:
        if first is not None:
            self._welcome(first)
        while self._hand_out():
            self._hire()
            came: list[Outcome] = []
            for hand, what in self._crew.wait(list(self._posts), LOOK):
                came += self._hear(self._posts[hand], what)
            came += self._check_clocks()
            ready = [outcome for one in came for outcome in self._order.sort(one)]
            if ready:
                yield ready

    def close(self) -> None:
        for post in self._posts.values():
            post.hand.kill()

    # The hands

    def _hire(self) -> None:
        """As many hands as there can be now: machines may have joined, and hands have died."""
        if self._posts and time.monotonic() - self._looked < LOOK:
            return
        self._looked = time.monotonic()
        if self._posts:
            self._manned = self._looked
        elif self._looked - self._manned > UNMANNED_SECONDS:
            raise ValueError(f"for {UNMANNED_SECONDS:.0f} seconds there was no worker; the same command continues")
        for _ in range(self._crew.strength() - len(self._posts)):
            self._welcome(self._crew.hire())

    def _welcome(self, hand: Hand) -> None:
        self._posts[hand] = _Post(hand)
        hand.call("begin", *self._call)

    def _hear(self, post: _Post, what: Any) -> list[Outcome]:
        if isinstance(what, BaseException):  # not from the model on a block: that is an outcome
            raise what
        if isinstance(what, Death):
            return self._bury(post, what)
        post.since, self._bad_starts = time.monotonic(), 0
        if isinstance(what, Arrival):
            self._engine.accept(what.kind)
            post.arrival = what
            return []
        return [self._settle(post, outcome) for outcome in what if outcome.task in post.begun]

    def _settle(self, post: _Post, outcome: Outcome) -> Outcome:
        """Off the list; with the deaths that the block has caused before."""
        post.begun.remove(outcome.task)
        errors = (*self._suspects.pop(outcome.task, ()), *outcome.errors)
        if outcome.votes is None:
            self._give_up(outcome.task.place)
        return outcome._replace(errors=errors)

    def _bury(self, post: _Post, death: Death) -> list[Outcome]:
        """What the dead held goes to others; whatever is suspected of having killed it is tried alone."""
        del self._posts[post.hand]
        if death.suspicious:
            self._bad_starts += not post.begun
            if self._bad_starts >= BAD_STARTS:
                raise ValueError(f"{BAD_STARTS} workers died before they could vote; the last: {death.reason}")
            for task in post.begun:
                errors = self._suspects.setdefault(task, [])
                if len(post.begun) == 1:
                    errors.append(death.reason)
        failed = [task for task in post.begun if len(self._suspects.get(task, ())) >= ATTEMPTS]
        lost = [task for task in (*post.begun, *post.own) if task not in failed]
        self._spare.extendleft(reversed(lost))
        return [self._fail(task) for task in failed]

    def _fail(self, task: Task) -> Outcome:
        self._give_up(task.place)
        return Outcome(task, None, tuple(self._suspects.pop(task)), 0.0)

    def _give_up(self, place: int) -> None:
        """Nobody is given another block of that image, and none is waited for."""
        self._failed.add(place)
        for post in self._posts.values():
            post.begun = [task for task in post.begun if task.place != place]

    def _check_clocks(self) -> list[Outcome]:
        """End hands that have been silent for too long."""
        limit, now = self._engine.timeout, time.monotonic()
        if limit is None:
            return []
        late = [post for post in self._posts.values() if post.begun and now - post.since > limit]
        for post in late:
            post.hand.kill()
        reason = f"TimeoutError: no votes within {limit:g} seconds"
        return [outcome for post in late for outcome in self._bury(post, Death(reason))]

    # The blocks

    def _hand_out(self) -> bool:
        """Give every hand as much as it may hold; False when there is nothing left, neither to give nor to wait for."""
        for post in self._posts.values():
            while self._may_hold_more(post):
                task = self._next(post)
                if task is None:
                    self._let_rest(post)
                    break
                self._give(post, task)
        if any(post.begun or post.own for post in self._posts.values()):
            return True
        while not self._spare and self._take_group(self._spare):
            pass
        return bool(self._spare)

    def _may_hold_more(self, post: _Post) -> bool:
        return post.arrival is not None and len(post.begun) < post.arrival.ahead + IN_HAND

    def _next(self, post: _Post) -> Task | None:
        """The next block for this hand: left over from the dead, its own, a new image's, or another hand's."""
        if any(task in self._suspects for task in post.begun):  # alone
            return None
        for source in (self._spare, post.own):
            while source and source[0].place in self._failed:
                source.popleft()
            if source:
                return None if source[0] in self._suspects and post.begun else source.popleft()
        while not post.own and self._take_group(post.own):
            pass
        return post.own.popleft() if post.own else self._steal(post)

    def _steal(self, post: _Post) -> Task | None:
        rich = max(self._posts.values(), key=lambda other: len(other.own))
        while rich is not post and rich.own:
            task = rich.own.pop()
            if task.place not in self._failed:
                return task
        return None

    def _take_group(self, into: deque[Task]) -> bool:
        group = next(self._groups, None)
        if group is None:
            return False
        self._order.expect(group)
        into.extend(group)
        return True

    def _let_rest(self, post: _Post) -> None:
        """There is nothing to give: let it finish what it has only begun."""
        if post.begun and not post.resting:
            post.hand.call("rest")
            post.resting = True

    def _give(self, post: _Post, task: Task) -> None:
        if not post.begun:
            post.since = time.monotonic()
        post.hand.call("give", task, self._images.at(task.place, IMAGES_KEPT * len(self._posts)))
        post.begun.append(task)
        post.resting = post.arrival is not None and post.arrival.ahead == 0  # it answers every call at once


class _Images:
    """Images as arguments of calls; the last ones are kept in the form in which they are shared."""

    def __init__(self, crew: Crew, run: Run) -> None:
        self._crew, self._inputs = crew, run.inputs
        self._shared: dict[int, Any] = {}

    def at(self, place: int, most: int) -> Any:
        """The image at a place; of the others, `most` are kept."""
        if place not in self._shared:
            image = Image(self._inputs.indices[place], self._inputs.levels[place])
            self._shared[place] = self._crew.share(image)
            while len(self._shared) > 1 + most:
                del self._shared[next(iter(self._shared))]
        return self._shared[place]


class _SelectionFirst:
    """Of every image, the blocks of selection before those of estimation, in whatever order they come."""

    def __init__(self) -> None:
        self._open: dict[int, set[VoteBlock]] = {}
        self._held: dict[int, list[Outcome]] = {}

    def expect(self, tasks: list[Task]) -> None:
        for task in tasks:
            if task.block.purpose == Purpose.SELECTION:
                self._open.setdefault(task.place, set()).add(task.block)

    def sort(self, outcome: Outcome) -> list[Outcome]:
        """What may be written now that this outcome is there."""
        place, block, _ = outcome.task
        if outcome.votes is None:
            self._held.pop(place, None)
            return [outcome]
        if block.purpose != Purpose.SELECTION:
            if self._open.get(place):
                self._held.setdefault(place, []).append(outcome)
                return []
            return [outcome]
        self._open[place].discard(block)
        if self._open[place]:
            return [outcome]
        del self._open[place]
        return [outcome, *self._held.pop(place, [])]
