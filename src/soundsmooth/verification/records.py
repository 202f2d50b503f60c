"""One certificate's record, and files of them: arithmetic, and everything that is written down twice."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from io import TextIOWrapper
from itertools import count
from pathlib import Path
from typing import Any

from ..audit import ClaimReport, check_record
from ..certification.certificate import FORMAT, contradictions
from ..certification.fields import read_json
from ..certification.promise import Promise, is_digest
from ..core.plain_files import plain_file
from .inputs import AuditInputs
from .key import key_checks
from .promised import check_promise, unit_check
from .result import CertificateTally, Check, Findings, Verification

#: A line that is longer is no certificate.
MOST_CHARACTERS = 1 << 24


def examine(text: str) -> tuple[Mapping[str, Any], ClaimReport]:
    """A record's JSON: its arithmetic by the auditor's own, its checksum, and that its parts agree.

    Guarantee: without findings `audit.check_record` accepts the record, its commitment and its coin, if it has one, fit
    promise, seed and nonce, and it is word for word what `Certificate.to_dict` would write, with nothing said twice.
    """
    try:
        record = read_json(text)
    except (ValueError, RecursionError) as error:
        return {}, ClaimReport((f"this is not JSON: {error}",), False)
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        return {}, ClaimReport((f"this is not a soundsmooth certificate: its format is not {FORMAT!r}",), False)
    report = check_record(record)
    return record, replace(report, findings=(*report.findings, *contradictions(record)))


def read_records(path: Path, noted: AuditInputs, result: Verification) -> list[Check]:
    """Examine a .json or .jsonl file, record by record: what they count and what is wrong goes into `result`.

    The checks of promise and key, which all records share, are given back.
    """
    tally, findings = result.tally, result.findings
    shared: tuple[Promise, str, str, str] | None = None
    checks: list[Check] = []
    seen: set[int] = set()
    for number, line in _lines(path):
        record, report = examine(line)
        findings.add_all(f"line {number}: {fault}" for fault in report.findings)
        terms = _terms(record)
        if shared is None and terms is not None:
            shared, result.promise = terms, terms[0]
            _expect(terms[0], tally, findings)
            checks = [*key_checks(*terms, noted), unit_check(terms[0])]
        if terms is None and report.accepted:  # `examine` rejects such a record, and nothing here rests on that
            findings.add(f"line {number}: its promise is none")
        elif terms is not None and terms != shared:
            findings.add(f"line {number}: this certificate is of another run than the first one")
        elif report.accepted and record["index"] in seen:
            findings.add(f"line {number}: a second certificate for image {record['index']}")
        elif report.accepted:
            seen.add(record["index"])
            radius, aborted = float.fromhex(record["radius"]["hex"]), "aborted" in record
            tally.add(record["label"], record["truth"], radius, aborted, report)
            continue
        tally.refused += 1
    if shared is None and not findings:
        raise ValueError(f"{str(path)!r} holds no certificate")
    if tally.finished > tally.promised:
        findings.add(f"there are more certificates than the {tally.promised} promised images")
    return checks


def _expect(promise: Promise, tally: CertificateTally, findings: Findings) -> None:
    """What is promised, if the promise is one."""
    try:
        check_promise(promise)
    except ValueError as error:
        findings.add(str(error))
    else:
        tally.expect(promise)


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
