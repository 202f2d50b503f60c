"""When an image's votes are looked at, what each look spends of α, and when it is enough (docs/looks.md).

Whether a certificate holds depends on the looks and their levels alone. The rule that says when to stop decides how
many votes are spent; it may be any rule.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from ..core.decimals import exact_text
from ..exact import BOUNDS, Look, Schedule
from .stop_rule import Intervals

#: More would be a run that nobody asks for.
MOST_LOOKS, MOST_RADII, MOST_GROUP, MOST_PACK = 64, 256, 100_000, 10**9
#: The largest α where rows are not proved to be independent: Hoeffding's theorem of 1956 goes no farther here.
MOST_ALPHA_UNPROVED = Fraction(1, 4)
#: The smallest level of a look for set radii. With smaller ones their boundaries take hours and all memory.
LEAST_LEVEL = Fraction(1, 10**100)
#: So many radii are told one by one.
MOST_TOLD = 8
NEVER = "none"
SKIPPED = "skipped"
GROUP = re.compile("([1-9][0-9]{0,9}) images ([1-9][0-9]{0,9}) copies")
INTERVAL = re.compile("(0|[1-9][0-9]{0,9})-(0|[1-9][0-9]{0,9})")
#: Rationals from 0 on, as a promise writes them. Others, such as 1e999999999, are refused before they are computed.
RATIONAL = re.compile("(?:0|[1-9][0-9]{0,2000})(?:/[1-9][0-9]{0,2000})?")
#: Doubles between ½ and 1.
THRESHOLD = re.compile("0x1[.][0-9a-f]{13}p-1")


class Group(NamedTuple):
    """So many consecutive images vote from look to look together, and share batches; in packs of at most so many
    copies.
    """

    images: int
    copies: int

    def __str__(self) -> str:
        return f"{self.images} images {self.copies} copies"


@dataclass(frozen=True)
class Looks:
    """What is promised of looks: when votes are counted, at which levels, for which radii, and when it goes on."""

    counts: tuple[int, ...]
    """n_1 < … < n_K = n."""
    levels: tuple[Fraction, ...]
    """α_1, …, α_K."""
    radii: tuple[tuple[Fraction, float], ...] = ()
    """The radii that are asked for, rising, each with a probability whose radius is proved to be larger."""
    go_on: tuple[Intervals, ...] = ()
    """For each look but the last, the hits with which the image goes on. Validity does not depend on it."""
    skip_wrong: bool = False
    """Whether an image ends after selection if the selected label is not the promised one."""
    group: "Group | None" = None
    """How copies of different images share batches; None if they do not."""

    def schedule(self, bound: str) -> Schedule:
        """What the bound of that name is told."""
        thresholds = tuple(p for _, p in self.radii) if BOUNDS[bound].radii else ()
        return Schedule(self.counts, self.levels, thresholds)

    def goes_on(self, truth: int | None, label: int, taken: Sequence[Look]) -> bool:
        """Whether an image with this true label, if it is known, votes on after the looks that were taken."""
        if self.skip_wrong and truth is not None and truth != label:
            return False
        if not taken:
            return True
        if len(taken) == len(self.counts):
            return False
        return any(low <= taken[-1].hits <= high for low, high in self.go_on[len(taken) - 1])

    def told(self, bound: str) -> str:
        """When an image stops, for people: "when the radii 0, 0.5, 1 are decided; the certified radius is one of
        these".
        """
        asked, several = radii_text([radius for radius, _ in self.radii]), len(self.radii) > 1
        parts = []
        if self.radii:
            parts.append(f"when the {'radii' if several else 'radius'} {asked} {'are' if several else 'is'} decided")
        elif len(self.counts) > 1:
            parts.append("when its radius is nearly the one that all votes would give")
        if self.skip_wrong:
            parts.append("after selection if the selected class is not its label")
        claim = f"; the certified radius is {'one of these' if several else 'this one'}"
        return ", or ".join(parts) + (claim if BOUNDS[bound].radii else "")

    @property
    def segments(self) -> list[range]:
        """The copies of estimation that vote between two looks."""
        return [range(first, end) for first, end in pairwise((0, *self.counts))]

    @property
    def lines(self) -> dict[str, str]:
        """The promise's lines."""
        spent = zip(self.counts, self.levels, strict=True)
        found = {"looks": " ".join(f"{count}={level}" for count, level in spent)}
        if self.radii:
            found["radii"] = " ".join(f"{radius}={p.hex()}" for radius, p in self.radii)
        if self.go_on:
            found["go on"] = " ".join(map(_word, self.go_on))
        if self.skip_wrong:
            found["wrong labels"] = SKIPPED
        if self.group is not None:
            found["group"] = str(self.group)
        return found

    @classmethod
    def of_lines(cls, lines: Mapping[str, str]) -> "Looks | None":
        """What a promise says of looks, None if nothing; a ValueError if it cannot be read or says something else."""
        if "looks" not in lines:
            said = [name for name in ("radii", "go on", "wrong labels", "group") if name in lines]
            if said:
                raise ValueError(f"the promise has a line {said[0]!r}, but none of looks")
            return None
        spent = [word.partition("=") for word in _words(lines, "looks")]
        found = cls(
            tuple(_whole(count) for count, _, _ in spent),
            tuple(_rational(level) for _, _, level in spent),
            tuple(map(_radius, _words(lines, "radii"))),
            tuple(map(_intervals, _words(lines, "go on"))),
            lines.get("wrong labels") == SKIPPED,
            _group(lines["group"]) if "group" in lines else None,
        )
        if any(lines.get(name) != text for name, text in found.lines.items()):
            raise ValueError("the promise's lines on looks are not written as they should be")
        if "wrong labels" in lines and not found.skip_wrong:
            raise ValueError(f"the promise's wrong labels are not {SKIPPED}, but {lines['wrong labels']!r:.80}")
        return found

    def check(self, n: int, alpha: Fraction, bound: str) -> None:
        """A ValueError unless the looks rise to n, their levels add up to at most α, and the bound allows for them."""
        check_counts(self.counts, n)
        check_levels(self.levels, alpha)
        if len(self.levels) != len(self.counts) or len(self.go_on) != len(self.counts) - 1:
            raise ValueError("each look needs a level, and each but the last a rule when to go on")
        check_bound(bound, len(self.counts), bool(self.radii))
        check_least_level(bound, self.levels)
        self._check_radii()
        self._check_rule()
        group = self.group
        if group is not None and not (1 <= group.images <= MOST_GROUP and 1 <= group.copies <= MOST_PACK):
            raise ValueError(f"a group has between 1 and {MOST_GROUP} images, and packs of copies: not {self.group}")

    def _check_radii(self) -> None:
        asked, thresholds = [radius for radius, _ in self.radii], [p for _, p in self.radii]
        if len(asked) > MOST_RADII:
            raise ValueError(f"at most {MOST_RADII} radii can be asked for, not {len(asked)}")
        if any(a >= b for a, b in pairwise(asked)) or any(radius < 0 for radius in asked):
            raise ValueError("radii must rise, from 0 on, and each stands once")
        if any(a >= b for a, b in pairwise(thresholds)) or not all(0.5 < p < 1 for p in thresholds):
            raise ValueError("the probabilities that belong to radii must rise between ½ and 1")

    def _check_rule(self) -> None:
        for count, intervals in zip(self.counts, self.go_on, strict=False):
            apart = all(high + 1 < low for (_, high), (low, _) in pairwise(intervals))
            if not apart or any(not low <= high <= count for low, high in intervals):
                raise ValueError(f"the rule to go on after {count} copies has hits out of order: {_word(intervals)}")


