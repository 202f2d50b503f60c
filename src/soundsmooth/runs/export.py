"""Runs as files that other tools read, one record after the other: no format needs the whole run in memory."""

import csv
from collections.abc import Iterable, Iterator
from heapq import merge
from io import TextIOWrapper
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

from ..certification.certificate import FIELDS, Certificate
from ..certification.fields import COUNT, FLAG, TEXT, Export, Field
from ..core.decimals import truncated
from .output import CERTIFY_HEADER, certificate_row, check_new_file
from .reader import RunReader
from .stored import Failure


def _position(field: Field) -> int:
    assert field.export is not None
    return field.export.position


#: What follows from a record's fields, and which of those are in tables: `certificate.FIELDS` says it.
FOLLOWING = (
    Field("correct", FLAG, export=Export("correct", "bool_", 6)),
    Field("status", TEXT, export=Export("status", "string", 7)),
    Field("votes", COUNT, export=Export("votes", "int64", 9), omitted=True),
)
EXPORTED = sorted((field for field in (*FIELDS, *FOLLOWING) if field.export is not None), key=_position)
#: So many rows of Parquet are in memory at a time.
GROUP = 10_000


def export(run: RunReader, to: Path) -> int:
    """Write the run's certificates, and its failures as wrong answers, in the order of the images.

    Returns how many records were written. JSON lines hold certificates only, whole; elsewhere radii and lower bounds
    are truncated (in Parquet they are exact).
    """
    check_new_file(to, tuple(WRITERS))
    file = to.open("xb")  # never through a link, and never over what another process has made meanwhile
    try:
        with file:
            return WRITERS[to.suffix](run, file)
    except BaseException:
        to.unlink(missing_ok=True)  # half a table would be taken for a whole one
        raise


def columns_of(run: RunReader) -> dict[str, Field]:
    """The columns of a run's tables. How many votes were spent is said where that differs from image to image."""
    looks = run.stated.settings.looks is not None
    return {each.export.name: each for each in EXPORTED if each.export is not None and (looks or not each.omitted)}


def records(run: RunReader) -> Iterator[Certificate | Failure]:
    """Certificates and failures, merged into the order of the images."""
    failures: Iterator[tuple[int, Certificate | Failure]] = run.placed_failures()
    for _, record in merge(failures, run.placed_certificates(), key=itemgetter(0)):
        yield record


def _write_lines(run: RunReader, to: BinaryIO) -> int:
    return _write_text(to, run.lines())


def _write_tsv(run: RunReader, to: BinaryIO) -> int:
    rows = (certificate_row(each) if isinstance(each, Certificate) else _failure_row(each) for each in records(run))
    return _write_text(to, rows, CERTIFY_HEADER)


def _failure_row(failure: Failure) -> str:
    return f"{failure.index}\t{-1 if failure.truth is None else failure.truth}\t-1\t{truncated(0.0)}\t0\t0:00:00"


def _write_text(to: BinaryIO, lines: Iterable[str], header: str | None = None) -> int:
    count = 0
    with TextIOWrapper(to, encoding="utf-8", newline="\n") as file:
        if header is not None:
            file.write(header + "\n")
        for line in lines:
            file.write(line + "\n")
            count += 1
    return count


def _write_csv(run: RunReader, to: BinaryIO) -> int:
    count, columns = 0, columns_of(run)
    with TextIOWrapper(to, encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for record in records(run):
            values = zip(columns.values(), _values(record, columns.values()), strict=True)
            writer.writerow(None if value is None else field.kind.show(value) for field, value in values)
            count += 1
    return count


def _values(record: Certificate | Failure, fields: Iterable[Field]) -> list[Any]:
    """What the record says of the fields; None where there is nothing to say."""
    unknown = ("correct",) if record.truth is None else ()
    return [None if field.name in unknown else getattr(record, field.name, None) for field in fields]


def _write_parquet(run: RunReader, to: BinaryIO) -> int:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ValueError('Parquet files need pyarrow: pip install "soundsmooth[parquet]"') from None
    columns = columns_of(run)
    kinds = [getattr(pa, each.export.type)() for each in columns.values() if each.export is not None]
    schema = pa.schema(list(zip(columns, kinds, strict=True)))
    rows, count = (_values(record, columns.values()) for record in records(run)), 0
    with parquet.ParquetWriter(to, schema) as writer:
        while group := list(islice(rows, GROUP)):
            arrays = [pa.array(column, kind) for column, kind in zip(zip(*group, strict=True), kinds, strict=True)]
            writer.write_table(pa.table(arrays, schema=schema))
            count += len(group)
    return count


WRITERS = {".tsv": _write_tsv, ".jsonl": _write_lines, ".csv": _write_csv, ".parquet": _write_parquet}
