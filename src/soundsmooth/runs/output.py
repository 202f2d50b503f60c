"""Finished records as files: JSON lines, and the TSV that the field's tools read."""

import json
import os
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import IO

from ..certification.certificate import Certificate
from ..certification.prediction import Prediction
from ..core.decimals import truncated

CERTIFY_HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime"
PREDICT_HEADER = "idx\tlabel\tpredict\tcorrect\ttime"
SUFFIXES = (".jsonl", ".tsv")


class Output:
    """A file that begins to exist with its first record, and holds every record as soon as it is issued."""

    def __init__(self, path: Path | None, header: str, suffixes: tuple[str, ...] = SUFFIXES) -> None:
        self.path, self._header, self._table = path, header, path is not None and path.suffix == ".tsv"
        self._file: IO[str] | None = None
        if path is not None:
            check_new_file(path, suffixes)

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()

    def certificate(self, record: Certificate) -> None:
        if self.path is not None:
            self._write(self.path, certificate_row(record) if self._table else record.to_json())

    def prediction(self, record: Prediction, truth: int | None) -> None:
        if self.path is not None:
            line = json.dumps({**record.to_dict(), "truth": truth})
            self._write(self.path, prediction_row(record, truth) if self._table else line)

    def _write(self, path: Path, line: str) -> None:
        if self._file is None:
            self._file = path.open("x", encoding="utf-8", newline="\n")
            if self._table:
                self._file.write(self._header + "\n")
        self._file.write(line + "\n")
        self._file.flush()


def check_new_file(path: Path, suffixes: tuple[str, ...]) -> None:
    """A ValueError, before any work is done, for a file that could not or should not be written at the end of it."""
    if path.suffix not in suffixes:
        raise ValueError(f"the output file must end in {' or '.join(suffixes)}, not {str(path)!r}")
    if os.path.lexists(path):  # a link that leads nowhere is there, too
        raise ValueError(f"{str(path)!r} exists; choose another name or remove it")
    check_folder(path)


def check_folder(path: Path) -> None:
    """A ValueError if a new file cannot be made there."""
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {str(path.parent)!r} to write to")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"the folder {str(path.parent)!r} cannot be written to")


def certificate_row(record: Certificate) -> str:
    """`idx label predict radius correct time`; −1 for an abstention or an unknown label; the radius truncated."""
    cells = (record.index, _number(record.truth), _number(record.label), truncated(record.radius), int(record.correct))
    return "\t".join([*map(str, cells), _time(record.seconds)])


def prediction_row(record: Prediction, truth: int | None) -> str:
    """`idx label predict correct time`; −1 for an abstention or an unknown label."""
    correct = record.label is not None and record.label == truth
    cells = (record.index, _number(truth), _number(record.label), int(correct))
    return "\t".join([*map(str, cells), _time(record.seconds)])


def _number(label: int | None) -> int:
    return -1 if label is None else label


def _time(seconds: float) -> str:
    return str(timedelta(seconds=seconds))
