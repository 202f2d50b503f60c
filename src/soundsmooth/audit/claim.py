"""What a certificate says, as plain data, and what it promised, as numbers.

Read from the record's JSON and nothing else: the auditor does not use the program that wrote it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import prod
from typing import Any

from .bounds import BOUNDS, Look, Schedule
from .distance import TOLERANCE
from .laws import LAWS, Law
from .looks import LOOKS, StopRule, read_looks

MOST_COPIES = 10**9
#: A positive rational, as a promise writes it; absurdly long ones are refused before they are computed with.
RATIONAL = re.compile(r"[1-9][0-9]{0,2000}(/[1-9][0-9]{0,2000})?")
#: What a promise says of independence that is measured: how many rows are voted again.
MEASURED = re.compile("measured m=([1-9][0-9]{0,6})")
WORDS = ("proved", "checked", "assumed")
MOST_AGAIN = 10**6
DECIMAL = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?")
#: The largest α where a vote may depend on its row's position in the batch: docs/looks.md, "Positions in a batch".
MOST_ALPHA_UNPROVED = Fraction(1, 4)
#: What a promise says of floats that were rounded to the grid, of the grid, and of the shape of an input.
GIVEN = re.compile("[0-9a-f]{64} tolerance=([0-9/]{1,100})")
GRID = re.compile("levels=([1-9][0-9]{0,4}) q=([1-9][0-9]{0,7}) offset=[-0-9/]{1,4000}")
SHAPE = re.compile("([1-9][0-9]{0,15}( [1-9][0-9]{0,15}){0,63})?")
COIN = re.compile("[0-9a-f]{16}")
#: To be replaced by one look at n.
NONE_GIVEN = Schedule((), ())
#: No stream of noise has room for larger inputs.
MOST_SIZE = 1 << 51


@dataclass(frozen=True)
class VoteCounts:
    """How many noisy copies voted for each class, and how many for nobody."""

    classes: tuple[int, ...]
    nobody: int = 0

    @property
    def total(self) -> int:
        return sum(self.classes) + self.nobody

    @property
    def top(self) -> int:
        """The class with most votes; ties fall to the lowest."""
        return max(range(len(self.classes)), key=lambda c: (self.classes[c], -c))

    def others(self, label: int) -> int:
        """The largest count of any class but `label`; "nobody" is one of them."""
        return max([count for c, count in enumerate(self.classes) if c != label] + [self.nobody])

    def look(self, label: int) -> Look:
        """What a bound for the label is asked about."""
        return Look(self.total, self.classes[label], self.others(label))


@dataclass(frozen=True)
class AuditTerms:
    """What the promise fixed beforehand and the arithmetic needs."""

    n0: int
    n: int
    alpha: Fraction
    law: Law
    bound: str
    again: int | None = None
    """How many rows are voted again, alone, if independence is measured."""
    rounding: Fraction | None = None
    """The square of the most that rounding to the grid costs an input of a prediction, tolerance²·d; None if all images
    are on the grid, and nothing was to be paid."""
    schedule: Schedule = NONE_GIVEN
    """When votes are counted, and what each look spends of α; if none is given, all of it at n."""
    looked: bool = False
    """Whether looks were promised. Then each certificate says what was counted at them."""
    rule: StopRule | None = None
    """When an image was promised to stop, if it was."""

    def __post_init__(self) -> None:
        if not self.schedule.looks:
            object.__setattr__(self, "schedule", Schedule.fixed(self.n, self.alpha))
        if self.schedule.looks[-1] != self.n or sum(self.schedule.levels) > self.alpha:
            raise ValueError(f"the looks do not end at n = {self.n}, or spend more than alpha = {self.alpha}")


@dataclass(frozen=True)
class Claim:
    """What a certificate claims, and the votes that it rests on. Nothing here has been checked."""

    label: int | None
    radius: float
    p_lower: float
    p_upper: float | None
    selection: VoteCounts
    estimation: VoteCounts
    lost: int | None = None
    """How many of the rows that were voted again were hits only in their batch, if independence was measured."""
    paid: float | None = None
    """What the radius is less by, if floats were rounded to the grid."""
    looks: tuple[Look, ...] | None = None
    """What was counted at each look, for the selected class; None if no looks were promised."""
    aborted: bool = False
    """Whether it was ended from outside, after its last full look."""
    truth: int | None = None
    """The true label, if it was promised."""
    coin: Fraction | None = None
    """The image's own U, rounded up, where the bound is randomized. Whether the key gives it is not known here."""


