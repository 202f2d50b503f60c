"""Runs as files that other tools read, one record after the other: no format needs the whole run in memory."""

import csv
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from io import TextIOWrapper
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

from ..certificate import Certificate
from ..core.decimals import raised, truncated
from .output import CERTIFY_HEADER, certificate_row, check_new_file
from .store import Failure, Store

COLUMNS = ("index", "label", "predict", "radius", "p_lower", "p_upper", "correct", "status", "seconds")
#: So many rows of Parquet are in memory at a time.
GROUP = 10_000


def export(store: Store, to: Path) -> int:
    """Write the run's certificates, and its failures as wrong answers, in the order of the images.

    Returns how many records were written. JSON lines hold certificates only, whole; elsewhere radii and lower bounds
    are truncated (in Parquet they are exact).
    """
    check_new_file(to, tuple(WRITERS))
    file = to.open("xb")  # never through a link, and never over what another process has made meanwhile
    try:
        with file:
            return WRITERS[to.suffix](store, file)
    except BaseException:
        to.unlink(missing_ok=True)  # half a table would be taken for a whole one
        raise


def records(store: Store) -> Iterator[Certificate | Failure]:
    """Certificates and failures, merged into the order of the images."""
    failures: Iterator[tuple[int, Certificate | Failure]] = store.placed_failures()
    for _, record in merge(failures, store.placed_certificates(), key=itemgetter(0)):
        yield record


def _write_lines(store: Store, to: BinaryIO) -> int:
    return _write_text(to, store.lines())


def _write_tsv(store: Store, to: BinaryIO) -> int:
    rows = (certificate_row(each) if isinstance(each, Certificate) else _failure_row(each) for each in records(store))
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


def _write_csv(store: Store, to: BinaryIO) -> int:
    count = 0
    with TextIOWrapper(to, encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for record in records(store):
            writer.writerow(_cells(record, lambda p: truncated(p, 9), lambda p: raised(p, 9)))
            count += 1
    return count


def _cells(
    record: Certificate | Failure, below: Callable[[float], Any] = float, above: Callable[[float], Any] = float
) -> tuple[Any, ...]:
    """A row of `COLUMNS`; None where there is nothing to say."""
    correct = None if record.truth is None else isinstance(record, Certificate) and record.correct
    if isinstance(record, Failure):
        return record.index, record.truth, None, below(0.0), below(0.0), None, correct, "failed", None
    p_upper = None if record.p_upper is None else above(record.p_upper)
    status = "abstained" if record.abstained else "certified"
    bounds = below(record.radius), below(record.p_lower), p_upper
    return record.index, record.truth, record.label, *bounds, correct, status, record.seconds


def _write_parquet(store: Store, to: BinaryIO) -> int:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ValueError('Parquet files need pyarrow: pip install "soundsmooth[parquet]"') from None
    kinds = (pa.int64(),) * 3 + (pa.float64(),) * 3 + (pa.bool_(), pa.string(), pa.float64())
    schema = pa.schema(list(zip(COLUMNS, kinds, strict=True)))
    rows, count = (_cells(record) for record in records(store)), 0
    with parquet.ParquetWriter(to, schema) as writer:
        while group := list(islice(rows, GROUP)):
            columns = [pa.array(column, kind) for column, kind in zip(zip(*group, strict=True), kinds, strict=True)]
            writer.write_table(pa.table(columns, schema=schema))
            count += len(group)
    return count


WRITERS = {".tsv": _write_tsv, ".jsonl": _write_lines, ".csv": _write_csv, ".parquet": _write_parquet}
