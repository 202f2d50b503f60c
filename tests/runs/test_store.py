"""The store by itself: terms that cannot change, blocks that are written once, files that are no runs."""

import math
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch

import soundsmooth as ss
from classifiers import brightness_of_three
from runs.interrupted import contents, finish, inputs, small_run
from soundsmooth.certification.certify import Counts
from soundsmooth.certification.promise import Inputs, Promise, Secret, secret
from soundsmooth.certification.settings import settings
from soundsmooth.models import Votes
from soundsmooth.noise import Noisy, Purpose
from soundsmooth.noise.sources import CopyRange
from soundsmooth.runs import database, leases
from soundsmooth.runs.database import StoreError
from soundsmooth.runs.leases import LeaseClock, LeaseHolder, Leases
from soundsmooth.runs.pipeline import certify_into, open_store, terms_of
from soundsmooth.runs.plan import RunPlan, plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.reader import terms_at
from soundsmooth.runs.store import Store
from soundsmooth.smoothing.blocks import VoteBlock, block_size, hits_of, packed_bits, vote_blocks
from soundsmooth.smoothing.voting import PendingVotes, Voting, counted

FIRST = VoteBlock(Purpose.SELECTION, 0, 20)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with open_store(tmp_path / "run.db", small_run(count=4)) as opened:
        yield opened


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("finished") / "run.db"
    finish(path)
    return path


# Blocks


@pytest.mark.parametrize(
    ("n", "batch", "dimension", "noise", "size"),
    [
        (100_000, 100, 784, "fresh", 5000),  # twenty blocks
        (1_000_000, 100, 784, "fresh", 10_000),  # about 10 000 copies
        (100_000, 10_000, 3072, "fresh", 10_000),  # at least a batch
        (100_000, 700, 3072, "fresh", 4900),  # whole batches
        (1000, 100, 784, "fresh", 100),
        (10, 100, 784, "fresh", 100),
        (100_000, 100, 3 * 224 * 224, "fresh", 5000),
        (100_000, 100, 3 * 224 * 224, "batchwise", 800),  # its noise is kept in memory: 2²⁷ elements
        (100_000, 100, 1 << 30, "batchwise", 100),
    ],
)
def test_the_size_of_blocks(n: int, batch: int, dimension: int, noise: str, size: int) -> None:
    assert block_size(settings(n=n, noise=noise), batch, dimension) == size


@pytest.mark.parametrize(("n0", "n", "size"), [(100, 1000, 50), (7, 13, 5), (100, 100, 1000), (1, 1, 1)])
def test_blocks_cover_each_sample_once_and_in_order(n0: int, n: int, size: int) -> None:
    blocks = vote_blocks(settings(n0=n0, n=n), size)
    for purpose, copies in ((Purpose.SELECTION, n0), (Purpose.ESTIMATION, n)):
        assert [i for block in blocks if block.purpose == purpose for i in block.copies] == list(range(copies))
    assert blocks == sorted(blocks)


def test_a_bitmap_holds_the_hits() -> None:
    labels = np.array([1, 0, -1, 1, 2, 1, 1, 0, 1, 0, 1])
    votes = Votes(labels, 3)
    assert counted(votes) == Counts((3, 6, 1), 1)
    packed = packed_bits(votes.labels == 1)
    assert np.array_equal(hits_of(packed, 11), labels == 1)
    for wrong in (8, 10, 17, 100):
        with pytest.raises(ValueError, match="not one of"):
            hits_of(packed, wrong)
    for damaged in (packed[:-1], packed + b"\0", b"", b"no zlib", bytes([packed[0] ^ 1]) + packed[1:]):
        with pytest.raises(ValueError, match="bitmap of hits"):
            hits_of(damaged, 11)


class OnDevice:
    """A model whose votes are torch tensors, as on a GPU: the class is the level of the first pixel."""

    batch = None
    placement = None

    def flags(self) -> dict[str, str]:
        return {}

    def vote(self, values: np.ndarray) -> Votes:
        return Votes(torch.from_numpy(values.reshape(len(values), -1)[:, 0].astype(np.int64)), 3)


