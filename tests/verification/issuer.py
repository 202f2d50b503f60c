"""An issuer of small runs, honest and otherwise."""

import dataclasses
import hashlib
import json
import sqlite3
from collections.abc import Collection
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import torch

import classifiers
import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth.certification.certify import Counts, certify
from soundsmooth.certification.promise import Inputs, Promise, secret
from soundsmooth.certification.settings import settings
from soundsmooth.certification.votes import counts_of, votes_text
from soundsmooth.core.grid import IMAGES, Grid
from soundsmooth.models import Votes
from soundsmooth.noise import promised_law
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import RunPlan, plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.store import Store
from soundsmooth.smoothing.blocks import packed_bits
from soundsmooth.smoothing.classifier import Smoothing
from soundsmooth.smoothing.voting import counted
from soundsmooth.verification import AuditInputs, Verification
from soundsmooth.verification.promised import promised_smoothing

NONCE = "ab" * 32
CLASSES = 3


def data(count: int) -> Inputs:
    """Images from clear to doubtful, in the order of a data set."""
    levels = tuple(np.full((2, 2), 40 + 25 * (i % 8), np.int16) for i in range(count))
    return Inputs(tuple(range(count)), levels, tuple(int(i % 8 > 3) for i in range(count)))


def near_data(count: int) -> Inputs:
    """The same images as floats within rounding of the grid."""
    whole = data(count)
    found = [
        IMAGES.snap(image.astype(np.float32) * np.float32(1 / 255) + np.float32(2.0**-25)) for image in whole.levels
    ]
    return Inputs(whole.indices, [each.levels for each in found], whole.labels, [each.rounded for each in found])


def some_of(whole: Inputs, numbers: Collection[int]) -> Inputs:
    levels, labels = [whole.levels[i] for i in numbers], [whole.labels[i] for i in numbers]
    return Inputs(tuple(numbers), levels, labels, [whole.rounded[i] for i in numbers] if whole.rounded else ())


def small_run(
    numbers: Collection[int] = (0, 1, 2, 3, 4, 6, 7),
    noise: str = "fresh",
    bound: str = "clopper-pearson",
    n: int = 400,
    scores: object = brightness_of_three,
    near: bool = False,
) -> RunPlan:
    """20 blocks of estimation and one or two of selection for each image; on the grid, or `near` it."""
    inputs = some_of((near_data if near else data)(max(numbers) + 1), numbers)
    smoothing = ss.Smoother(scores, "0.5", batch_size=10, threads=1).smoothing
    return plan_run(
        LocalPool(smoothing), inputs, settings(n0=20, n=n, noise=noise, bound=bound), secret("issuer 1", NONCE)
    )


def measured_run(
    numbers: Collection[int] = (0, 3, 7), scores: object = classifiers.brightness, again: int = 60, noise: str = "fresh"
) -> RunPlan:
    """As `small_run`, with rows voted again, alone: images 0 and 7 are clear, image 3 is doubtful."""
    inputs = some_of(data(max(numbers) + 1), numbers)
    smooth = ss.Smoother(scores, "0.5", batch_size=10, threads=1, independence="measured", again=again)
    return plan_run(LocalPool(smooth.smoothing), inputs, settings(n0=20, n=400, noise=noise), secret("issuer 1", NONCE))


def looked_run(numbers: Collection[int] = (0, 2, 3, 4, 7), scores: object = brightness_of_three) -> RunPlan:
    """As `small_run`, with looks for two radii, where a wrong selection ends an image. A scorer of no known graph votes
    at whole batches.
    """
    asked = {"radii": [0, "1/4"], "looks": [40, 100, 200], "skip_wrong": True}
    smoothing = ss.Smoother(scores, "0.5", batch_size=10, threads=1).smoothing
    inputs = some_of(data(max(numbers) + 1), numbers)
    return plan_run(LocalPool(smoothing), inputs, settings(n0=20, n=200, **asked), secret("issuer 1", NONCE))


def ended(path: Path, copies: int = 240) -> Path:
    """A run with looks that is interrupted when so many copies have voted, and then concluded."""

    def advance(count: int) -> None:
        nonlocal copies
        copies -= count
        if copies <= 0:
            raise KeyboardInterrupt

    run = looked_run()
    with open_store(path, run) as store, suppress(KeyboardInterrupt):
        for _ in certify_into(store, run, advance):
            pass
    ss.conclude_run(path).close()
    return path


