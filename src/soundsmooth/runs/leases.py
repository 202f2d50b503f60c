"""Who works on which image, so that processes that share a run do not do the same work twice.

Claims only save work. Votes do not depend on who casts them, and the first stored block wins: a claim that is
wrongly taken over costs time and nothing else.
"""

import os
import platform
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .database import StoreError
from .store import Store

#: Owners in this very process that are still at work.
_AT_WORK: set[str] = set()


@dataclass(frozen=True)
class LeaseClock:
    """The clocks, and how to wait."""

    now: Callable[[], float] = time.time
    """What is written as a sign of life. Nobody compares it with a clock."""
    monotonic: Callable[[], float] = time.monotonic
    """By which this process waits: its own, which nobody sets."""
    sleep: Callable[[float], None] = time.sleep
    look: float = 0.5
    """Seconds between two looks at what the others have finished."""
    expiry: float = 300.0
    """Seconds without a new sign of life after which an owner on another machine is taken for dead."""


@dataclass(frozen=True)
class LeaseHolder:
    """A process, in a way that its number alone does not tell: numbers are used again."""

    id: str
    machine: str
    boot: str
    """The machine's start, and the process's name space; a claim from before a restart is void."""
    pid: int
    started: str

    @classmethod
    def me(cls) -> "LeaseHolder":
        pid = os.getpid()
        return cls(secrets.token_hex(8), platform.node(), _boot(), pid, _start_of(pid))

    def alive(self, silent: float, expiry: float) -> bool:
        """Whether the owner still works, if it was seen to be silent for so many seconds."""
        here = LeaseHolder.me()
        if self.machine != here.machine or sys.platform == "win32":  # where a process cannot be asked for
            return silent < expiry
        if self.boot != here.boot or not _exists(self.pid) or _start_of(self.pid) != self.started:
            return False
        return self.pid != here.pid or self.id in _AT_WORK


def _boot() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    """When the process began, in the clock ticks of its machine; "" where the system does not tell, or it is dead."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]  # a zombie has a number, but does not work any more


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it exists and belongs to somebody else
        return True
    return True


@dataclass
class Leases:
    """What this process has claimed of a run."""

    store: Store
    clock: LeaseClock = field(default_factory=LeaseClock)
    owner: LeaseHolder = field(default_factory=LeaseHolder.me)
    _heard: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of other owners: the last sign of life, and when it was first seen, by this process's clock."""

    def __enter__(self) -> "Leases":
        owner = self.owner
        _AT_WORK.add(owner.id)
        self.store.db.execute(
            "INSERT INTO owners (id, machine, boot, pid, started, beat) VALUES (?, ?, ?, ?, ?, ?)",
            owner.id, owner.machine, owner.boot, owner.pid, owner.started, self.clock.now(),
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        _AT_WORK.discard(self.owner.id)
        with suppress(StoreError):  # on a full disk: they are void with the process that made them
            self._forget(self.owner.id)

    def take(self, group: int = 1) -> list[int]:
        """Claim the next open image that nobody works on, with all such images of its group: of as many consecutive
        places. Those without a failed attempt come first, then they come in order.
        """
        db = self.store.db
        free = "SELECT place FROM images WHERE state = 0 AND place NOT IN (SELECT place FROM claims)"
        with db.transaction():
            self._drop_the_dead()
            first = db.one(f"{free} ORDER BY attempts, place LIMIT 1")
            start = 0 if first is None else first // group * group
            within = f"{free} AND place >= ? AND place < ? ORDER BY place"
            places = [] if first is None else [place for (place,) in db.rows(within, start, start + group)]
            db.execute_many("INSERT INTO claims VALUES (?, ?)", ((place, self.owner.id) for place in places))
            self.beat()
        return places

    def beat(self) -> None:
        """A sign of life, in the transaction of whatever else is written."""
        self.store.db.execute("UPDATE owners SET beat = ? WHERE id = ?", self.clock.now(), self.owner.id)

    def release(self, place: int) -> None:
        self.store.db.execute("DELETE FROM claims WHERE place = ? AND owner = ?", place, self.owner.id)

    def release_all(self) -> None:
        self.store.db.execute("DELETE FROM claims WHERE owner = ?", self.owner.id)

    def others_at_work(self) -> bool:
        """Whether another process that may still live takes part in the run.

        Guarantee: if it is False inside a transaction, whoever takes part later begins after that transaction.
        """
        self._drop_the_dead()
        return bool(self.store.db.one("SELECT EXISTS (SELECT 1 FROM owners WHERE id != ?)", self.owner.id))

    def _drop_the_dead(self) -> None:
        others = "SELECT id, machine, boot, pid, started, beat FROM owners WHERE id != ?"
        for *owner, beat in list(self.store.db.rows(others, self.owner.id)):
            if not LeaseHolder(*owner).alive(self._silent(owner[0], beat), self.clock.expiry):
                self._forget(owner[0])
        self.store.db.execute("DELETE FROM claims WHERE owner NOT IN (SELECT id FROM owners)")  # nobody would free them

    def _silent(self, owner: str, beat: float) -> float:
        """For how many seconds the owner's sign of life has been the same, as far as this process has seen.

        Guarantee: it depends on whether the sign changes, and not on what it says: the clocks of other machines, ahead
        or behind, make no difference.
        """
        now = self.clock.monotonic()
        sign, since = self._heard.get(owner, (None, now))
        if sign != beat:
            self._heard[owner], since = (beat, now), now
        return now - since

    def _forget(self, owner: str) -> None:
        with self.store.db.transaction():
            self.store.db.execute("DELETE FROM claims WHERE owner = ?", owner)
            self.store.db.execute("DELETE FROM owners WHERE id = ?", owner)
