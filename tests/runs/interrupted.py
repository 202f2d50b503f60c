"""A small run that is killed, starved of disk and shared between processes: see `main`.

The processes are forks of this one, so that a kill costs milliseconds.
"""

import dataclasses
import itertools
import multiprocessing
import os
import random
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import settings
from soundsmooth.independence.measure import RowRecheck, RowsToRecheck, rows_by_block, sample_rows
from soundsmooth.runs.database import Database, StoreError
from soundsmooth.runs.leases import LeaseClock
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import RunPlan, plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.reader import terms_at
from soundsmooth.runs.store import Store

NO_SPACE = 7
FORK = multiprocessing.get_context("fork")
QUICK = LeaseClock(look=0.01)
LOOKED: dict[str, Any] = {"width": "0.01%", "looks": (40, 100, 200, 400)}


def inputs(count: int = 8) -> Inputs:
    """Images from clear to doubtful; their numbers are not their places."""
    levels = tuple(np.full((2, 2), 40 + 25 * (i % 8), np.int16) for i in range(count))
    return Inputs(tuple(range(5, 5 + 3 * count, 3)), levels, [None if i == 2 else int(i % 8 > 3) for i in range(count)])


def small_run(noise: str = "fresh", count: int = 40, scores: object = brightness_of_three) -> RunPlan:
    """22 or more blocks for each image."""
    smoothing = ss.Smoother(scores, "0.5", batch_size=10, threads=1, independence="assumed").smoothing
    return plan_run(LocalPool(smoothing), inputs(count), settings(n0=20, n=400, noise=noise), secret("kill", "ab" * 32))


def looked_run(given: Inputs | None = None, scores: object = brightness_of_three, **asked: Any) -> RunPlan:
    """Images that vote to the end, for the most part, in blocks of 20 copies."""
    smoothing = ss.Smoother(scores, "0.5", batch_size=10, threads=1, independence="assumed").smoothing
    chosen = settings(n0=20, n=400, **(asked or LOOKED))
    return plan_run(LocalPool(smoothing), given or inputs(3), chosen, secret("end", "ab" * 32))


def interrupt(plan: RunPlan, path: Path, copies: int) -> None:
    """Vote, and stop as Ctrl-C does when so many copies have voted."""
    left = copies

    def advance(count: int) -> None:
        nonlocal left
        left -= count
        if left <= 0:
            raise KeyboardInterrupt

    with open_store(path, plan) as store, suppress(KeyboardInterrupt):
        for _ in certify_into(store, plan, advance, QUICK):
            pass


def without_time(certificate: ss.Certificate) -> ss.Certificate:
    """And without the list of packages, which depends on what else this process has imported."""
    return dataclasses.replace(certificate, seconds=0.0, environment={})


def contents(path: Path) -> tuple[list[ss.Certificate], list[tuple]]:
    """Every certificate and every block, timings aside; the file must be sound and hold nothing twice."""
    with Store.read(path) as store:
        assert store.db.one("PRAGMA integrity_check") == "ok"
        assert not list(store.findings())
        blocks = list(store.db.rows("SELECT place, purpose, first, count, votes, hits FROM blocks ORDER BY 1, 2, 3"))
        assert len(blocks) == store.progress().images * len(store.all_blocks)
        assert not store.db.one("SELECT COUNT(*) FROM claims")
        return [without_time(certificate) for certificate in store.certificates()], blocks


def finish(path: Path, noise: str = "fresh") -> None:
    run = small_run(noise)
    with open_store(path, run) as store:
        for _ in certify_into(store, run, clock=QUICK):
            pass


def start(work: object, *arguments: object) -> multiprocessing.Process:
    child = FORK.Process(target=work, args=arguments)
    child.start()
    return child


def _checkpoint_often() -> None:
    """So that kills also strike while the log is copied into the database."""
    durable = Database._make_durable

    def often(db: Database) -> None:
        durable(db)
        db._connection.execute("PRAGMA wal_autocheckpoint = 4")

    Database._make_durable = often