def radii_text(radii: Sequence[Fraction]) -> str:
    """The radii, exactly; of many, the first ones and the last."""
    shown = [exact_text(radius) for radius in radii]
    return ", ".join(shown if len(shown) <= MOST_TOLD else [*shown[:3], "…", shown[-1]])


def check_counts(counts: Sequence[int], n: int) -> None:
    """A ValueError unless these are numbers of copies that rise to n."""
    if not counts or len(counts) > MOST_LOOKS:
        raise ValueError(f"there are between 1 and {MOST_LOOKS} looks, not {len(counts)}")
    if counts[0] < 1 or any(a >= b for a, b in pairwise(counts)):
        raise ValueError(f"looks must rise, each at more copies than the one before: {_listed(counts)}")
    if counts[-1] != n:
        raise ValueError(f"the last look is at all n = {n} copies, not at {counts[-1]}")


def check_levels(levels: Sequence[Fraction], alpha: Fraction) -> None:
    """A ValueError unless these are positive and add up to at most α."""
    if not all(level > 0 for level in levels):
        raise ValueError(f"each look spends something of alpha: {_listed(levels)}")
    if sum(levels) > alpha:
        raise ValueError(f"the looks spend {sum(levels)} in all, which is more than alpha = {alpha}")


def check_bound(bound: str, looks: int, radii: bool) -> None:
    """A ValueError unless the bound holds for as many looks, and has the `radii` that it needs."""
    if looks > 1 and not BOUNDS[bound].repeatable:
        raise ValueError(f"the bound {bound} holds for one look only: leave out radii, width and looks")
    if BOUNDS[bound].radii and not radii:
        raise ValueError(f"the bound {bound} is for set radii: say which")


