"""An audit from beginning to end: what was checked, what was not, and what it means."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ..audit import read_terms
from ..certification.promise import Inputs, Promise
from ..certification.settings import promised_settings
from ..noise import Purpose
from ..runs.database import Database
from ..runs.export import WRITERS
from ..runs.reader import RunReader
from ..smoothing.classifier import Smoothing
from .content import content_hash
from .draw import Draw, Places, fresh_draw, number_to_draw
from .images import Inspection, inspect_images
from .inputs import AuditInputs
from .key import key_checks
from .promised import (
    data_check,
    describe_missing,
    distance_check,
    grid_of,
    machine_differences,
    model_checks,
    named_images,
    shape_of,
    unit_check,
)
from .records import read_records
from .replay import Progress, replay
from .result import Check, Conclusion, Verification
from .revote import promised_voter
from .snapshot import open_snapshot, stated_run
from .statements import Replay

Say = Callable[[str], None]
RECORDS = (".json", ".jsonl")
TABLES = WRITERS.keys() - RECORDS


def audit_file(
    path: Path,
    given: AuditInputs = AuditInputs(),  # noqa: B008  (frozen)
    say: Say = lambda _: None,
    progress: Callable[[int], Progress] = lambda _: lambda _: None,
    draw: Draw = fresh_draw,
) -> Verification:
    """Audit a run's file, or certificates as .json or .jsonl. What cannot be read at all is a ValueError or OSError.

    `say` gets the content hash before any block is drawn: from then on the file is fixed.
    """
    if path.suffix in RECORDS:
        return _verify_records(path, given)
    if path.suffix in TABLES:
        raise ValueError(f"{path.name} is a table, which has no counts: ask for the run's .db, or for its .jsonl")
    with open_snapshot(path) as db:
        return _verify_run(db, given, say, progress, draw)


def _verify_records(path: Path, given: AuditInputs) -> Verification:
    if given.replay or given.model or given.data or given.content:
        raise ValueError("a replay, the data and the content hash need the run's .db file: certificates have no blocks")
    result = Verification(str(path), False)
    shared = read_records(path, given, result)
    _add_arithmetic(result)
    result.check(*shared)
    result.check(Check("data", None, "not compared: numbers and labels of the images are the issuer's word"))
    if result.promise is not None and not result.findings:
        result.check(*distance_check(result.promise, {}, None))
    _add_replay(result, None)
    return result


def _verify_run(
    db: Database, given: AuditInputs, say: Say, progress: Callable[[int], Progress], draw: Draw
) -> Verification:
    content = content_hash(db)
    say(f"content hash {content}")
    result = Verification(str(db.path), True, content=content, beta=given.beta)
    result.check(_content_check(content, given.content))
    try:
        run = stated_run(db)
    except ValueError as error:
        result.findings.add(str(error))
        return result
    result.promise, secret = run.promise, run.stated.secret
    result.check(*key_checks(run.promise, run.commitment, secret.seed.hex(), secret.nonce.hex(), given))
    result.check(unit_check(run.promise))
    seen = inspect_images(run, result)
    _add_arithmetic(result)
    _add_store(result, run, seen)
    _add_replay(result, _replayed(result, run, seen, given, progress, draw))
    return result


def _content_check(content: str, noted: str | None) -> Check:
    if noted is None:
        return Check("content hash", None, "compare it with the one that was handed over (--hash)")
    same = noted == content
    return Check("content hash", same, "as handed over" if same else f"{content}, but {noted} was handed over")


def _add_arithmetic(result: Verification) -> None:
    tally = result.tally
    read = tally.finished + tally.refused
    text = f"{tally.accepted} of {read} certificates follow from their counts (a second implementation)"
    fine = tally.accepted == tally.finished if result.run else not result.findings
    result.checks.append(Check("arithmetic", fine, text))
    if tally.loose:
        result.notes.append(f"{tally.loose} certificates claim less than their counts allow: sound, but unusual")
    if tally.aborted:
        result.notes.append(
            f"{tally.aborted} of {tally.finished} images were ended from outside and have certificates for their last "
            "full look (aborted): their claims hold like all others, and say less than a whole run might"
        )
    missing = tally.promised - tally.finished
    if missing > 0:
        kinds = f"{tally.failed} failed, {tally.open} not finished" if result.run else "refused, or not in this file"
        result.notes.append(
            f"{missing} of {tally.promised} promised images have no certificate ({kinds}): wrong answers"
        )


def _add_store(result: Verification, run: RunReader, seen: Inspection) -> None:
    held = "counts and digests" if seen.without_bitmap else "bitmaps, counts and digests"
    text = f"{seen.blocks} blocks cover what they should, and agree with {held}"
    if seen.contradicted:
        text = "the file contradicts itself"
    result.checks.append(Check("store", not seen.contradicted, text))
    recorded = run.progress().findings
    if recorded:
        text = "blocks voted twice with different results, or under different software"
        result.notes.append(f"the run's own record has {recorded} findings ({text}): see soundsmooth runs show")
    if seen.without_bitmap:
        result.notes.append(
            "bitmaps of hits were left out: a replay compares sums only. It cannot tell which votes differ, nor "
            "whether differences cancel, and makes no statement (iii)"
        )


def _replayed(
    result: Verification,
    run: RunReader,
    seen: Inspection,
    given: AuditInputs,
    progress: Callable[[int], Progress],
    draw: Draw,
) -> Replay | None:
    """Model and data against the promise, as far as they are given; then the replay, if it is asked for."""
    if seen.contradicted:
        result.notes.append("model, data and votes were not checked: the file contradicts itself")
        return None
    smoothing = _smoothing(result, run.stated.promise, given)
    inputs = _inputs(result, run.stated.promise, seen, given)
    if given.replay is None:
        return None
    if smoothing is None or inputs is None:
        raise ValueError("a replay needs the model and the data: --model M --data D")
    if result.findings or not seen.claimed:
        why = "model, data or key are not the promised ones" if result.findings else "no certificate has a label"
        result.notes.append(f"no block was voted again: {why}")
        return None
    if given.other_machine:
        result.notes.append("differences between votes are taken for honest ones (--other-machine)")
    identity, blocks = smoothing.model.identity(), [b for b in run.all_blocks if b.purpose == Purpose.ESTIMATION]
    places = Places.of(seen.claimed, len(seen.numbers), blocks, read_terms(run.stated.promise.values).looked)
    drawn = number_to_draw(given.replay, len(places))
    same = not given.other_machine and not machine_differences(identity, run.stated.promise)
    copies = sum(each.copies for each in seen.claimed)
    advance = progress(len(seen.claimed) * run.stated.settings.n0 + copies * drawn // len(places))
    with closing(promised_voter(run.stated, smoothing, identity, inputs)) as voter:
        return replay(run, seen.claimed, voter, inputs, places, drawn, given.beta, same, result.findings, draw, advance)


def _smoothing(result: Verification, promise: Promise, given: AuditInputs) -> Smoothing | None:
    if given.model is None:
        result.check(Check("model", None, "not given (--model)"))
        return None
    smoothing, settings = given.model(promise), promised_settings(promise.values)
    identity = smoothing.identity(shape_of(promise), int(promise.values["batch"]), settings)
    result.check(*model_checks(identity, promise))
    return smoothing


def _inputs(result: Verification, promise: Promise, seen: Inspection, given: AuditInputs) -> Inputs | None:
    if given.data is None:
        result.check(Check("data", None, "not given (--data): numbers, order and labels of the images are unchecked"))
        result.check(*distance_check(promise, seen.paid, None))
        return None
    whole = given.data(grid_of(promise))
    found = named_images(whole, seen.numbers)
    inputs = replace(found, labels=seen.truths)
    result.check(data := data_check(found.labels, inputs, promise))
    result.check(*distance_check(promise, seen.paid, inputs if data.passed else None))
    missing = describe_missing(len(whole), inputs)
    if missing is not None:
        result.notes.append(missing)
    return inputs


def _add_replay(result: Verification, found: Replay | None) -> None:
    result.replay = found
    if found is None:
        text = "none: the counts are the issuer's word, and arithmetic cannot see forged ones"
        result.check(Check("replay", None, text))
        return
    amount = f"{found.drawn} of {found.blocks} blocks and every selection voted again"
    amount += "" if found.rows is None else f", and {found.rows} rows alone"
    differ = f"at least {found.differ} votes differ" if found.differ else "no difference"
    end = "; only --replay all verifies a certificate fully"
    if found.whole:
        end = ": a full verification" if result.full else ": not verified"
    agreed = None if result.conclusion is Conclusion.UNCONFIRMED else not result.findings  # or a forger's
    result.checks.append(Check("replay", agreed, f"{amount}, {differ}{end}"))
