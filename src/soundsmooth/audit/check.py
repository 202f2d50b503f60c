"""Does a certificate follow from its own counts? The arithmetic of an audit; no model is needed.

It accepts whatever is sound, also a radius that is smaller than it could be. It cannot see whether the counts are what
the model voted: that takes a replay (`replay`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from .bounds import BOUNDS, Look, Schedule, kept_alone, paired
from .claim import AuditTerms, Claim, VoteCounts, read_claim, read_terms
from .distance import after_paying, before_paying, possible

#: A claim is tight if a claim that is larger by this factor would be refused.
MORE = 1 + 2.0**-40
NO_VOTES = Look(0, 0, 0)


@dataclass(frozen=True)
class ClaimReport:
    """What is wrong with a certificate's arithmetic (nothing, if it is accepted), and whether it could claim more."""

    findings: tuple[str, ...]
    tight: bool
    """An accepted claim of which no part could be better by more than 2⁻⁴⁰, relatively. Weak claims are sound."""

    @property
    def accepted(self) -> bool:
        return not self.findings


def check_record(record: Mapping[str, Any]) -> ClaimReport:
    """Check a certificate's record, as its JSON is read.

    Guarantee: as `check_claim`; a record that is not one has findings.
    """
    try:
        return check_claim(read_claim(record), read_terms(record["promise"]))
    except (KeyError, TypeError, AttributeError) as error:
        return ClaimReport((f"this is not a certificate's record: {error!r}",), False)
    except ValueError as error:
        return ClaimReport((str(error),), False)


def check_claim(claimed: Claim, promised: AuditTerms) -> ClaimReport:
    """Check label, bounds and radius against the counts.

    Guarantee: without findings the counts add up to the promised n₀ and n, or to the first of the promised looks; the
    label is the one that selection chose, or an abstention with radius 0; p_lower and p_upper are proved to be on the
    safe side of the promised bound; and the radius, with what was paid for rounding, is proved to be at most the one
    that they allow. So the certificate's claim holds at α if the counts are true, and what was paid is what was due
    (`distance.pays`). It would hold wherever the image had stopped; but it stopped where the promised rule says so.
    """
    checks = (_impossible_counts, _impossible_numbers, _impossible_price)
    malformed = tuple(wrong for check in checks for wrong in check(claimed, promised))
    malformed = malformed or tuple(_impossible_looks(claimed, promised))
    findings = malformed or (*_unproved(claimed, promised), *_broken_rule(claimed, promised))
    return ClaimReport(findings, not findings and tight(claimed, promised))


def verdict(
    selection: VoteCounts,
    estimation: VoteCounts,
    promised: AuditTerms,
    lost: int | None = None,
    paid: float | None = None,
    looks: Sequence[Look] | None = None,
    coin: Fraction | None = None,
) -> Claim:
    """The certificate that the auditor would give for these counts, and for the looks that were taken.

    Guarantee: `check_claim` accepts it, if the counts add up and the image stopped as promised, and it is tight.
    """
    seen = [estimation.look(selection.top)] if looks is None else looks
    p_lower, p_upper, radius = prove(seen, promised, lost, coin)
    left = after_paying(radius, paid)
    label = selection.top if wins(p_lower, p_upper) and (paid is None or left > 0) else None
    taken = None if looks is None else tuple(looks)
    return Claim(label, left, p_lower, p_upper, selection, estimation, lost, paid, taken, coin=coin)


def prove(
    looks: Sequence[Look], promised: AuditTerms, lost: int | None = None, coin: Fraction | None = None
) -> tuple[float, float | None, float]:
    """What the looks prove, at α and by the promised bound, about a class that was chosen without looking at the votes:
    p_lower, p_upper, and the radius that they allow, 0 if the class does not win.

    If independence was promised to be measured, `lost` is the result; without it the votes prove nothing. With it the
    class may be any: of the α/2 that the lower bound has, half pays for the choice (docs/audit.md, Theorem 4).

    Guarantee: bounds on the safe side, and a radius that is at most the one that they allow.
    """
    p_lower, p_upper = BOUNDS[promised.bound].prove(*evidence(looks, promised, lost, coin))
    radius = promised.law.radius_below(p_lower, p_upper) if wins(p_lower, p_upper) else 0.0
    return p_lower, p_upper, radius


def evidence(
    looks: Sequence[Look], promised: AuditTerms, lost: int | None, coin: Fraction | None = None
) -> tuple[Sequence[Look], Schedule]:
    """What the promised bound is asked about, and at which levels.

    If independence was promised to be measured: the hits of the last look that are kept alone, at a quarter of its
    level (docs/audit.md, Theorem 4).

    Guarantee: the bound at these levels holds at α for the class, and where independence is measured for any class.
    """
    if promised.again is None or not looks:
        return looks, promised.schedule._replace(coin=coin)
    (n, hits, _), level = paired(looks, promised.schedule)[-1]
    kept = kept_alone(hits, n, promised.again, promised.again if lost is None else lost, level)
    return [Look(n, kept, n - kept)], Schedule.fixed(n, level / 4)


