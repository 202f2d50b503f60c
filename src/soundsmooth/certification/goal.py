"""What a user wants to know of an image, and the looks that answer it: radii to decide, or the radius within a share.

The default looks are at 100·2^(k/3), rounded, and n copies: 100, 126, 159, 200, … A third of α is spent in equal parts
at all looks. Of the rest, a share (m/n)² is spent by the first m copies. So easy images are decided early, and hard
ones have most of α at the end.
"""

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal, NamedTuple, SupportsIndex

import numpy as np

from ..core.decimals import exact_text
from ..core.integers import whole_number, written_integer
from ..exact import BOUNDS, Rational, rational
from ..exact.group_sequential import boundaries
from ..noise import Law
from . import stop_rule
from .looks import MOST_LOOKS, MOST_RADII, Looks, check_bound, check_counts, check_least_level, check_levels
from .stop_rule import DEFAULT_PATIENCE, Intervals, binomial, go_on_for_radii

Radii = Literal["steps"] | Rational | Iterable[Rational]
#: Numbers of copies; or each with the level that is spent there; or the default.
LooksAsked = Literal["auto"] | Sequence[int] | Mapping[int, Rational]
#: Options by their names, as they are given to `goal`.
GoalOptions = dict[str, str | int | float | bool]
STEPS = "steps"
AUTO = "auto"
#: The radii of the field's tables.
STEP = Fraction(1, 4)
#: In the order in which they are written down.
GOAL_OPTIONS = ("radii", "width", "patience", "looks", "skip_wrong")
#: The first look, and how many looks there are until the copies have doubled.
FIRST_LOOK, PER_DOUBLING = 100, 3
#: The part of α that is spent in equal parts, and by which power of the copies the rest is.
EQUAL, EXPONENT = Fraction(1, 3), 2
#: The bound for set radii, where rows are proved to be independent.
FOR_RADII = "group-sequential"


class NamedLooks(NamedTuple):
    """The looks and levels that a user names; None for the default."""

    counts: tuple[int, ...] | None = None
    levels: tuple[Fraction, ...] | None = None

    @property
    def text(self) -> str | None:
        """Looks as the option takes them."""
        if self.counts is None:
            return None
        levels = [""] * len(self.counts) if self.levels is None else [f"={level}" for level in self.levels]
        return ",".join(f"{count}{level}" for count, level in zip(self.counts, levels, strict=True))


DEFAULT_LOOKS = NamedLooks()


@dataclass(frozen=True)
class Goal:
    """What is asked of each image, checked as far as that is possible before model and law are known."""

    radii: tuple[Fraction, ...] | None = None
    """The radii that are to be decided; empty for steps of ¼ up to what n allows."""
    width: Fraction | None = None
    """The share of its radius that an image may lose by stopping early."""
    patience: float = DEFAULT_PATIENCE
    """How many votes one more certified radius of one image is worth; more, if there are many radii, or hard ones."""
    looks: NamedLooks = DEFAULT_LOOKS
    skip_wrong: bool = False
    any_bound: bool = True
    """Whether no bound was named, so that the one that suits goal and model can be taken."""

    @property
    def stops_early(self) -> bool:
        return self.radii is not None or self.width is not None

    @property
    def options(self) -> GoalOptions:
        """What was asked in the words of options, from which `goal` makes the same. Defaults are left out."""
        said: dict[str, str | int | float | bool | None] = {
            "radii": None if self.radii is None else ",".join(map(exact_text, self.radii)) or STEPS,
            "width": None if self.width is None else exact_text(self.width),
            "patience": None if self.patience == DEFAULT_PATIENCE else _as_integer(self.patience),
            "looks": self.looks.text,
            "skip_wrong": self.skip_wrong or None,
        }
        return {name: value for name, value in said.items() if value is not None}


def goal(
    n: int,
    alpha: Fraction,
    radii: Radii | None = None,
    width: Rational | None = None,
    patience: SupportsIndex | float | None = None,
    looks: LooksAsked | str | None = None,
    skip_wrong: bool | None = False,
    any_bound: bool = True,
) -> Goal | None:
    """The goal that a user names, None for n copies of every image; or a ValueError that says what is wrong."""
    if radii is not None and width is not None:
        raise ValueError("ask for radii or for a width, not for both")
    if radii is None and width is None and (looks is not None or patience is not None):
        raise ValueError("looks and patience are for stopping early: ask for radii or a width too")
    if radii is None and width is None and not skip_wrong:
        return None
    return Goal(
        None if radii is None else _asked(radii),
        None if width is None else _share(width),
        DEFAULT_PATIENCE if patience is None else _patience(patience),
        named_looks(looks, n, alpha),
        bool(skip_wrong),
        any_bound,
    )


