"""What a promise says of looks: when votes are counted, what each look spends of α, for which radii, and when to stop.

Each line has one spelling only. Whether claims hold depends on looks, levels and thresholds, never on the stop rule. An
image that does not keep to the rule breaks the promise all the same.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from .bounds import BOUNDS, Look, Schedule
from .laws import Law

MOST_LOOKS, MOST_RADII, MOST_GROUP, MOST_PACK = 64, 256, 10**5, 10**9
#: The optional lines, as a promise names them.
LOOKS, RADII, GO_ON, WRONG, GROUP = "looks", "radii", "go on", "wrong labels", "group"
#: A look with its level, and a radius with a double between ½ and 1. All digits are ASCII.
SPENT = re.compile("([1-9][0-9]{0,9})=([1-9][0-9]{0,2000}(?:/[1-9][0-9]{0,2000})?)")
ASKED = re.compile("((?:0|[1-9][0-9]{0,2000})(?:/[1-9][0-9]{0,2000})?)=(0x1[.][0-9a-f]{13}p-1)")
INTERVAL = re.compile("(0|[1-9][0-9]{0,9})-(0|[1-9][0-9]{0,9})")
SHARED = re.compile("([1-9][0-9]{0,9}) images ([1-9][0-9]{0,9}) copies")
BATCH = re.compile("[1-9][0-9]{0,9}")
#: The smallest level of a look for set radii: with smaller ones, boundaries take hours and all memory.
LEAST_LEVEL = Fraction(1, 10**100)

#: Closed intervals of hits.
Intervals = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class StopRule:
    """When an image votes on, as it was promised. Whether a claim holds does not depend on it.

    Guarantee: none; this is a promise.
    """

    go_on: tuple[Intervals, ...] = ()
    """For each look but the last, the hits with which it goes on."""
    skip_wrong: bool = False
    """Whether an image whose selected label is not the promised one ends after selection."""

    def goes_on(self, looks: Sequence[Look], wrong: bool) -> bool:
        """Whether there is another look after these; `wrong` if the selected label is known not to be the true one."""
        if self.skip_wrong and wrong:
            return False
        if not looks:
            return True
        if len(looks) > len(self.go_on):
            return False
        return any(low <= looks[-1].hits <= high for low, high in self.go_on[len(looks) - 1])


#: What the arithmetic needs of the lines on looks, and what is promised beyond that.
PromisedLooks = tuple[Schedule, StopRule]


def read_looks(promise: Mapping[str, str], law: Law, bound: str) -> PromisedLooks | None:
    """The lines on looks; None if there are none. A ValueError for lines that cannot be kept, or are written otherwise.

    Guarantee: the looks rise, and each has a level above 0. The bound holds for as many looks. Each radius has a
    threshold between ½ and 1 whose radius is proved to be larger, and both rise. Rows that are not proved to be
    independent share no batch with those of other images, and several looks are at whole batches. (Whether the looks
    end at n and spend at most α is for `AuditTerms`; how large α may be, for `read_terms`.)
    """
    lines = {name: promise[name] for name in (LOOKS, RADII, GO_ON, WRONG, GROUP) if name in promise}
    if any(not isinstance(text, str) for text in lines.values()):
        raise ValueError("the promise's lines on looks are no texts")
    if not lines:
        if BOUNDS[bound].radii:
            raise ValueError(f"the bound {bound} is for set radii, and none are promised")
        return None
    if LOOKS not in lines:
        raise ValueError(f"the promise has a line {next(iter(lines))!r}, but none of looks")
    found = _read(tuple(lines.items()), law, bound)
    _check_independence(promise, found[0].looks)
    return found


@lru_cache(maxsize=64)
def _read(lines: tuple[tuple[str, str], ...], law: Law, bound: str) -> PromisedLooks:
    text = dict(lines)
    looks, levels = _spent(text[LOOKS])
    if len(looks) > 1 and not BOUNDS[bound].repeatable:
        raise ValueError(f"the bound {bound} holds for one look, and {len(looks)} are promised")
    thresholds = _thresholds(text[RADII], law) if RADII in text else ()
    if BOUNDS[bound].radii and not thresholds:
        raise ValueError(f"the bound {bound} is for set radii, and none are promised")
    if BOUNDS[bound].radii and min(levels) < LEAST_LEVEL:
        raise ValueError(f"a promised look spends less than 10⁻¹⁰⁰, with the bound {bound}")
    if WRONG in text and text[WRONG] != "skipped":
        raise ValueError(f"the promised {WRONG} are not skipped, but {text[WRONG]!r:.80}")
    if GROUP in text:
        _check_group(text[GROUP])
    rule = StopRule(_go_on(text.get(GO_ON), looks), WRONG in text)
    return Schedule(looks, levels, thresholds if BOUNDS[bound].radii else ()), rule


def _spent(text: str) -> tuple[tuple[int, ...], tuple[Fraction, ...]]:
    """The looks, which rise, and their levels."""
    found = [SPENT.fullmatch(word) for word in text.split(" ", MOST_LOOKS)]
    if len(found) > MOST_LOOKS:
        raise ValueError(f"more than {MOST_LOOKS} looks are promised")
    words = [(int(each[1]), _canonical(each[2])) for each in found if each]
    if len(words) != len(found):
        raise ValueError(f"the promised looks cannot be read: {text!r:.80}")
    looks, levels = zip(*words, strict=True)
    if any(before >= after for before, after in pairwise(looks)):
        raise ValueError(f"the promised looks do not rise: {text!r:.80}")
    return looks, levels


def _thresholds(text: str, law: Law) -> tuple[float, ...]:
    """The thresholds of the radii, each proved."""
    found = [ASKED.fullmatch(word) for word in text.split(" ", MOST_RADII)]
    if len(found) > MOST_RADII or not all(found):
        raise ValueError(f"the promised radii are more than {MOST_RADII}, or cannot be read: {text!r:.80}")
    words = [(_canonical(each[1]), float.fromhex(each[2])) for each in found if each]
    for before, after in pairwise(words):
        if not (before[0] < after[0] and before[1] < after[1]):
            raise ValueError(f"the promised radii and their thresholds do not rise at {after[0]}")
    for radius, p in words:
        if not p > 0.5 or not law.radius_below(p, None) > radius:
            raise ValueError(f"the promised threshold {p!r} is not proved to have a radius above {radius} at {law}")
    return tuple(p for _, p in words)


def _go_on(text: str | None, looks: Sequence[int]) -> tuple[Intervals, ...]:
    """The rule at each look but the last: intervals of hits that rise and do not touch, or none."""
    words = [] if text is None else text.split(" ", MOST_LOOKS)
    if len(words) != len(looks) - 1:
        raise ValueError(f"there are {len(looks)} looks, and a rule when to go on for {len(words)}")
    return tuple(_intervals(word, n) for word, n in zip(words, looks, strict=False))


def _intervals(word: str, n: int) -> Intervals:
    if word == "none":
        return ()
    found = [INTERVAL.fullmatch(each) for each in word.split(",")]
    read = tuple((int(each[1]), int(each[2])) for each in found if each)
    apart = all(high + 1 < low for (_, high), (low, _) in pairwise(read))
    if len(read) != len(found) or not apart or any(not low <= high <= n for low, high in read):
        raise ValueError(f"the promised rule when to go on after {n} copies cannot be read: {word!r:.80}")
    return read


def _check_group(text: str) -> None:
    found = SHARED.fullmatch(text)
    if found is None or int(found[1]) > MOST_GROUP or int(found[2]) > MOST_PACK:
        raise ValueError(f"the promised {GROUP} is none that can be: {text!r:.80}")


def _check_independence(promise: Mapping[str, str], looks: Sequence[int]) -> None:
    """What looks need where rows are not proved to be independent, so that a vote may depend on its position."""
    proved = promise["independence"] == "proved"
    if GROUP in promise and not (proved and promise["noise"] == "fresh"):
        raise ValueError("images are promised to share batches, but not with fresh noise and proved independence")
    if proved or len(looks) == 1:
        return
    batch = promise["batch"]
    if not isinstance(batch, str) or not BATCH.fullmatch(batch) or any(n % int(batch) for n in looks):
        raise ValueError(f"independence is not proved, and not each look is at whole batches of {batch!r:.80} copies")


def _canonical(text: str) -> Fraction:
    number = Fraction(text)
    if str(number) != text:
        raise ValueError(f"a number of the promised looks is not in lowest terms: {text!r:.80}")
    return number