def _impossible_counts(claimed: Claim, promised: AuditTerms) -> Iterator[str]:
    """What is wrong with the counts: they must be right before a bound can be asked for."""
    selection, estimation = claimed.selection, claimed.estimation
    numbers = [*selection.classes, selection.nobody, *estimation.classes, estimation.nobody]
    if any(type(number) is not int or number < 0 for number in numbers):
        yield "the counts are not whole numbers from 0 on"
    elif (selection.total, estimation.total) != (promised.n0, _voted(claimed, promised)):
        wanted = f"{promised.n0} and {_voted(claimed, promised)}"
        yield f"the counts add up to {selection.total} and {estimation.total}, not to {wanted}"
    if not selection.classes or len(selection.classes) != len(estimation.classes):
        yield f"there are {len(selection.classes)} classes in selection and {len(estimation.classes)} in estimation"
    if (claimed.lost is None) != (promised.again is None):
        yield "independence was measured without a promise, or promised to be measured without a result"
    elif promised.again is not None and not 0 <= (claimed.lost or 0) <= promised.again:
        yield f"{claimed.lost} of {promised.again} rows cannot be lost"
    if (claimed.coin is not None) != BOUNDS[promised.bound].coin:
        yield f"the bound {promised.bound} {'needs a' if claimed.coin is None else 'has no'} coin"
    elif claimed.coin is not None and not 0 < claimed.coin <= 1:
        yield f"the coin does not lie above 0 and is at most 1: {claimed.coin}"


def _voted(claimed: Claim, promised: AuditTerms) -> int:
    """How many copies must have voted: all n, or those up to the last look."""
    if claimed.looks is None:
        return promised.n
    return claimed.looks[-1].n if claimed.looks else 0


def _impossible_numbers(claimed: Claim, promised: AuditTerms) -> Iterator[str]:
    """What is wrong with label, bounds and radius by themselves."""
    if claimed.label is not None and (type(claimed.label) is not int or claimed.label < 0):
        yield f"the label is not the number of a class: {claimed.label!r}"
    if (claimed.p_upper is None) == BOUNDS[promised.bound].two_sided:
        yield f"the bound {promised.bound} {'has no' if claimed.p_upper is not None else 'needs a'} p_upper"
    bounds = [claimed.p_lower] if claimed.p_upper is None else [claimed.p_lower, claimed.p_upper]
    if not all(isinstance(p, float) and 0 <= p <= 1 for p in bounds):
        yield f"the bounds are no probabilities: {', '.join(map(repr, bounds))}"
    if not isinstance(claimed.radius, float) or not 0 <= claimed.radius < math.inf:
        yield f"the radius is not a number from 0 on: {claimed.radius!r}"


def _impossible_price(claimed: Claim, promised: AuditTerms) -> Iterator[str]:
    """What is wrong with the price for rounding by itself."""
    if (claimed.paid is None) != (promised.rounding is None):
        yield "the radius pays for rounding without a promise, or it was promised and does not pay"
    elif claimed.paid is not None and promised.rounding is not None and not possible(claimed.paid, promised.rounding):
        yield f"so much cannot be due for rounding to the grid: {claimed.paid!r}"


def _impossible_looks(claimed: Claim, promised: AuditTerms) -> Iterator[str]:
    """What is wrong with the looks, where the counts are not."""
    if (claimed.looks is not None) != promised.looked:
        yield "there are looks that were not promised, or looks were promised and there are none"
    if claimed.aborted and not promised.looked:
        yield "only an image with looks can be aborted and have a certificate"
    looks = claimed.looks or ()
    if tuple(look.n for look in looks) != promised.schedule.looks[: len(looks)]:
        yield f"votes were counted at {', '.join(str(look.n) for look in looks)[:80]} copies, which was not promised"
        return
    for before, after in pairwise((NO_VOTES, *looks)):
        if not _may_follow(before, after, len(claimed.selection.classes)):
            yield f"after {before.hits} hits and {before.others} others, look {tuple(after)!r:.80} is not possible"
            return
    if claimed.looks is not None and _last(claimed) != (looks[-1] if looks else NO_VOTES):
        yield f"the last look is not that of the counts, {tuple(_last(claimed))}"


def _last(claimed: Claim) -> Look:
    return claimed.estimation.look(claimed.selection.top)