def named_looks(looks: LooksAsked | str | None, n: int, alpha: Fraction) -> NamedLooks:
    """The looks that a user names; a ValueError unless they rise to n and spend at most α."""
    looks = _written(looks) if isinstance(looks, str) else looks
    if looks is None:
        return DEFAULT_LOOKS
    if not isinstance(looks, Iterable):
        raise ValueError(f"looks are a list of numbers of copies, auto, or each with its level; not {looks!r:.80}")
    counts = tuple(whole_number(count, "a look") for count in looks)
    check_counts(counts, n)
    if not isinstance(looks, Mapping):
        return NamedLooks(counts)
    levels = tuple(rational(level, "a level") for level in looks.values())
    check_levels(levels, alpha)
    return NamedLooks(counts, levels)


def _written(looks: str) -> Sequence[int] | Mapping[int, Rational] | None:
    """Looks as the command line has them: 100,1000 or 100=1/10000,1000=1/2000; None for auto."""
    if looks.strip() == AUTO:
        return None
    words = [word.strip().partition("=") for word in looks.split(",")]
    if all(equals for _, equals, _ in words):
        counts = [written_integer(count) for count, _, _ in words]
        if len({*counts}) < len(counts):
            raise ValueError(f"each look stands once: {looks!r:.80}")
        return dict(zip(counts, (level for _, _, level in words), strict=True))
    if any(equals for _, equals, _ in words):
        raise ValueError(f"give the level of each look, or of none: {looks!r:.80}")
    return [written_integer(count) for count, _, _ in words]


def _asked(radii: Radii) -> tuple[Fraction, ...]:
    """The radii in order; empty for steps."""
    if isinstance(radii, str) and radii.strip() == STEPS:
        return ()
    if isinstance(radii, str):
        radii = [part for part in radii.split(",") if part.strip()]
    listed = [radii] if isinstance(radii, int | float | Fraction) else list(radii)  # type: ignore[arg-type]
    found = tuple(rational(each, "a radius") for each in listed)
    if not found or len(found) > MOST_RADII:
        raise ValueError(f"give between 1 and {MOST_RADII} radii, or steps")
    if min(found) < 0 or any(a >= b for a, b in pairwise(found)):
        raise ValueError(f"radii must rise, from 0 on: {', '.join(map(str, found))[:200]}")
    return found


def _share(width: Rational) -> Fraction:
    if isinstance(width, str) and width.strip().endswith("%"):
        share = rational(width.strip().removesuffix("%"), "width") / 100
    else:
        share = rational(width, "width")
    if not 0 < share < 1:
        raise ValueError(f"the width is a share of the radius, between 0 and 1, such as 1%; not {width}")
    return share


def _patience(patience: SupportsIndex | float) -> float:
    try:
        found = math.nan if isinstance(patience, bool) else float(patience)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not 0 <= found < math.inf:
        raise ValueError(f"the patience is a number of votes, from 0 on, not {patience!r:.80}")
    return found


def _as_integer(number: float) -> int | float:
    return int(number) if number.is_integer() else number


def written_options(options: GoalOptions) -> str:
    """One line that `read_options` reads: radii=steps patience=50000 skip_wrong."""
    return " ".join(name if value is True else f"{name}={value}" for name, value in options.items())


def read_options(text: str) -> GoalOptions:
    """The options that a line says, in their order; a ValueError if it says anything else."""
    words = [word.partition("=") for word in text.split(" ")]
    found = {name: _read_option(name, value) if equals else True for name, equals, value in words}
    known = [name for name in GOAL_OPTIONS if name in found and (found[name] is True) == (name == "skip_wrong")]
    if list(found) != known or written_options(found) != text:
        raise ValueError(f"these are no options for when to stop: {text!r:.80}")
    return found


def _read_option(name: str, value: str) -> str | int | float:
    return _as_integer(float(value)) if name == "patience" else value