def read_terms(promise: Mapping[str, str]) -> AuditTerms:
    """The numbers in a promise's text, or a ValueError that names the field.

    Guarantee: the promised bound holds at the promised α for rows that are independent as promised: α is at most ¼
    where votes in batches count, and the independence of rows is not proved.
    """
    alpha, bound = _rational(promise["alpha"], "alpha"), promise["bound"]
    if alpha >= 1:
        raise ValueError(f"the promised alpha is no probability below 1: {promise['alpha']}")
    if bound not in BOUNDS:
        raise ValueError(f"the promised bound is not one of {', '.join(BOUNDS)}: {bound!r}")
    n0, n, again = _copies(promise, "n0"), _copies(promise, "n"), _again(promise["independence"])
    if again is not None and not BOUNDS[bound].measurable:
        raise ValueError(f"independence cannot be measured with the bound {bound}")
    if not BOUNDS[bound].positions and promise["independence"] != "proved":
        raise ValueError(f"the bound {bound} needs rows that are proved to be independent")
    if promise["independence"] != "proved" and (again is None or LOOKS in promise) and alpha > MOST_ALPHA_UNPROVED:
        raise ValueError(f"independence is not proved, and alpha = {promise['alpha']} is above {MOST_ALPHA_UNPROVED}")
    terms = AuditTerms(n0, n, alpha, _law(promise), bound, again, _rounding(promise))
    found = read_looks(promise, terms.law, bound)
    return terms if found is None else replace(terms, schedule=found[0], looked=True, rule=found[1])


def read_claim(record: Mapping[str, Any]) -> Claim:
    """The claim in a certificate's record (its JSON, read), or a ValueError that names the field."""
    return Claim(
        label=None if record["label"] is None else _count(record["label"], "label"),
        radius=_number(record, "radius", below=True),
        p_lower=_number(record, "p_lower", below=True),
        p_upper=None if record["p_upper"] is None else _number(record, "p_upper", below=False),
        selection=_votes(record, "selection"),
        estimation=_votes(record, "estimation"),
        lost=_lost(record),
        paid=_paid(record),
        looks=_looks(record["looks"]) if "looks" in record else None,
        aborted=_aborted(record),
        coin=_coin(record["coin"]) if "coin" in record else None,
        truth=None if record["truth"] is None else _count(record["truth"], "truth"),
    )


def _again(independence: object) -> int | None:
    """How many rows are promised to be voted again; a ValueError for what is not how independence can be known."""
    if independence in WORDS:
        return None
    found = MEASURED.fullmatch(independence) if isinstance(independence, str) else None
    if found is None or int(found[1]) > MOST_AGAIN:
        raise ValueError(
            f"the promised independence is none of {', '.join(WORDS)} or measured m=…: {independence!r:.80}"
        )
    return int(found[1])


def _lost(record: Mapping[str, Any]) -> int | None:
    """What was measured, in a record that promised to measure independence; nothing in any other."""
    again = _again(record["promise"]["independence"])
    if again is None:
        if "measured" in record:
            raise ValueError("there is a measurement of independence that was not promised")
        return None
    rows, lost = _count(record["measured"]["rows"], "rows"), _count(record["measured"]["lost"], "lost")
    if set(record["measured"]) != {"rows", "lost"} or rows != again or lost > rows:
        raise ValueError(f"{again} rows were promised to be voted again, and {lost} of {rows} are said to be lost")
    return lost


