"""One certificate's record, and files of them: arithmetic, and everything that is written down twice."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import count
from pathlib import Path
from typing import Any

from ..audit import check_record
from ..certification.certificate import FIELDS, FORMAT, Certificate
from ..certification.fields import checksum, faults, read_json
from ..certification.promise import Promise, is_digest
from ..core.plain_files import plain_file
from .findings import Check, Findings
from .key import Noted, key_checks
from .promised import check_promise, unit_check
from .tally import Tally

#: A line that is longer is no certificate.
MOST_CHARACTERS = 1 << 24


@dataclass(frozen=True)
class Examined:
    """A record and what is wrong with it."""

    record: Mapping[str, Any]
    faults: tuple[str, ...]
    tight: bool


def examine(text: str) -> Examined:
    """A record's JSON: its arithmetic by the auditor's own, its checksum, its seed, and that its parts agree.

    Guarantee: without faults `audit.check_record` accepts the record, its commitment and seed fit its promise, and
    it is word for word what `Certificate.to_dict` would write, with nothing said twice.
    """
    try:
        record = read_json(text)
    except (ValueError, RecursionError) as error:
        return Examined({}, (f"this is not JSON: {error}",), False)
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        return Examined({}, (f"this is not a soundsmooth certificate: its format is not {FORMAT!r}",), False)
    arithmetic = check_record(record)
    return Examined(record, (*arithmetic.findings, *_contradictions(record)), arithmetic.tight)


def _contradictions(record: Mapping[str, Any]) -> Iterator[str]:
    try:
        changed = record["checksum"] != checksum(record)
        if changed:
            yield "the record was changed: its checksum does not fit"
        certificate = Certificate.from_dict(record)
        if not changed and certificate.to_dict() != record:
            yield "the record's parts contradict each other: commitment, key, decimals or remarks"
        yield from (f"the record's {fault}" for fault in faults(certificate, FIELDS))
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        yield f"this is not a soundsmooth certificate ({FORMAT!r}): {error!r}"


@dataclass
class Records:
    """What a file of records says: the promise they share, what they count, what is wrong."""

    promise: Promise | None
    checks: list[Check]
    tally: Tally
    findings: Findings


def read_records(path: Path, noted: Noted) -> Records:
    """Examine a .json or .jsonl file, record by record."""
    found = Records(None, [], Tally(), Findings())
    shared: tuple[object, ...] | None = None
    seen: set[int] = set()
    read = 0
    for number, line in _lines(path):
        read += 1
        one = examine(line)
        found.findings.add_all(f"line {number}: {fault}" for fault in one.faults)
        terms = _terms(one.record)
        if terms is None:
            if not one.faults:
                found.findings.add(f"line {number}: its promise is none")
            continue
        if shared is None:
            shared, found.promise = terms, terms[0]
            found.tally.promised = _promised(found)
            found.checks = [*key_checks(*terms, noted), unit_check(terms[0])]
        if terms != shared:
            found.findings.add(f"line {number}: this certificate is of another run than the first one")
        elif not one.faults:
            _add(found, one, seen, number)
    found.tally.refused = read - found.tally.finished
    if shared is None and not found.findings:
        raise ValueError(f"{str(path)!r} holds no certificate")
    if found.tally.finished > found.tally.promised:
        found.findings.add(f"there are more certificates than the {found.tally.promised} promised images")
    return found


def _add(found: Records, one: Examined, seen: set[int], number: int) -> None:
    record = one.record
    if record["index"] in seen:
        found.findings.add(f"line {number}: a second certificate for image {record['index']}")
        return
    seen.add(record["index"])
    radius = float.fromhex(record["radius"]["hex"])
    found.tally.add(record["label"], record["truth"], radius, not one.faults, one.tight)


def _promised(found: Records) -> int:
    """How many images, if the promise is one."""
    assert found.promise is not None
    try:
        check_promise(found.promise)
    except ValueError as error:
        found.findings.add(str(error))
        return 0
    return int(found.promise.values["input count"])


def _terms(record: Mapping[str, Any]) -> tuple[Promise, str, str, str] | None:
    """Promise, commitment, seed and nonce, if there are such."""
    try:
        promise = Promise(record["promise"])
        rest = record["commitment"], record["seed"], record["nonce"]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    good = is_digest(rest[0]) and isinstance(rest[1], str) and isinstance(rest[2], str)
    return (promise, *rest) if good else None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The records of a file, numbered: one a line, or the only one on many lines.

    Guarantee: every character of the file is in one of them, or is a space; a ValueError if one is too long.
    """
    try:
        with plain_file(path) as raw, TextIOWrapper(raw, encoding="utf-8", newline="\n") as file:
            read = file.read if path.suffix == ".json" else file.readline
            for number in count(1):
                text = read(MOST_CHARACTERS + 1)
                if not text:
                    return
                if len(text) > MOST_CHARACTERS:
                    raise ValueError(f"{str(path)!r}, line {number}: no certificate has {MOST_CHARACTERS} characters")
                if text.strip():
                    yield number, text
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r} is not a text file of certificates") from None
