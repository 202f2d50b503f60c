"""Sequential counting by hand: every count of hits after every single vote, in exact fractions."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

Counts = tuple[int, ...]


def crossing(probabilities: Sequence[Fraction], looks: Sequence[int], bad: Callable[[int, Counts], bool]) -> Fraction:
    """The probability that `bad(k, counts)` holds at some look k, where vote by vote one of the classes is hit."""
    alive = {(0,) * len(probabilities): Fraction(1)}
    gone = Fraction(0)
    for k, (before, after) in enumerate(pairwise((0, *looks))):
        for _ in range(after - before):
            alive = one_vote(alive, probabilities)
        ended = {counts: mass for counts, mass in alive.items() if bad(k, counts)}
        gone += sum(ended.values(), Fraction(0))
        alive = {counts: mass for counts, mass in alive.items() if counts not in ended}
    return gone


def one_vote(alive: dict[Counts, Fraction], probabilities: Sequence[Fraction]) -> dict[Counts, Fraction]:
    found: dict[Counts, Fraction] = {}
    for counts, mass in alive.items():
        for place, probability in enumerate(probabilities):
            after = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
            found[after] = found.get(after, Fraction(0)) + mass * probability
    return found


def reaching(p: Fraction | float, looks: Sequence[int], boundaries: Sequence[int]) -> Fraction:
    """P(H_k ≥ b_k for some k)."""
    exact = Fraction(p)
    return crossing([exact, 1 - exact], looks, lambda k, counts: counts[0] >= boundaries[k])