def _killed_at_a_statement(path: Path, noise: str, after: int) -> None:
    """Work, and end by SIGKILL in the middle of a transaction or between two."""
    _checkpoint_often()
    execute, left = Database.execute, [after]

    def counting(db: Database, statement: str, *values: object) -> object:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return execute(db, statement, *values)

    Database.execute = counting
    finish(path, noise)


def _slowly(path: Path, noise: str) -> None:
    _checkpoint_often()
    finish(path, noise)


def killed(path: Path, kills: int, noise: str) -> list[int]:
    """Kill the run that often: half of the time after a random time, half of the time at a random statement.

    Returns how many blocks were stored after every fifth kill. (Who looks at the file also tidies it up; mostly the
    next process is to find it as the kill has left it.)
    """
    chance, found = random.Random(), []
    statements = _statements(kills // 2, chance)
    for number in range(1, kills + 1):
        if number % 2:
            child = start(_killed_at_a_statement, path, noise, statements.pop())
        else:
            child = start(_slowly, path, noise)
            time.sleep(chance.uniform(0, 0.05))
            child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL, child.exitcode
        if number % 5 == 0:
            found.append(_blocks(path))
    return found


def _statements(count: int, chance: random.Random) -> list[int]:
    """One of each of so many equal parts of 1 … 59, shuffled.

    A process stores a block with its 15th statement, and one more with every fifth after that: 14 of the 59 numbers are
    too small for one, so two of 5 parts at most hold such a number, and 8 of 30.
    """
    edges = [1 + 59 * part // count for part in range(count + 1)] if count else []
    found = [chance.randrange(low, high) for low, high in itertools.pairwise(edges)]
    chance.shuffle(found)
    return found


def crowd_killed(path: Path, rounds: int, noise: str) -> None:
    """Three processes at a time, each killed at a time of its own."""
    chance = random.Random()
    for _ in range(rounds):
        children = [start(_slowly, path, noise) for _ in range(3)]
        for child in children:
            time.sleep(chance.uniform(0, 0.02))
            child.kill()
        for child in children:
            child.join()


def _blocks(path: Path) -> int:
    if terms_at(path) is None:
        return 0
    with Store.read(path) as store:
        return store.db.one("SELECT COUNT(*) FROM blocks")


def _with_little_room(path: Path, noise: str, pages: int) -> None:
    run = small_run(noise)
    try:
        with open_store(path, run) as store:
            store.db.execute(f"PRAGMA max_page_count = {store.db.one('PRAGMA page_count') + pages}")
            for _ in certify_into(store, run, clock=QUICK):
                pass
    except StoreError as error:
        os._exit(NO_SPACE if "the disk is full" in str(error) else 1)


def _with_small_files(path: Path, noise: str, limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    try:
        finish(path, noise)
    except StoreError as error:
        os._exit(NO_SPACE if "what was finished is kept" in str(error) else 1)


def starved(path: Path, noise: str) -> tuple[int, int]:
    """Full disks and I/O errors in turn, each time a little later. Returns how often each has struck."""
    full = failed = 0
    for step in range(200):
        child = start(_with_little_room, path, noise, 2)
        child.join()
        assert child.exitcode in (0, NO_SPACE), child.exitcode
        full += child.exitcode == NO_SPACE
        if child.exitcode == 0:
            return full, failed
        child = start(_with_small_files, path, noise, 34_000 + 16_000 * step)
        child.join()
        assert child.exitcode in (0, NO_SPACE), child.exitcode
        failed += child.exitcode == NO_SPACE
    raise AssertionError("the run never ended")


class Counting:
    """Every call of the model leaves a byte behind."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        with self.log.open("ab", buffering=0) as file:
            file.write(b".")
        return brightness_of_three(batch)


def _counted(path: Path, noise: str, log: Path) -> None:
    run = small_run(noise, scores=Counting(log))
    with open_store(path, run) as store:
        for _ in certify_into(store, run, clock=QUICK):
            pass


def together(path: Path, noise: str, processes: int) -> int:
    """Several processes on one file, from the first moment on. Returns how many batches were voted in all."""
    log = path.with_suffix(".calls")
    children = [start(_counted, path, noise, log) for _ in range(processes)]
    for child in children:
        child.join()
        assert child.exitcode == 0, child.exitcode
    return log.stat().st_size


def _log_rows(log: Path) -> None:
    """From now on every row of a run that is voted alone leaves a byte behind."""
    hits = RowRecheck.hits

    def logged(alone: RowRecheck, number: int, x: np.ndarray, again: RowsToRecheck) -> np.ndarray:
        with log.open("ab", buffering=0) as file:
            file.write(b"." * len(again.rows))
        return hits(alone, number, x, again)

    RowRecheck.hits = logged


def measured_run() -> RunPlan:
    """Three images, of which the last one is doubtful; 22 blocks for each, and rows in nearly all of them."""
    smooth = ss.Smoother(brightness_of_three, "0.5", batch_size=10, threads=1, independence="measured", again=60)
    return plan_run(LocalPool(smooth.smoothing), inputs(3), settings(n0=20, n=200), secret("kill", "ab" * 32))


def _killed_after_commits(path: Path, commits: int) -> None:
    _log_rows(path.with_suffix(".rows"))
    run, left = measured_run(), [commits]

    def advance(_: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with open_store(path, run) as store:
        for _ in certify_into(store, run, advance, QUICK):
            pass


def _killed_within_a_transaction(path: Path, after: int) -> None:
    execute, left = Database.execute, [after]

    def counting(db: Database, statement: str, *values: object) -> object:
        left[0] -= 1
        if left[0] <= 0 and "alone" in statement:
            os.kill(os.getpid(), signal.SIGKILL)
        return execute(db, statement, *values)

    Database.execute = counting
    _killed_after_commits(path, 0)


def lives(path: Path, life: object, step: int, grow: int = 0) -> int:
    """How often it takes to finish a run of which each life ends early; each a little later, so that all end."""
    for number in range(1, 200):
        child = start(life, path, step + grow * number)
        child.join()
        if child.exitcode == 0:
            return number
        assert child.exitcode == -signal.SIGKILL, child.exitcode
    raise AssertionError("the run never ended")


def doubtful_rows(path: Path) -> int:
    """How many different rows had to be voted alone."""
    with Store.read(path) as store:
        terms, found = store.terms, 0
        for place, (number,) in enumerate(store.db.rows("SELECT number FROM images ORDER BY place")):
            drawn = sample_rows(terms.secret, terms.promise, number, terms.settings.n)
            blocks = [(each.block, each.hits) for each in store.blocks(place)]
            found += sum(len(rows) for rows in rows_by_block(drawn, blocks).values())
        return found


def rows_killed(path: Path, step: int) -> tuple[int, int, int]:
    """Lives, rows that were voted alone, rows that had to be."""
    needed = lives(path, _killed_after_commits, step)
    return needed, path.with_suffix(".rows").stat().st_size, doubtful_rows(path)


def main(what: str, name: str, noise: str, count: str) -> None:
    """kill PATH NOISE TIMES | crowd PATH NOISE ROUNDS | starve PATH NOISE 0 | together PATH NOISE PROCESSES

    rows PATH fresh COMMITS | cut PATH fresh STATEMENTS: a run whose independence is measured
    """
    path, number = Path(name), int(count)
    if what == "kill":
        print(*killed(path, number, noise))
    elif what == "crowd":
        crowd_killed(path, number, noise)
    elif what == "starve":
        print(*starved(path, noise))
    elif what == "rows":
        print(*rows_killed(path, number))
    elif what == "cut":
        print(lives(path, _killed_within_a_transaction, number, grow=30))
    else:
        print(together(path, noise, number))
    if what in ("kill", "crowd", "starve"):
        finish(path, noise)
