"""The confidence bounds that a certificate may name, one entry of `BOUNDS` each.

A bound gets looks: how many votes were counted each time, how many of them were hits, how many fell to the most
frequent other class. The bounds of today look once, at a number of votes that was fixed beforehand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Literal, NamedTuple

from .balls import float_above
from .binomial import clopper_pearson_above, clopper_pearson_below, hoeffding_below

#: p_lower, and p_upper if the bound looks at the other classes.
Bounds = tuple[float, float | None]


class Look(NamedTuple):
    """The votes that are counted at one time, from the first on.

    Guarantee: none; these are counts.
    """

    n: int
    hits: int
    others: int
    """The largest count of any class but the label; "nobody" is one of them."""


@dataclass(frozen=True)
class Bound:
    """A confidence bound for the probability of a label that was chosen without looking at these votes.

    Guarantee: `prove` errs in a stated direction. Except with probability α over the votes, p_lower is at most the
    label's probability and p_upper, if there is one, at least that of each other class.
    """

    prove: Callable[[Sequence[Look], Fraction], Bounds]
    two_sided: bool = False
    """Whether it also bounds the other classes from above: then a label wins with p_lower > p_upper, not with > ½."""
    measurable: bool = False
    """Whether it goes with measured independence: docs/audit.md, Theorem 4, is proved for it."""

    def prove_alone(self, looks: Sequence[Look], rows: int, lost: int, alpha: Fraction) -> Bounds:
        """The same for the probability that one row, alone, votes for the label, which may be any.

        Of the n copies, D are hits in their batch and would not be alone; D/n ≤ u, the Clopper–Pearson upper bound from
        the `rows` that were voted again and the `lost` ones among them, except with probability α/2. So at least
        hits − ⌊n·u⌋ copies are hits alone, and these are independent whatever the batches do: the lower bound from
        them, at α/4, is above ½ and wrong, for any class at all, with probability at most α/2. Any class: a model with
        a memory may have selected the label with the copies for estimation in view (docs/audit.md, Theorem 4).
        (docs/independence.md. The difference of the two bounds would be too large where votes of a batch depend on
        each other: then the hits in batches are not binomial.)

        Guarantee: at most the true value of this bound.
        """
        if not self.measurable:
            raise ValueError("this bound does not go with measured independence")
        n, hits, _ = the_only(looks)
        share = Fraction(clopper_pearson_above(lost, rows, alpha / 2))
        kept = max(0, hits - floor(n * share))
        return self.prove([Look(n, kept, n - kept)], alpha / 4)


def the_only(looks: Sequence[Look]) -> Look:
    """The look of a bound that looks once.

    Guarantee: it is the only one; a ValueError otherwise. The bound would not hold if there were more.
    """
    if len(looks) != 1:
        raise ValueError(f"this bound holds for one look at a fixed number of votes, not for {len(looks)}")
    return looks[0]


def _clopper_pearson(looks: Sequence[Look], alpha: Fraction) -> Bounds:
    n, hits, _ = the_only(looks)
    return clopper_pearson_below(hits, n, alpha), None


def _hoeffding(looks: Sequence[Look], alpha: Fraction) -> Bounds:
    n, hits, _ = the_only(looks)
    return hoeffding_below(hits, n, alpha), None


def _runner_up(looks: Sequence[Look], alpha: Fraction) -> Bounds:
    """The most frequent of the others dominates the count of the true runner-up, whichever class that is, and the bound
    rises with the count: no price for the number of classes. (Bounding the runner-up that selection named would leave
    out all the others.)
    """
    n, hits, others = the_only(looks)
    p_lower = clopper_pearson_below(hits, n, alpha / 2)
    return p_lower, min(clopper_pearson_above(others, n, alpha / 2), float_above(1 - Fraction(p_lower)))


#: The names, as settings and promises have them; the first is the default.
BoundName = Literal["clopper-pearson", "hoeffding", "runner-up"]
BOUNDS: dict[str, Bound] = {
    "clopper-pearson": Bound(_clopper_pearson, measurable=True),
    "hoeffding": Bound(_hoeffding),
    "runner-up": Bound(_runner_up, two_sided=True),
}
