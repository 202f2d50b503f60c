"""The certificate: a frozen record of what was promised, what was counted and what follows."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NoReturn

from ..core.decimals import raised, truncated
from ..core.grid import Grid
from ..exact import Look, rational
from ..models.protocol import CLOSED, OPEN, OPEN_ENDS
from ..models.registry import KINDS, digest_binds
from ..noise import SHARED_STREAM
from ..noise.law import Law, promised_law
from .card import card, line, short, spent_text, unit_of
from .certify import Counts, Measurement
from .fields import (
    COIN,
    COUNT,
    COUNTS,
    DIGEST,
    DIGITS,
    FLAG,
    INDEX,
    LOOKS,
    LOWER,
    MEASUREMENT,
    NONCE,
    PROMISE,
    SECONDS,
    SOFTWARE,
    TEXT,
    UPPER,
    Column,
    Export,
    Field,
    checksum,
    faults,
    json_of,
    read_json,
    read_looks,
    values_of,
)
from .promise import SPEC, Promise, Secret
from .settings import promised_settings
from .votes import counts_of, votes_text

FORMAT = "soundsmooth certificate 1"
#: How people are told of images that ended otherwise than by a decision.
WRONG_CLASS = "the selected class is not the label, a wrong answer"
ABORTED = "ended from outside, and certified for its last full look"
#: What an auditor finds.
OTHER_COIN = "its coin is not the one that promise, seed and nonce give"


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
    paid: float | None = None
    """What the radius is less by, because floats are rounded to the grid here and in predictions (docs/soundness.md,
    row 12). None if all images of the run are on the grid."""
    looks: tuple[Look, ...] | None = None
    """The looks that were taken, where looks were promised: the votes so far each time."""
    aborted: bool | None = None
    """True if the image was ended from outside, after its last full look; else None."""
    coin: str | None = None
    """The input's own 64 bits in hexadecimal, where the bound is randomized; else None."""

    @property
    def abstained(self) -> bool:
        return self.label is None

    @property
    def status(self) -> str:
        return "skipped" if self.skipped else "abstained" if self.abstained else "certified"

    @property
    def skipped(self) -> bool:
        """Whether the image ended after selection, which chose another class than the promised label."""
        return self.looks == () and not self.aborted

    @property
    def votes(self) -> int:
        """How many noisy copies have voted, selection included."""
        return self.selection.total + self.estimation.total

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
    def law(self) -> Law:
        """The promised noise; a ValueError if there is none like it."""
        try:
            return promised_law(self.promise.values)
        except ValueError as error:
            raise ValueError(f"the certificate's noise does not exist: {error}") from None

    @property
    def independence(self) -> str:
        """How it is known that rows of a batch do not see each other and calls leave no trace."""
        return self.promise.values["independence"]

    @property
    def independence_claim(self) -> str:
        """The same with what it supposes."""
        if self.measured is None or digest_binds(self.promise.values["model kind"]):
            return self.independence
        return f"{self.independence} (supposing that the code does not work against it)"

    @property
    def trust(self) -> str:
        """What kind of thing voted. Python code could read the key from this process; a graph is data."""
        if digest_binds(self.promise.values["model kind"]):
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

    @property
    def norm(self) -> str:
        """The norm of the perturbations δ that the radius bounds."""
        return self.law.norm

    @property
    def unit(self) -> str:
        """What the radius is a multiple of: for images, the [0, 1] range of their values."""
        return unit_of(Grid.of_text(self.promise.values["grid"]))

    def __repr__(self) -> str:
        return line("Certificate", self.index, (self._answer(4), f"α = {short(self.promise.values['alpha'])}"))

    def _repr_html_(self) -> str:
        rows = (
            ("answer", self._answer(6)),
            *([] if self.abstained else [("radius in units of", self.unit)]),
            *([] if self.paid is None else [("paid for rounding", raised(self.paid, DIGITS))]),
            ("false with probability", f"≤ {short(self.promise.values['alpha'])}"),
            ("p", f"≥ {truncated(self.p_lower)}"),
            *self._stop_rows(),
            ("true class", "not given" if self.truth is None else self.truth),
            ("independence", self.independence_claim),
            ("model", self.trust),
            ("key", self.key),
        )
        return card(f"Certificate for image {self.index}", rows)

    def _stop_rows(self) -> Iterator[tuple[str, str]]:
        """Where looks were promised: what the image has spent, and when it was to stop."""
        try:
            chosen = promised_settings(self.promise.values)
        except (ValueError, ArithmeticError):  # a record from elsewhere may promise what there is not
            return
        if chosen.looks is not None:
            yield "spent", spent_text(self.votes, chosen.n0 + chosen.n)
            yield "stops", chosen.looks.told(chosen.bound)
        if self.aborted:
            yield "aborted", ABORTED

    def _answer(self, digits: int) -> str:
        """The class and where it holds, or an abstention."""
        if self.label is None:
            return f"skipped: {WRONG_CLASS}" if self.skipped else "abstained"
        try:
            return f"class {self.label}, {self.norm} < {truncated(self.radius, digits)}"
        except (ValueError, OverflowError):  # a record from elsewhere may have a law or a radius that there is not
            return f"class {self.label}, no radius"

    def __str__(self) -> str:
        alpha, unit = self.promise.values["alpha"], f" in units of {self.unit}"
        price = "" if self.paid is None else f"{raised(self.paid, DIGITS)} paid for rounding to the grid, "
        stops = "".join(f"{name}: {text}; " for name, text in self._stop_rows())
        origin = f"{price}{stops}key: {self.key}, independence: {self.independence_claim}, model: {self.trust}"
        if self.label is None:
            return f"{self._answer(0)} (p ≥ {truncated(self.p_lower)}; {origin})"
        return (
            f"class {self.label} for every {self.law.norm} < {truncated(self.radius)}{unit} "
            f"(p ≥ {truncated(self.p_lower)}, α = {alpha}; {origin})"
        )

    def __iter__(self) -> NoReturn:
        """Older code returns two values; a certificate has more to say."""
        raise TypeError(
            "a certificate is not a pair: it has .label and .radius; "
            "soundsmooth.compat.Smooth returns (prediction, radius)"
        )

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data; bounds as hexadecimal floats, exact, and as decimals that err the safe way."""
        record = {"format": FORMAT, **json_of(self, FIELDS)}
        return {**record, "checksum": checksum(record)}

    def to_json(self) -> str:
        """One line of JSON, which `from_json` turns back into an equal record."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """The record that was written; a ValueError if it is none, was changed, or does not follow from itself.

        The auditor's arithmetic decides, so a record that claims less than it could is read as well. Whether the counts
        are what the model voted is another matter (`soundsmooth.verify`).
        """
        from ..audit import check_record  # an issuer needs none of it

        try:
            data = read_json(text)
        except (RecursionError, json.JSONDecodeError) as error:
            raise ValueError(f"this is not a soundsmooth certificate ({FORMAT!r}): {error!r}") from error
        wrong = [*contradictions(data)] or [*check_record(data).findings]
        if wrong:
            raise ValueError(f"the certificate cannot be relied on: {'; '.join(wrong)}")
        found = cls.from_dict(data)
        found._check_promise()
        return found

    def _check_promise(self) -> None:
        """A ValueError unless the promise is one that this version makes, and the seed the promised one."""
        promised = self.promise.values
        if hashlib.sha256(bytes.fromhex(self.seed)).hexdigest() != promised["seed"]:
            raise ValueError("the certificate's seed is not the one it promised")
        if promised["spec"] != SPEC or promised["model kind"] not in KINDS:
            raise ValueError("the certificate's promise is not one that this version makes")
        for name in ("batch", "input count"):
            if str(rational(promised[name], f"the certificate's {name}")) != promised[name]:
                raise ValueError(f"the certificate's {name} is not written in lowest terms: {promised[name]!r}")
        promised_law(promised), promised_settings(promised)

    @property
    def has_due_coin(self) -> bool:
        """Whether its coin, if it has one, is the one that promise, seed and nonce give.

        An issuer who chooses the coin of a randomized bound chooses how much too large the bound is. Whether there must
        be one is for `audit.check_record`.
        """
        if self.coin is None:
            return True
        secret = Secret(bytes.fromhex(self.seed), bytes.fromhex(self.nonce))
        return 0 <= self.index < SHARED_STREAM and self.coin == secret.coin(self.promise, self.index)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Certificate":
        """The record that the data says; nothing is checked but its format."""
        if data["format"] != FORMAT:
            raise ValueError(f"this is not a soundsmooth certificate ({FORMAT!r}), but {data['format']!r}")
        return cls(**values_of(data, FIELDS))


def _read_flag(cell: int) -> bool:
    if cell not in (0, 1):
        raise ValueError(f"a mark is 0 or 1, not {cell}")
    return bool(cell)


#: A certificate's fields, in the order of its JSON. From this follow JSON, the table of certificates in a run's file,
#: the columns of exports and the auditor's checks of types.
FIELDS = (
    Field("index", INDEX, export=Export("index", "int64", 0)),
    Field(
        "label", COUNT, Column("label", "INTEGER", "NULL for an abstention"), Export("predict", "int64", 2), null=True
    ),
    Field("radius", LOWER, Column("radius", "REAL NOT NULL"), Export("radius", "float64", 3)),
    Field("p_lower", LOWER, Column("p_lower", "REAL NOT NULL"), Export("p_lower", "float64", 4)),
    Field("p_upper", UPPER, Column("p_upper", "REAL"), Export("p_upper", "float64", 5), null=True),
    Field("truth", COUNT, export=Export("label", "int64", 1), null=True),
    Field("selection", COUNTS, Column("selection", "TEXT NOT NULL", write=votes_text, read=counts_of)),
    Field("estimation", COUNTS, Column("estimation", "TEXT NOT NULL", write=votes_text, read=counts_of)),
    Field(
        "measured",
        MEASUREMENT,
        Column(
            "lost", "INTEGER", "of the rows that were voted again (NULL: none were to be)", write=attrgetter("lost")
        ),
        null=True,
        omitted=True,
    ),
    Field(
        "paid",
        UPPER,
        Column("paid", "REAL", "what the radius is less by (NULL: all images are on the grid)", since=3),
        null=True,
        omitted=True,
    ),
    Field(
        "looks",
        LOOKS,
        Column("looks", "TEXT", "votes, hits, most others at each (NULL: none promised)", json.dumps, read_looks, 4),
        null=True,
        omitted=True,
    ),
    Field(
        "aborted",
        FLAG,
        Column("aborted", "INTEGER", "1 if it was ended from outside (NULL: it was not)", int, _read_flag, 4),
        Export("aborted", "bool_", 10),
        null=True,
        omitted=True,
    ),
    Field(
        "coin",
        COIN,
        Column("coin", "TEXT", "64 bits for the randomized bound (NULL: the bound is another one)", since=5),
        null=True,
        omitted=True,
    ),
    Field("promise", PROMISE),
    Field("commitment", DIGEST, derived="commitment"),
    Field("seed", DIGEST),
    Field("nonce", NONCE),
    Field("key", TEXT, derived="key"),
    Field("independence", TEXT, derived="independence"),
    Field("model", TEXT, derived="trust"),
    Field("environment", SOFTWARE, Column("environment", "INTEGER NOT NULL REFERENCES environments")),
    Field("seconds", SECONDS, Column("seconds", "REAL NOT NULL"), Export("seconds", "float64", 8)),
)


def contradictions(record: Mapping[str, Any]) -> Iterator[str]:
    """Where a record, as its JSON is read, is none, or does not fit its checksum, its parts or its key.

    Guarantee: without any, commitment and coin, if there is one, fit promise, seed and nonce, and the record is word
    for word what `Certificate.to_dict` would write.
    """
    try:
        changed = record["checksum"] != checksum(record)
        if changed:
            yield "the record was changed: its checksum does not fit"
        certificate = Certificate.from_dict(record)
        if not changed and certificate.to_dict() != record:
            yield "the record's parts contradict each other: commitment, key, decimals or remarks"
        wrong = faults(certificate, FIELDS)
        yield from (f"the record's {fault}" for fault in wrong)
        if not wrong and not certificate.has_due_coin:
            yield OTHER_COIN
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        yield f"this is not a soundsmooth certificate ({FORMAT!r}): {error!r}"