class Doubtful:
    """Noise that is wrong, and says so, until it is asked to be sure."""

    def __init__(self, doubt: int) -> None:
        self.doubt = doubt

    def noisy(self, purpose: Purpose, x: np.ndarray, first: int, copies: int, sure: bool = False) -> Noisy:
        wrong = self.doubt and not sure
        values = np.full((copies, 1), 2) if wrong else np.arange(first, first + copies).reshape(-1, 1) % 2
        return Noisy(values, (), None if sure else torch.tensor(self.doubt))


@pytest.mark.parametrize("doubt", [0, 1])
def test_votes_are_fetched_from_the_device_and_doubts_settled(doubt: int) -> None:
    block = VoteBlock(Purpose.ESTIMATION, 10, 7)
    x = np.zeros(1 << 18, np.int16)  # so large that a batch's noise is made by itself
    wanted = CopyRange(Doubtful(doubt), x, block.purpose, block.copies)
    (votes,) = PendingVotes(Voting(OnDevice(), 2, {}), [wanted]).votes()
    assert votes.labels.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert counted(votes) == Counts((4, 3, 0), 0)


def test_the_first_stored_block_wins(store: Store) -> None:
    """Ledger, row 16: another result for a block is a finding, and never replaces the first."""
    first, second = Counts((15, 5, 0), 0), Counts((20, 0, 0), 0)
    assert store.add_block(1, FIRST, first, b"a", 0.5, {})
    assert not store.add_block(1, FIRST, first, b"a", 0.7, {})  # the same again: confirmed
    assert not list(store.findings())
    assert not store.add_block(1, FIRST, second, b"a", 0.1, {})
    assert not store.add_block(1, FIRST, first, b"b", 0.1, {})
    assert [(stored.counts, stored.hits, stored.seconds) for stored in store.blocks(1)] == [(first, b"a", 0.5)]
    found = list(store.findings())
    assert [number for number, _ in found] == [8, 8]  # the image's number in the data set
    assert "copies 0 to 19 for selection was voted twice" in found[0][1]
    assert list(store.votes(1).missing) == store.all_blocks[1:]
    assert list(store.votes(0).missing) == store.all_blocks


def test_a_block_with_more_votes_than_copies_gives_no_certificate(tmp_path: Path) -> None:
    """A digit that was damaged on the disk, say: the run continues from what is stored, and must not believe all."""
    run = small_run(count=1)
    with open_store(tmp_path / "run.db", run) as store:
        damaged = store.all_blocks[-1]
        store.add_block(0, damaged, Counts((820, 0, 0), 0), packed_bits(np.ones(20, bool)), 0.1, {})
        with pytest.raises(ValueError, match="is damaged: the votes of a block are not as many as its copies"):
            list(certify_into(store, run))
        assert not list(store.certificates())


def test_a_transaction_is_kept_whole_or_not_at_all(store: Store) -> None:
    def interrupted() -> None:
        with store.db.transaction():
            store.add_block(0, FIRST, Counts((20, 0, 0), 0), None, 0.0, {})
            store.add_finding(0, "never seen")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(store.blocks(0))
    assert not list(store.findings())


def test_the_log_is_on_the_disk_before_a_transaction_counts(store: Store) -> None:
    assert store.db.one("PRAGMA journal_mode") == "wal"
    assert store.db.one("PRAGMA synchronous") == 2


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_file_that_another_process_has_locked_is_waited_for(lock: str, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "run.db", isolation_level=None, check_same_thread=False)
    other.execute(lock)  # with the first of them SQLite refuses at once to change the journal mode
    release = threading.Timer(0.3, other.execute, ["ROLLBACK"])
    release.start()
    with open_store(tmp_path / "run.db", small_run(count=4)) as opened:
        assert opened.progress().images == 4
    release.join()