def default_counts(n: int, batch: int | None) -> tuple[int, ...]:
    """100, 126, 159, 200, … and n; where looks must be whole batches, the next multiples of the batch."""
    counts: list[int] = []
    for k in range(MOST_LOOKS):
        following = round(FIRST_LOOK * 2 ** (k / PER_DOUBLING))
        count = following if batch is None else -(-following // batch) * batch
        if count < n and count not in counts and len(counts) < MOST_LOOKS - 1:
            counts.append(count)
    return (*counts, n)


def default_levels(counts: Sequence[int], alpha: Fraction) -> tuple[Fraction, ...]:
    """What each look spends: an equal part of α/3, and of the rest as much as makes (m/n)² of it by m of n copies."""
    shares = [Fraction(count, counts[-1]) ** EXPONENT for count in counts]
    equal = EQUAL / len(counts)
    return tuple(alpha * (equal + (1 - EQUAL) * (b - a)) for a, b in pairwise((Fraction(0), *shares)))


def looks_for(
    asked: Goal, law: Law, n: int, alpha: Fraction, bound: str, batch: int | None, price: Fraction = Fraction(0)
) -> Looks:
    """The looks that answer what is asked, with the rule when to go on.

    Where `batch` is given, every look is at whole batches. If floats are rounded to the grid, each radius is to hold
    after as much as the `price` was paid.
    """
    counts = (n,) if not asked.stops_early else asked.looks.counts or default_counts(n, batch)
    if batch is not None and asked.stops_early and any(count % batch for count in counts):
        raise ValueError(
            f"the rows are not proved to be independent, so each look must be at whole batches of {batch} copies: "
            f"choose n and looks accordingly, not {', '.join(map(str, counts))[:200]}"
        )
    check_bound(bound, len(counts), asked.radii is not None)
    levels = asked.looks.levels or default_levels(counts, alpha)
    check_least_level(bound, levels)
    if asked.radii is None:
        rule = _rule_for_width(asked, counts, levels)
        found = Looks(counts, levels, (), rule, asked.skip_wrong)
    else:
        radii, rule = _rule_for_radii(asked, law, counts, levels, bound, price)
        found = Looks(counts, levels, radii, rule, asked.skip_wrong)
    found.check(n, alpha, bound)
    return found


def _rule_for_width(asked: Goal, counts: Sequence[int], levels: Sequence[Fraction]) -> tuple[Intervals, ...]:
    return () if asked.width is None else stop_rule.go_on_for_width(counts, levels, float(asked.width))


def _rule_for_radii(
    asked: Goal, law: Law, counts: tuple[int, ...], levels: tuple[Fraction, ...], bound: str, price: Fraction
) -> tuple[tuple[tuple[Fraction, float], ...], tuple[Intervals, ...]]:
    """The radii with their thresholds, as far as n reaches them, and the rule when to go on."""
    boundaries_of = boundaries if BOUNDS[bound].radii else alone_boundaries
    kept: list[tuple[Fraction, float]] = []
    crossed: list[tuple[int, ...]] = []
    for radius in asked.radii or (STEP * step for step in range(MOST_RADII)):
        p = threshold(law, radius + price)
        found = (counts[-1] + 1,) if p is None else tuple(boundaries_of(p, counts, levels))
        if p is None or found[-1] > counts[-1]:
            if asked.radii or not kept:
                raise ValueError(f"n = {counts[-1]} copies cannot reach the radius {radius}: give a larger n")
            break
        kept.append((radius, p))
        crossed.append(found)
    return tuple(kept), go_on_for_radii(counts, crossed, [p for _, p in kept], asked.patience)


def alone_boundaries(p: float, counts: Sequence[int], levels: Sequence[Fraction]) -> tuple[int, ...]:
    """About the smallest numbers of hits whose Clopper–Pearson bound, at each look alone, is above p.

    They are computed in floats, for the stop rule only.
    """
    found = []
    for count, level in zip(counts, levels, strict=True):
        law = binomial(count, p)
        tails = np.cumsum(law.terms[::-1])[::-1] / law.terms.sum()
        found.append(law.first + int(np.argmax(tails <= level)) if tails[-1] <= level else count + 1)
    return tuple(found)


def threshold(law: Law, radius: Fraction) -> float | None:
    """A probability whose radius under the law is proved to be larger; None if no double below 1 has one.

    Guarantee: `law.radius` of it is above the radius. (It is the smallest double above ½ of which this is proved.)
    """
    low, high = _bits(0.5), _bits(math.nextafter(1.0, 0.0))
    if not law.radius(_double(high), None) > radius:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if law.radius(_double(middle), None) > radius else (middle, high)
    return _double(high)


def _bits(x: float) -> int:
    found: int = struct.unpack("<q", struct.pack("<d", x))[0]
    return found


def _double(bits: int) -> float:
    found: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return found
