"""What can be said of a field of a record: its JSON, its column in a run's file, its column in exports, its check."""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.decimals import raised, truncated
from ..exact import Look
from ..noise import SHARED_STREAM
from .certify import Counts, Measurement
from .promise import Promise, is_digest

#: Halves of characters, which JSON can spell and UTF-8 cannot.
SURROGATE = re.compile("[\ud800-\udfff]")
COIN_DIGITS = re.compile("[0-9a-f]{16}")
#: Digits after the point of the decimals in JSON and in tables.
DIGITS = 9
#: The format of a run's file in which columns are kept that name no other.
FIRST_FORMAT = 2


def as_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class FieldKind:
    """Values of one kind: which there are, as what JSON writes them, and how that is read back."""

    fits: Callable[[Any], bool]
    must: str
    """The rule that a value breaks if it does not fit."""
    write: Callable[[Any], Any] = as_is
    read: Callable[[Any], Any] = as_is
    show: Callable[[Any], Any] = as_is
    """As what tables of text write them."""


@dataclass(frozen=True)
class Column:
    """A field in a run's file."""

    name: str
    declared: str
    note: str = ""
    write: Callable[[Any], Any] = as_is
    read: Callable[[Any], Any] = as_is
    since: int = FIRST_FORMAT
    """The first format of runs that has the column. It must allow NULL if that is not the first of all."""

    def cell(self, value: Any) -> Any:
        """As SQL keeps it."""
        return None if value is None else self.write(value)

    def value(self, cell: Any) -> Any:
        """What `cell` kept."""
        return None if cell is None else self.read(cell)


@dataclass(frozen=True)
class Export:
    """A field in tables for other tools: its heading, its type in Parquet, and where it stands."""

    name: str
    type: str
    position: int


@dataclass(frozen=True)
class Field:
    """All that is said of one field."""

    name: str
    """In JSON; and of the attribute, unless that is another one."""
    kind: FieldKind
    column: Column | None = None
    """None: the run's file says it for all certificates together, or for the image."""
    export: Export | None = None
    null: bool = False
    """Whether None is a value as well."""
    omitted: bool = False
    """Whether JSON leaves it out where it is None."""
    derived: str | None = None
    """The property that gives it, for what follows from other fields: it is written, and never read."""

    def of(self, record: object) -> Any:
        return getattr(record, self.derived or self.name)

    def fits(self, value: Any) -> bool:
        return (self.null and value is None) or self.kind.fits(value)

    def write(self, value: Any) -> Any:
        """As JSON."""
        return None if self.null and value is None else self.kind.write(value)

    def read(self, data: Any) -> Any:
        """From JSON."""
        return None if self.null and data is None else self.kind.read(data)


def json_of(record: object, fields: tuple[Field, ...]) -> dict[str, Any]:
    """The record's fields as plain data, in their order."""
    found = ((each, each.of(record)) for each in fields)
    return {each.name: each.write(value) for each, value in found if not (each.omitted and value is None)}


def values_of(data: Mapping[str, Any], fields: tuple[Field, ...]) -> dict[str, Any]:
    """What `json_of` wrote, read back; a KeyError, TypeError, AttributeError or ValueError if it cannot be."""
    stated = (each for each in fields if each.derived is None and (each.name in data or not each.omitted))
    return {each.name: each.read(data[each.name]) for each in stated}


def faults(record: object, fields: tuple[Field, ...]) -> list[str]:
    """The fields that hold something else than values of their kind, each with the rule that it breaks."""
    stated = (each for each in fields if each.derived is None)
    return [f"{each.name} must be {each.kind.must}" for each in stated if not each.fits(each.of(record))]


def is_count(value: object) -> bool:
    """Whether it is an integer from 0 on. (True is none, though it equals 1.)"""
    return type(value) is int and value >= 0


def is_time(seconds: object) -> bool:
    """Whether it is a number of seconds: from 0 on, within the range of doubles. (True is none, though it equals 1.)"""
    return type(seconds) in (int, float) and 0 <= seconds <= sys.float_info.max  # type: ignore[operator]


def is_environment(found: object) -> bool:
    """Whether it names software and machine: texts under names, which can be written down in UTF-8."""
    if not isinstance(found, Mapping):
        return False
    return all(isinstance(text, str) and not SURROGATE.search(text) for text in (*found, *found.values()))


def _is_index(value: object) -> bool:
    return type(value) is int and 0 <= value < SHARED_STREAM