class Brightness(torch.nn.Module):
    """`brightness_of_three` as a module: its rows are proved to be independent."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, CLASSES)
        with torch.no_grad():
            self.linear.weight[:] = torch.tensor([[-0.25], [0.25], [0.0]]).expand(CLASSES, 4)
            self.linear.bias[:] = torch.tensor([0.5, -0.5, -0.1])

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.linear(batch.flatten(1))
        return found


def coined_run(numbers: Collection[int] = (0, 7)) -> RunPlan:
    """As `small_run`, by the randomized bound; every image has a coin."""
    smoothing = ss.Smoother(Brightness(), "0.5", batch_size=10, threads=1).smoothing
    chosen = settings(n0=20, n=200, bound="randomized")
    return plan_run(LocalPool(smoothing), some_of(data(max(numbers) + 1), numbers), chosen, secret("issuer 1", NONCE))


def issue(path: Path, run: RunPlan, only: int | None = None, votes: bool = True) -> Path:
    """Certify into a file; with `only`, stop after so many images."""
    with open_store(path, run, votes) as store:
        issued = certify_into(store, run)
        for count, _ in enumerate(issued, 1):
            if count == only:
                issued.close()
                break
    return path


def motley(path: Path) -> Path:
    """A run with everything that can be in one: certificates, an abstention, a failure, open images, a finding."""
    issue(path, small_run(), only=5)
    with open_store(path, small_run()) as store:
        store.add_attempts(5, 3, "RuntimeError: no")
        store.add_failure(5)
        store.add_finding(1, "voted twice")
        store.db.execute("INSERT INTO owners VALUES ('me', 'here', 'boot', 1, 'now', 1.0)")
        store.db.execute("INSERT INTO claims VALUES (6, 'me')")
        assert any(c.abstained for c in store.certificates())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def packed(path: Path) -> Path:
    """The same run with small pages and little empty space, so that most bytes mean something."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA page_size = 512")
        db.execute("VACUUM")
    return path


def given(
    replay: str | None = None,
    scores: object = brightness_of_three,
    images: int = 8,
    near: bool = False,
    **more: object,
) -> AuditInputs:
    """What the auditor has: the same model and data."""

    def model(promise: Promise) -> Smoothing:
        return promised_smoothing(scores, promise, {"threads": 1})

    def whole(_: Grid) -> Inputs:
        return (near_data if near else data)(images)

    return AuditInputs(model, whole, replay, **more)


def forge(path: Path, place: int, blocks: Collection[int], label: int | None = None) -> None:
    """A consistent forgery: every copy of these blocks of estimation votes for the label.

    Blocks, bitmaps, counts, bound, radius and every checksum are those of an honest run with these votes. With another
    label than the true one, selection is forged too.
    """
    with Store.read(path) as store:
        old = next(c for p, c in store.placed_certificates() if p == place)
        rows = list(store.db.rows("SELECT first, count, votes FROM blocks WHERE place = ? AND purpose = 1", place))
        chosen, law = store.terms.settings, promised_law(store.terms.promise.values)
        kept = store.terms.votes
    guess = old.selection.top if label is None else label
    all_for = Votes(np.full(rows[0][1], guess), CLASSES)
    totals = [0] * CLASSES
    with closing(sqlite3.connect(path)) as db, db:
        for number, (first, count, votes) in enumerate(sorted(rows)):
            counts = counts_of(votes)
            if number in blocks:
                assert count == rows[0][1]
                assert counts != counted(all_for), "nothing to forge here"
                counts = counted(all_for)
                db.execute(
                    "UPDATE blocks SET votes = ?, hits = ? WHERE place = ? AND purpose = 1 AND first = ?",
                    (votes_text(counts), packed_bits(all_for.labels == guess) if kept else None, place, first),
                )
            totals = [total + new for total, new in zip(totals, counts.classes, strict=True)]
        estimation = Counts(tuple(totals), old.estimation.total - sum(totals))
        found = certify(old.selection, estimation, law, chosen)
        new = dataclasses.replace(old, estimation=estimation, **dataclasses.asdict(found))
        write_certificate(db, place, new)


def write_certificate(db: sqlite3.Connection, place: int, new: ss.Certificate) -> None:
    db.execute(
        "UPDATE certificates SET label = ?, radius = ?, p_lower = ?, p_upper = ?, selection = ?, estimation = ?, "
        "digest = ? WHERE place = ?",
        (
            new.label, new.radius, new.p_lower, new.p_upper, votes_text(new.selection), votes_text(new.estimation),
            hashlib.sha256(new.to_json().encode()).digest(), place,
        ),
    )  # fmt: skip


def reported(result: Verification) -> str:
    """What an audit says about the certificates.

    Left out: the content hash, which is compared apart, and whether an image without a certificate failed or was not
    finished, which makes no difference: it is a wrong answer.
    """
    said = result.to_dict()
    certificates = {name: value for name, value in said["certificates"].items() if name not in ("failed", "open")}
    checks = [check for check in said["checks"] if check["name"] != "content hash"]
    kept = {name: said[name] for name in ("refuted", "commitment", "promise", "replay")}
    return json.dumps([kept, certificates, checks], sort_keys=True)