def _rounding(promise: Mapping[str, str]) -> Fraction | None:
    """The square of what predictions may be away from the grid, if floats were rounded to it; a ValueError for a
    tolerance that is not the one there is.
    """
    if "given" not in promise:
        return None
    given, grid = GIVEN.fullmatch(promise["given"]), GRID.fullmatch(promise["grid"])
    if given is None or grid is None or not SHAPE.fullmatch(promise["input shape"]):
        raise ValueError(f"what is promised of given floats, grid or shape cannot be read: {promise['given']!r:.120}")
    size, tolerance = prod(map(int, promise["input shape"].split())), TOLERANCE * (int(grid[1]) - 1) / int(grid[2])
    if given[1] != str(tolerance) or size > MOST_SIZE:
        raise ValueError(f"the promised tolerance of {given[1]} is not that of {promise['grid']:.80}, {tolerance}")
    return tolerance**2 * size


def _paid(record: Mapping[str, Any]) -> float | None:
    """What was paid for rounding, if the record says so. Whether it was promised is another matter (`check_claim`)."""
    return _number(record, "paid", below=False) if "paid" in record else None


def _looks(data: object) -> tuple[Look, ...]:
    """What was counted at each look. Whether it can be is another matter (`check_claim`)."""
    if not isinstance(data, list) or not all(isinstance(look, list) and len(look) == 3 for look in data):
        raise ValueError(f"the looks are no list of copies, hits and others: {data!r:.80}")
    return tuple(Look(*(_count(number, "looks") for number in look)) for look in data)


def _coin(word: object) -> Fraction:
    """U, from its first 64 bits, rounded up."""
    if not isinstance(word, str) or not COIN.fullmatch(word):
        raise ValueError(f"the coin is not 64 bits in hexadecimal: {word!r:.80}")
    return Fraction(int(word, 16) + 1, 1 << 64)


def _aborted(record: Mapping[str, Any]) -> bool:
    if "aborted" in record and record["aborted"] is not True:
        raise ValueError(f"an image is aborted, or nothing is said of it: not {record['aborted']!r:.80}")
    return "aborted" in record


def _law(promise: Mapping[str, str]) -> Law:
    text = promise["sigma"]
    word, _, parameter = text.rpartition(" ") if isinstance(text, str) else ("", "", text)
    if word not in LAWS:
        raise ValueError(f"the promised sigma names no law of noise: {text!r:.80}")
    return LAWS[word](_rational(parameter, "sigma"))


def _rational(text: object, name: str) -> Fraction:
    if not isinstance(text, str) or not RATIONAL.fullmatch(text) or str(Fraction(text)) != text:
        raise ValueError(f"the promised {name} is not a positive number in lowest terms: {text!r:.80}")
    return Fraction(text)


def _copies(promise: Mapping[str, str], name: str) -> int:
    number = _rational(promise[name], name)
    if number.denominator != 1 or number > MOST_COPIES:
        raise ValueError(f"the promised {name} is not a whole number up to 10⁹: {promise[name]!r:.80}")
    return int(number)


def _votes(record: Mapping[str, Any], name: str) -> VoteCounts:
    counts = [_count(count, name) for count in record[name]["classes"]]
    return VoteCounts(tuple(counts), _count(record[name]["nobody"], name))


def _count(value: object, name: str) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"the {name} is not a whole number from 0 on: {value!r:.80}")
    return value


def _number(record: Mapping[str, Any], name: str, below: bool) -> float:
    """The exact double. The decimal beside it, which people read, may not claim more."""
    try:
        value, text = float.fromhex(record[name]["hex"]), record[name]["decimal"]
        exact, shown = Fraction(value), Fraction(Decimal(text if DECIMAL.fullmatch(text) else "nan"))
    except (InvalidOperation, ValueError, OverflowError) as error:
        raise ValueError(f"the {name} is not a number: {record[name]!r:.80}") from error
    if shown > exact if below else shown < exact:
        raise ValueError(f"the {name}'s decimal {text} claims more than its exact value {Decimal(value):.20g}")
    return value