def test_the_wait_for_a_locked_file_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.2)
    other = sqlite3.connect(tmp_path / "run.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"another program has locked .* for more than 0\.2 seconds"):
        open_store(tmp_path / "run.db", small_run(count=4))


def test_large_numbers_of_images_are_refused(tmp_path: Path) -> None:
    run = plan_run(
        LocalPool(ss.Smoother(brightness_of_three, "0.5").smoothing),
        Inputs((1 << 63,), (np.zeros((2, 2), np.int16),), (0,)),
        settings(n=100),
        secret("s"),
    )
    with pytest.raises(ValueError, match="below 2⁶³"):
        open_store(tmp_path / "run.db", run)


# Terms


def other_run(**changed: object) -> RunPlan:
    chosen = {"n0": 20, "n": 400} | {name: changed.pop(name) for name in ("n0", "n", "alpha") if name in changed}
    hidden = changed.pop("hidden", secret("kill", "ab" * 32))
    smoothing = ss.Smoother(
        changed.pop("scores", brightness_of_three), changed.pop("sigma", "0.5"), batch_size=10, threads=1
    )
    return plan_run(LocalPool(smoothing.smoothing), changed.pop("inputs", inputs(4)), settings(**chosen), hidden)


def in_another_order() -> Inputs:
    given = inputs(4)
    return Inputs(given.indices, given.levels[::-1], given.labels)


@pytest.mark.parametrize(
    ("changed", "texts"),
    [
        ({"n": 800}, ["n: 400 -> 800"]),
        ({"n0": 21, "alpha": "0.01"}, ["n0: 20 -> 21", "alpha: 1/1000 -> 1/100"]),
        ({"sigma": "0.25"}, ["sigma: 1/2 -> 1/4"]),
        ({"inputs": in_another_order()}, ["the data changed (images, labels or their order)"]),
        ({"inputs": inputs(3)}, ["input count: 4 -> 3"]),
        ({"scores": lambda b: b.reshape(len(b), -1)[:, :2]}, ["the model changed"]),
        ({"hidden": secret("another", "ab" * 32)}, ["the seed's SHA-256"]),
        ({"hidden": secret("kill")}, ["nonce: abababababab… -> none"]),
    ],
)
def test_a_run_that_has_begun_cannot_change(store: Store, changed: dict, texts: list[str]) -> None:
    before = store.terms
    with pytest.raises(ValueError, match="cannot change") as refused:
        open_store(store.db.path, other_run(**changed))
    assert all(text in str(refused.value) for text in texts)
    assert terms_at(store.db.path) == before


def test_whether_votes_are_kept_cannot_change_either(store: Store) -> None:
    with pytest.raises(ValueError, match="votes: kept -> left out"):
        open_store(store.db.path, small_run(count=4), votes=False)
    with open_store(store.db.path, small_run(count=4)) as again:
        assert again.terms == terms_of(small_run(count=4))


def test_the_promise_is_read_back_word_for_word(store: Store) -> None:
    promise = small_run(count=4).promise
    assert Promise.of_text(promise.text) == promise
    assert terms_at(store.db.path).promise.commitment == promise.commitment
    for damaged in (promise.text[:-1], promise.text.replace("n: 400", "n:400"), "x" + promise.text, ""):
        with pytest.raises(ValueError, match=r"promise"):
            Promise.of_text(damaged)


@pytest.mark.parametrize(
    ("name", "value"),
    [("promise", "nothing"), ("commitment", "00" * 32), ("seed", "00" * 32), ("block", "0"), ("votes", "maybe")],
)
def test_terms_that_contradict_each_other_are_refused(store: Store, name: str, value: str) -> None:
    store.db.execute("UPDATE run SET value = ? WHERE name = ?", value, name)
    with pytest.raises(ValueError, match="is damaged"):
        Store.read(store.db.path)


# Files that are no runs, or not whole


def errors(path: Path) -> list[str]:
    """What reading and continuing say, each in one line."""
    found = []
    for attempt in (lambda: list(Store.read(path).certificates()), lambda: open_store(path, small_run())):
        with pytest.raises((ValueError, StoreError)) as refused:
            attempt()
        found.append(str(refused.value))
    assert not any("\n" in text for text in found)
    return found


def test_foreign_files(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("idx\tlabel\n" * 100)
    (tmp_path / "folder.db").mkdir()
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE precious (x)")
    before = (tmp_path / "other.db").read_bytes()
    for name, text in (
        ("text", "is not a run"),
        ("folder", "no plain file"),
        ("other", "but not a run of soundsmooth"),
    ):
        assert all(text in error for error in errors(tmp_path / f"{name}.db"))
    assert (tmp_path / "other.db").read_bytes() == before


def test_a_store_of_another_version(finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(finished.read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    assert all(
        "is a run of format 7; this version of soundsmooth reads formats 2 to 5" in text for text in errors(path)
    )


def test_a_missing_or_empty_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no run"):
        Store.read(tmp_path / "none.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(ValueError, match="holds no run yet"):
        Store.read(tmp_path / "empty.db")
    with pytest.raises(ValueError, match="there is no folder"):
        open_store(tmp_path / "no" / "run.db", small_run())
    assert terms_at(tmp_path / "none.db") is None
    assert not (tmp_path / "none.db").exists()


def test_a_file_cut_short_at_any_length(finished: Path, tmp_path: Path) -> None:
    whole = finished.read_bytes()
    path = tmp_path / "cut.db"
    lengths = {
        1,
        15,
        16,
        17,
        99,
        100,
        101,
        len(whole) - 1,
        *range(512, len(whole), 1536),
        *range(4096, len(whole), 4096),
    }
    for length in sorted(lengths):
        path.write_bytes(whole[:length])
        assert all("was cut short" in text for text in errors(path)), length
        assert path.read_bytes() == whole[:length]


def test_a_log_cut_short_loses_no_more_than_it_held(tmp_path: Path) -> None:
    """What a crash without our fsync would leave: the run is sound, and continues from what is there."""
    run, path = small_run(count=4), tmp_path / "run.db"
    with open_store(path, run) as store:
        for place in range(4):
            store.add_block(place, FIRST, Counts((20, 0, 0), 0), None, 0.0, {})
        database, log = path.read_bytes(), path.with_name("run.db-wal").read_bytes()
    found = set()
    for length in range(len(log) - 20_000, len(log), 777):
        path.write_bytes(database)
        path.with_name("run.db-wal").write_bytes(log[:length])
        with open_store(path, run) as store:
            assert store.db.one("PRAGMA integrity_check") == "ok"
            found.add(store.copies_voted())
    assert max(found) == 60
    assert found <= {0, 20, 40, 60}


def test_random_damage_is_noticed_or_harmless(finished: Path, tmp_path: Path) -> None:
    whole, path, chance = finished.read_bytes(), tmp_path / "run.db", random.Random(5)
    noticed: list[str] = []
    with Store.read(finished) as store:
        right = [certificate.to_json() for certificate in store.certificates()]
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 200)):
            damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            with Store.read(path) as store:
                assert {certificate.to_json() for certificate in store.certificates()} <= set(right)
        except (ValueError, OSError) as error:
            noticed.append(str(error))
    assert len(noticed) > 100
    assert not any("\n" in text for text in noticed)


def test_a_run_in_a_folder_that_cannot_be_written_to_can_be_read(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "run.db").write_bytes(finished.read_bytes())
    (folder / "run.db").chmod(0o400)
    folder.chmod(0o500)
    try:
        assert contents(folder / "run.db") == contents(finished)
        if os.geteuid():  # root may write anywhere
            assert not list(folder.glob("*-wal"))
    finally:
        folder.chmod(0o700)


# Claims


def strange_owner(**changed: object) -> LeaseHolder:
    me = LeaseHolder.me()
    values = {"id": "other", "machine": me.machine, "boot": me.boot, "pid": me.pid, "started": me.started}
    return LeaseHolder(**(values | changed))


def taken(store: Store, owner: LeaseHolder, *times: float, beat: Callable[[], float] = lambda: 0.0) -> list[int]:
    """What can be had at the last of these times, when `owner` has claimed image 0 and beats before each but that."""
    clock = [0.0]
    with Leases(store, LeaseClock(now=beat), owner) as other:
        assert other.take() == [0]
        leases._AT_WORK.discard(owner.id)
        with Leases(store, LeaseClock(monotonic=lambda: clock[0], expiry=300)) as mine:
            got: list[int] = []
            for clock[0] in times:
                mine.release_all()
                got = mine.take(4)
                other.beat()
            return got


def test_a_claim_is_respected(store: Store) -> None:
    parent = os.getppid()
    assert taken(store, strange_owner(pid=parent, started=leases._start_of(parent)), 0, 1e9) == [1, 2, 3]


@pytest.mark.parametrize(
    "changed",
    [{"pid": 2**22 + 1}, {"started": "1"}, {"boot": "before"}, {}],
    ids=["dead", "number used again", "before a restart", "earlier in this process"],
)
def test_the_claims_of_the_dead_are_void_at_once(store: Store, changed: dict) -> None:
    assert taken(store, strange_owner(**changed), 0.0) == [0, 1, 2, 3]


def test_an_owner_on_another_machine_is_given_some_time(store: Store) -> None:
    """By the clock of who waits, from when it first looked."""
    away = strange_owner(machine="elsewhere")
    assert taken(store, away, 1e6) == [1, 2, 3]
    assert taken(store, strange_owner(machine="elsewhere", id="another"), 1e6, 1e6 + 299) == [1, 2, 3]
    assert taken(store, strange_owner(machine="elsewhere", id="a third"), 1e6, 1e6 + 299, 1e6 + 300) == [0, 1, 2, 3]


SIGNS = (0.0, 1e300, math.inf, -math.inf, -1e9, time.time() + 3600, time.time() - 3600)


@pytest.mark.parametrize("says", SIGNS, ids=["0", "1e300", "inf", "-inf", "-1e9", "an hour ahead", "an hour ago"])
def test_a_lease_ends_by_the_clock_of_who_waits(says: float, store: Store) -> None:
    """What the sign of life says, a clock that is ahead or behind for example, makes no difference: it must change."""
    away = strange_owner(machine="elsewhere")
    assert taken(store, away, 0, 299, beat=lambda: says) == [1, 2, 3]
    another = strange_owner(machine="elsewhere", id="another")
    assert taken(store, another, 0, 299, 301, beat=lambda: says) == [0, 1, 2, 3]


@pytest.mark.parametrize("ahead", [0.0, -1e9, 1e9, -3600.0, 3600.0])
def test_one_who_is_heard_keeps_the_claim(ahead: float, store: Store) -> None:
    """For hours, with a clock that is right, ahead or behind."""
    beats = count()
    away = strange_owner(machine="elsewhere")
    times = range(0, 10_000, 250)
    assert taken(store, away, *times, beat=lambda: time.time() + ahead + next(beats)) == [1, 2, 3]


def test_certify_waits_no_more_than_five_minutes(tmp_path: Path) -> None:
    """For a claim from another machine whose sign of life lies in the future."""
    run, clock = small_run(), [0.0]
    with open_store(tmp_path / "run.db", run) as store:
        away = Leases(store, LeaseClock(now=lambda: time.time() + 1e8), strange_owner(machine="elsewhere"))
        away.__enter__()
        assert away.take() == [0]

        def sleep(seconds: float) -> None:
            clock[0] += 10
            assert clock[0] <= 310, "it waits for ever"

        list(certify_into(store, run, clock=LeaseClock(monotonic=lambda: clock[0], sleep=sleep)))
        assert store.progress().open == 0


def test_images_with_failed_attempts_come_last(store: Store) -> None:
    store.add_attempts(1, 3, "RuntimeError: x")
    with Leases(store) as mine:
        assert [mine.take() for _ in range(5)] == [[0], [2], [3], [1], []]


def test_secrets_are_kept_as_they_were(store: Store) -> None:
    assert terms_at(store.db.path).secret == Secret(secret("kill").seed, bytes.fromhex("ab" * 32))