def _may_follow(before: Look, after: Look, classes: int) -> bool:
    """Whether these can be the votes of one image, one look after the other.

    The most frequent other class gains at most what the label does not. And all other classes, with nobody, have the
    rest of the votes: the most frequent has its part of them.
    """
    if any(type(number) is not int or number < 0 for number in after):
        return False
    more, hits, others = (b - a for a, b in zip(before, after, strict=True))
    return min(more, hits, others) >= 0 and hits + others <= more and after.n - after.hits <= classes * after.others


def _broken_rule(claimed: Claim, promised: AuditTerms) -> Iterator[str]:
    """Where the image did not stop, or go on, as the promised rule says. Its claim holds all the same."""
    looks, rule, selected = claimed.looks, promised.rule, claimed.selection.top
    if looks is None or rule is None:
        return
    wrong = claimed.truth is not None and claimed.truth != selected
    for taken in range(len(looks)):
        if not rule.goes_on(looks[:taken], wrong):
            yield f"the promised rule ends it after {taken} looks, and it has {len(looks)}"
            return
    on = rule.goes_on(looks, wrong)
    if on and not claimed.aborted:
        yield f"the promised rule goes on after {len(looks)} looks, and it ended there without being aborted"
    if claimed.aborted and not on:
        yield f"the promised rule ends it after {len(looks)} looks, and it is said to be aborted"


def _unproved(claimed: Claim, promised: AuditTerms) -> Iterator[str]:
    """What does not follow from the counts."""
    selected = claimed.selection.top
    hits, n = claimed.estimation.classes[selected], claimed.estimation.total
    if not bounds_hold(claimed, promised):
        upper = "" if claimed.p_upper is None else f" and p_upper = {claimed.p_upper!r}"
        lost = "" if claimed.lost is None else f", {claimed.lost} of {promised.again} lost alone,"
        at = "" if claimed.looks is None else f" at look {len(claimed.looks)}"
        yield (
            f"{hits} of {n} votes{at}{lost} do not prove p_lower = {claimed.p_lower!r}{upper} "
            f"({promised.bound}, alpha = {promised.alpha})"
        )
    if claimed.label is None:
        if claimed.radius != 0:
            yield f"an abstention claims the radius {claimed.radius!r}"
        return
    if claimed.label != selected:
        yield f"the label is {claimed.label}, but selection chose {selected}"
    if not wins(claimed.p_lower, claimed.p_upper):
        yield f"there is a label although class {selected} is not proved to win"
    elif not radius_follows(claimed, promised):
        less = "" if claimed.paid is None else f", after {claimed.paid!r} was paid for rounding,"
        yield f"the radius {claimed.radius!r}{less} exceeds what the bounds allow at {promised.law}"


def bounds_hold(claimed: Claim, promised: AuditTerms) -> bool:
    """Guarantee: True only if p_lower and p_upper are on the safe side of the promised bound for the selected class."""
    found = evidence([_last(claimed)] if claimed.looks is None else claimed.looks, promised, claimed.lost, claimed.coin)
    return BOUNDS[promised.bound].holds(claimed.p_lower, claimed.p_upper, *found)


def wins(p_lower: float, p_upper: float | None) -> bool:
    """Guarantee: True only if p_lower is above ½, or above p_upper where there is one."""
    return p_lower > (0.5 if p_upper is None else p_upper)


def radius_follows(claimed: Claim, promised: AuditTerms) -> bool:
    """Guarantee: True only if the radius, with what was paid, is at most the one that p_lower and p_upper allow."""
    return ball_holds(before_paying(claimed.radius, claimed.paid), claimed, promised)


def ball_holds(radius: float, claimed: Claim, promised: AuditTerms) -> bool:
    """Guarantee: True only if the ball around the grid point is at most as large as p_lower and p_upper allow."""
    if not 0 < claimed.p_lower < 1 or claimed.p_upper == 0:
        return False
    return promised.law.radius_holds(radius, claimed.p_lower, claimed.p_upper)


def tight(claimed: Claim, promised: AuditTerms) -> bool:
    """Whether an accepted claim says as much as its counts allow: each number, made better by 2⁻⁴⁰, would be refused.

    Guarantee: none; this is about usefulness, not about soundness.
    """
    better = [replace(claimed, p_lower=_more(claimed.p_lower))]
    if claimed.p_upper is not None:
        better.append(replace(claimed, p_upper=claimed.p_upper / MORE))
    if any(bounds_hold(each, promised) for each in better):
        return False
    if not wins(claimed.p_lower, claimed.p_upper):
        return claimed.label is None
    if claimed.label is None and claimed.paid is None:
        return False
    return not ball_holds(_more(before_paying(claimed.radius, claimed.paid)), claimed, promised)


def _more(x: float) -> float:
    return x * MORE or MORE - 1
