"""The certificate: a frozen record of what was promised, what was counted and what follows."""

import hashlib
import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .certify import Counts, Measurement, Verdict, verdict
from .exact import rational
from .grid import IMAGES
from .models.protocol import CLOSED, KINDS, OPEN, OPEN_ENDS
from .noise import SHARED_STREAM
from .promise import SPEC, Promise
from .settings import promised_settings

FORMAT = "soundsmooth certificate 1"
HEXADECIMAL = re.compile("[0-9a-f]{64}")
#: Halves of characters, which JSON can spell and UTF-8 cannot.
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Certificate:
    """For every δ with ‖δ‖₂ < radius the smoothed classifier answers `label` at x + δ, except with probability α.

    The probability is over the key. What it rests on is in the record: that the model's rows are independent
    (`independence`), that Python models are honest, and who chose the key (`key`). An abstention (`abstained`)
    claims nothing.
    """

    index: int
    """The input's number in its data set; 0 for a lone one."""
    label: int | None
    radius: float
    p_lower: float
    p_upper: float | None
    truth: int | None
    """The true label, if it was promised."""
    selection: Counts
    estimation: Counts
    promise: Promise
    seed: str
    nonce: str
    environment: Mapping[str, str]
    seconds: float
    measured: Measurement | None = None
    """Which rows of its batches were voted again, alone, if independence was measured."""

    @property
    def abstained(self) -> bool:
        return self.label is None

    @property
    def correct(self) -> bool:
        """The label is the promised true one. An abstention is a wrong answer."""
        return self.label is not None and self.label == self.truth

    @property
    def commitment(self) -> str:
        return self.promise.commitment

    @property
    def key(self) -> str:
        """Who had a say in the key."""
        return "verifier's nonce" if self.nonce else "self-chosen"

    @property
    def independence(self) -> str:
        """How it is known that rows of a batch do not see each other and calls leave no trace."""
        return self.promise.values["independence"]

    @property
    def independence_claim(self) -> str:
        """The same with what it supposes."""
        if self.measured is None or self.promise.values["model kind"] == "onnx":
            return self.independence
        return f"{self.independence} (supposing that the code does not work against it)"

    @property
    def trust(self) -> str:
        """What kind of thing voted. Python code could read the key from this process; a graph is data."""
        if self.promise.values["model kind"] == "onnx":
            apart = ", run by a process without the key" if self.isolated else ""
            return f"a graph file, fixed by its digest{apart}"
        promised = self.promise.flags.get("digest")
        if promised == CLOSED:
            return "Python code, assumed honest, with what it holds in its digest"
        reasons = self.environment.get(OPEN_ENDS, "") if promised == OPEN else ""
        return f"Python code, assumed honest, not fixed by its digest{reasons and f' ({reasons})'}"

    @property
    def isolated(self) -> bool:
        """Whether the model ran in a process that never held the key."""
        return self.promise.flags.get("isolated") == "yes"

    def __str__(self) -> str:
        alpha, grid = self.promise.values["alpha"], self.promise.values["grid"]
        unit = "" if grid == IMAGES.text else f" on the grid {grid}"  # radii are in its unit, not that of [0, 1]
        origin = f"key: {self.key}, independence: {self.independence_claim}, model: {self.trust}"
        if self.label is None:
            return f"abstained (p ≥ {truncated(self.p_lower)}; {origin})"
        return (
            f"class {self.label} for every ‖δ‖₂ < {truncated(self.radius)}{unit} "
            f"(p ≥ {truncated(self.p_lower)}, α = {alpha}; {origin})"
        )

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data; bounds as hexadecimal floats, exact, and as decimals that err the safe way."""
        measured = self.measured
        again = {} if measured is None else {"measured": {"rows": measured.rows, "lost": measured.lost}}
        record = {
            "format": FORMAT,
            "index": self.index,
            "label": self.label,
            "radius": _below(self.radius),
            "p_lower": _below(self.p_lower),
            "p_upper": None if self.p_upper is None else _above(self.p_upper),
            "truth": self.truth,
            "selection": _counts(self.selection),
            "estimation": _counts(self.estimation),
            **again,
            "promise": dict(self.promise.values),
            "commitment": self.commitment,
            "seed": self.seed,
            "nonce": self.nonce,
            "key": self.key,
            "independence": self.independence,
            "model": self.trust,
            "environment": dict(self.environment),
            "seconds": self.seconds,
        }
        return {**record, "checksum": checksum(record)}

    def to_json(self) -> str:
        """One line of JSON, which `from_json` turns back into an equal record."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """The record that was written; a ValueError if it is none, was changed, or does not follow from itself."""
        try:
            data = read_json(text)
            certificate = cls.from_dict(data)
            certificate.check()
            same = certificate.to_dict() == data
        except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, json.JSONDecodeError) as error:
            raise ValueError(f"this is not a soundsmooth certificate ({FORMAT!r}): {error!r}") from error
        if not same:  # the commitment, and everything else that is written down twice
            raise ValueError("the certificate's parts contradict each other: commitment, key, decimals or remarks")
        return certificate

    def check(self) -> None:
        """A ValueError unless label, bounds and radius follow from the counts, and the seed is the promised one.

        This is arithmetic only: whether the counts are what the model voted is another matter.
        """
        self._check_types()
        promised = self.promise.values
        if hashlib.sha256(bytes.fromhex(self.seed)).hexdigest() != promised["seed"]:
            raise ValueError("the certificate's seed is not the one it promised")
        chosen = promised_settings(promised)
        if (self.selection.total, self.estimation.total) != (chosen.n0, chosen.n):
            raise ValueError("the certificate's counts do not add up to the promised n0 and n")
        self._check_measured()
        found = verdict(self.selection, self.estimation, Fraction(promised["sigma"]), chosen, self.measured)
        if found != Verdict(self.label, self.radius, self.p_lower, self.p_upper):
            raise ValueError(
                f"the certificate's label, bounds or radius do not follow from its counts, which give {found}"
            )

    def _check_measured(self) -> None:
        """There is a measurement exactly if one was promised, of as many rows, for the bound that allows for it."""
        measured, rows = self.measured, self.promise.independence.rows
        if measured is None:
            if rows is not None:
                raise ValueError("the certificate promises to measure independence, and says nothing of the result")
            return
        if any(type(number) is not int for number in (measured.rows, measured.lost)) or measured.rows != rows:
            raise ValueError("the certificate's rows that were voted again are not as many as it promised")
        if not 0 <= measured.lost <= measured.rows or self.promise.values["bound"] != "clopper-pearson":
            raise ValueError("the certificate's measurement of independence is not a possible one")

    def _check_types(self) -> None:
        """Numbers are numbers, and the promise is one that this version makes."""
        promised = self.promise.values
        counts = [*self.selection.classes, self.selection.nobody, *self.estimation.classes, self.estimation.nobody]
        numbers = [self.index, *counts, *(number for number in (self.label, self.truth) if number is not None)]
        if any(type(number) is not int or number < 0 for number in numbers):
            raise ValueError("the certificate's index, labels and counts must be integers from 0 on")
        if not HEXADECIMAL.fullmatch(self.seed) or not (self.nonce == "" or HEXADECIMAL.fullmatch(self.nonce)):
            raise ValueError("the certificate's seed and nonce must be 32 bytes in hexadecimal, or no nonce")
        if self.index >= SHARED_STREAM:
            raise ValueError("the certificate's index is the number of no image")
        if not is_environment(self.environment):
            raise ValueError("the certificate's environment is not made of names and texts")
        if not is_time(self.seconds):
            raise ValueError("the certificate's time is no number of seconds")
        if promised["spec"] != SPEC or promised["model kind"] not in KINDS:
            raise ValueError("the certificate's promise is not one that this version makes")
        for name in ("n0", "n", "alpha", "sigma", "margin", "batch", "input count"):
            if str(rational(promised[name], f"the certificate's {name}")) != promised[name]:
                raise ValueError(f"the certificate's {name} is not written in lowest terms: {promised[name]!r}")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Certificate":
        """The record that the data says; nothing is checked but its format."""
        if data["format"] != FORMAT:
            raise ValueError(f"this is not a soundsmooth certificate ({FORMAT!r}), but {data['format']!r}")
        return cls(
            index=data["index"],
            label=data["label"],
            radius=float.fromhex(data["radius"]["hex"]),
            p_lower=float.fromhex(data["p_lower"]["hex"]),
            p_upper=None if data["p_upper"] is None else float.fromhex(data["p_upper"]["hex"]),
            truth=data["truth"],
            selection=Counts(tuple(data["selection"]["classes"]), data["selection"]["nobody"]),
            estimation=Counts(tuple(data["estimation"]["classes"]), data["estimation"]["nobody"]),
            promise=Promise(data["promise"]),
            seed=data["seed"],
            nonce=data["nonce"],
            environment=data["environment"],
            seconds=data["seconds"],
            measured=_measurement(data["measured"]) if "measured" in data else None,
        )


@dataclass(frozen=True)
class Prediction:
    """The smoothed classifier's answer under fresh noise, or an abstention; the key is disclosed afterwards."""

    index: int
    label: int | None
    counts: Counts
    n: int
    alpha: str
    sigma: str
    margin: int
    model: str
    """SHA-256 of the model's bytes."""
    key: str
    seconds: float

    @property
    def abstained(self) -> bool:
        return self.label is None

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data."""
        return {
            "index": self.index,
            "label": self.label,
            "counts": _counts(self.counts),
            "n": self.n,
            "alpha": self.alpha,
            "sigma": self.sigma,
            "margin": self.margin,
            "model": self.model,
            "key": self.key,
            "seconds": self.seconds,
        }


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


def is_time(seconds: object) -> bool:
    """Whether it is a number of seconds: from 0 on, within the range of doubles. (True is none, though it equals 1.)"""
    return type(seconds) in (int, float) and 0 <= seconds <= sys.float_info.max  # type: ignore[operator]


def is_environment(found: object) -> bool:
    """Whether it names software and machine: texts under names, which can be written down in UTF-8."""
    if not isinstance(found, Mapping):
        return False
    return all(isinstance(text, str) and not SURROGATE.search(text) for text in (*found, *found.values()))


def checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record without its checksum, as ASCII JSON with sorted keys and no spaces.

    It tells accidents. Whoever changes a record on purpose changes it as well.
    """
    rest = {name: value for name, value in record.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def truncated(value: float | Fraction, digits: int = 6) -> str:
    """A decimal that is at most the value: what is printed never claims more than what was proved.

    Guarantee: in integers, whatever precision and rounding Python's decimals are set to.
    """
    return _decimal(math.floor(Fraction(value) * 10**digits), digits)


def raised(value: float | Fraction, digits: int = 6) -> str:
    """A decimal that is at least the value, for upper bounds.

    Guarantee: as for `truncated`.
    """
    return _decimal(math.ceil(Fraction(value) * 10**digits), digits)


def _decimal(units: int, digits: int) -> str:
    """So many units of the last of the digits after the point."""
    whole, rest = divmod(abs(units), 10**digits)
    point = f".{rest:0{digits}d}" if digits else ""
    return f"{'-' if units < 0 else ''}{whole}{point}"


def _below(value: float) -> dict[str, str]:
    return {"hex": value.hex(), "decimal": truncated(value, 9)}


def _above(value: float) -> dict[str, str]:
    return {"hex": value.hex(), "decimal": raised(value, 9)}


def _measurement(data: Mapping[str, Any]) -> Measurement:
    return Measurement(data["rows"], data["lost"])


def _counts(counts: Counts) -> dict[str, Any]:
    return {"classes": list(counts.classes), "nobody": counts.nobody}