def _of(kind: type) -> Callable[[object], bool]:
    """Whether values are of this type."""

    def fits(value: object) -> bool:
        return isinstance(value, kind)

    return fits


def _is_nonce(value: object) -> bool:
    return value == "" or is_digest(value)


def _are_counts(counts: Counts) -> bool:
    return all(map(is_count, (*counts.classes, counts.nobody)))


def _is_measurement(measured: Measurement) -> bool:
    return is_count(measured.rows) and is_count(measured.lost)


def _are_looks(looks: object) -> bool:
    return isinstance(looks, tuple) and all(isinstance(look, Look) and all(map(is_count, look)) for look in looks)


def _is_coin(value: object) -> bool:
    return isinstance(value, str) and COIN_DIGITS.fullmatch(value) is not None


def _write_looks(looks: tuple[Look, ...]) -> list[list[int]]:
    return [list(look) for look in looks]


def _read_looks(data: Any) -> tuple[Look, ...]:
    return tuple(Look(*look) for look in data)


def read_looks(text: str) -> tuple[Look, ...]:
    """The looks as a run's file has them; a ValueError for what is none."""
    try:
        found = _read_looks(json.loads(text))
    except (TypeError, RecursionError) as error:
        raise ValueError(f"these are no looks: {text[:80]!r}") from error
    if json.dumps(found) != text:
        raise ValueError(f"these looks are not written as they should be: {text[:80]!r}")
    return found


def _bounds(shown: Callable[[float, int], str]) -> FieldKind:
    """Bounds: doubles, with decimals that err to one side."""

    def show(value: float) -> str:
        return shown(value, DIGITS)

    def write(value: float) -> dict[str, str]:
        return {"hex": value.hex(), "decimal": show(value)}

    return FieldKind(_of(float), "a double", write, _read_float, show)


def _read_float(data: Mapping[str, str]) -> float:
    return float.fromhex(data["hex"])


def counts_json(counts: Counts) -> dict[str, Any]:
    return {"classes": list(counts.classes), "nobody": counts.nobody}


def _read_counts(data: Mapping[str, Any]) -> Counts:
    return Counts(tuple(data["classes"]), data["nobody"])


def _write_measurement(measured: Measurement) -> dict[str, int]:
    return {"rows": measured.rows, "lost": measured.lost}


def _read_measurement(data: Mapping[str, Any]) -> Measurement:
    return Measurement(data["rows"], data["lost"])


def _promise_json(promise: Promise) -> dict[str, str]:
    return dict(promise.values)


INDEX = FieldKind(_is_index, "the number of an image: an integer from 0 on")
COUNT = FieldKind(is_count, "an integer from 0 on")
#: Lower bounds: their decimals are truncated, so that none claims more than its exact value.
LOWER = _bounds(truncated)
#: Upper bounds: their decimals are raised.
UPPER = _bounds(raised)
COUNTS = FieldKind(_are_counts, "integers from 0 on", counts_json, _read_counts)
MEASUREMENT = FieldKind(_is_measurement, "integers from 0 on", _write_measurement, _read_measurement)
LOOKS = FieldKind(_are_looks, "votes, hits and others at each look", _write_looks, _read_looks)
PROMISE = FieldKind(_of(Promise), "a promise", _promise_json, Promise)
DIGEST = FieldKind(is_digest, "32 bytes in hexadecimal")
NONCE = FieldKind(_is_nonce, "32 bytes in hexadecimal, or empty")
COIN = FieldKind(_is_coin, "64 bits in hexadecimal")
FLAG = FieldKind(_of(bool), "true or false")
TEXT = FieldKind(_of(str), "a text")
SOFTWARE = FieldKind(is_environment, "made of names and texts", dict)
SECONDS = FieldKind(is_time, "a number of seconds")


def read_json(text: str) -> Any:
    """What the text says; a ValueError if it is no JSON, or if an object in it says the same name twice.

    Guarantee: whoever reads the text, by whatever rule for names that occur twice, reads the same.
    """
    return json.loads(text, object_pairs_hook=_said_once)


def _said_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    said = dict(pairs)
    if len(said) != len(pairs):
        raise ValueError("it says something twice: an object has two entries of the same name")
    return said


def checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record without its checksum, as ASCII JSON with sorted keys and no spaces.

    It tells accidents. Whoever changes a record on purpose changes it as well.
    """
    rest = {name: value for name, value in record.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()