def check_least_level(bound: str, levels: Sequence[Fraction]) -> None:
    """A ValueError if the bound has boundaries to be computed, and a level is too small for that."""
    if BOUNDS[bound].radii and min(levels) < LEAST_LEVEL:
        raise ValueError(f"with the bound {bound} each look spends at least 10⁻¹⁰⁰: give a larger alpha or level")


def check_alpha_unproved(alpha: Fraction, looks: bool = True) -> None:
    """A ValueError unless a bound keeps to α where a vote may depend on its position, with looks or without
    (docs/looks.md).
    """
    if alpha > MOST_ALPHA_UNPROVED:
        raise ValueError(
            f"the rows are not proved to be independent, so alpha is at most {MOST_ALPHA_UNPROVED}"
            f"{' with looks' if looks else ''}, not {alpha}"
        )


def _words(lines: Mapping[str, str], name: str) -> list[str]:
    """What a line says, word by word; nothing if it is not there."""
    return lines[name].split(" ") if name in lines else []


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))[:200]


def _word(intervals: Intervals) -> str:
    return ",".join(f"{low}-{high}" for low, high in intervals) or NEVER


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 10:
        raise ValueError(f"the promise's lines on looks have no whole number in {text!r:.80}")
    return int(text)


def _group(text: str) -> Group:
    found = GROUP.fullmatch(text)
    if found is None:
        raise ValueError(f"the promise's group cannot be read: {text!r:.80}")
    return Group(int(found[1]), int(found[2]))


def _radius(word: str) -> tuple[Fraction, float]:
    radius, _, p = word.partition("=")
    if not THRESHOLD.fullmatch(p):
        raise ValueError(f"the promise has a radius without a probability between ½ and 1: {word!r:.80}")
    return _rational(radius), float.fromhex(p)


def _rational(text: str) -> Fraction:
    if not RATIONAL.fullmatch(text):
        raise ValueError(f"the promise's lines on looks have no rational number in {text!r:.80}")
    return Fraction(text)


def _intervals(word: str) -> Intervals:
    if word == NEVER:
        return ()
    found = [INTERVAL.fullmatch(each) for each in word.split(",")]
    if not all(found):
        raise ValueError(f"the promise's rule when to go on cannot be read: {word!r:.80}")
    return tuple((int(each[1]), int(each[2])) for each in found if each)
