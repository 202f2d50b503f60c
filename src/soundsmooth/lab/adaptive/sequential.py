"""What the published tests have in common: a state is so many hits among so many votes, and p is certified or given up.

To certify p is to claim that a hit is more likely than p. A test of level α claims it wrongly with probability at most
α, at all looks together. To give up needs no level; the published tests have one all the same.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import NamedTuple

NEVER = 10**9


class Boundary(NamedTuple):
    """Where a test decides, look by look."""

    certify: tuple[int, ...]
    """The least hits that certify; more than the votes if none do."""
    give_up: tuple[int, ...]
    """The most hits with which it gives up; −1 if none do."""


@dataclass(frozen=True)
class Sequential:
    """A test that looks at the votes again and again."""

    name: str
    source: str
    valid: bool
    """Whether the level α for certifying, at all looks together, follows from the argument that its file gives."""

    def looks(self, n: int) -> tuple[int, ...]:
        """When it may look, n votes at most. Here: so often that two looks are 5 % apart, or one vote."""
        return dense_looks(n)

    def certifies(self, hits: int, votes: int, p: float, alpha: float) -> bool:
        """Whether it claims that a hit is more likely than p."""
        raise NotImplementedError

    def gives_up(self, hits: int, votes: int, p: float, alpha: float) -> bool:
        """Whether it stops without that claim: here where it would claim the opposite, with misses for hits."""
        return self.certifies(votes - hits, votes, 1 - p, alpha)


def dense_looks(n: int, first: int = 10) -> tuple[int, ...]:
    """Looks that are 5 % apart, or one vote, and n."""
    looks = [first]
    while looks[-1] < n:
        looks.append(min(n, looks[-1] + max(1, looks[-1] // 20)))
    return tuple(looks)


def boundary(test: Sequential, p: float, n: int, alpha: float, looks: Sequence[int]) -> Boundary:
    """Where the test decides about p, at these looks.

    Hits only grow. So it may certify at once what it certifies at its next look even if all votes between are misses;
    and it may give up as early. The test's own looks need not be these.
    """
    own = test.looks(n)
    hits = [least_count(votes, partial(_certifies, test, votes, p, alpha)) for votes in own]
    misses = [least_count(votes, partial(_gives_up, test, votes, p, alpha)) for votes in own]
    certify, give_up = _from_then_on(own, hits, looks), _from_then_on(own, misses, looks)
    return Boundary(tuple(certify), tuple(votes - most for votes, most in zip(looks, give_up, strict=True)))


def _certifies(test: Sequential, votes: int, p: float, alpha: float, hits: int) -> bool:
    return test.certifies(hits, votes, p, alpha)


def _gives_up(test: Sequential, votes: int, p: float, alpha: float, misses: int) -> bool:
    return test.gives_up(votes - misses, votes, p, alpha)


def least_count(votes: int, enough: Callable[[int], bool]) -> int:
    """The least count that is enough, or one that no number of votes reaches."""
    found = bisect_left(range(votes + 1), True, key=enough)
    return found if found <= votes else NEVER


def _from_then_on(own: Sequence[int], counts: Sequence[int], looks: Sequence[int]) -> list[int]:
    """For each look the smallest count that is enough then or at a later look of the test; at most votes + 1."""
    later = list(accumulate(reversed(counts), min))[::-1]
    return [min([*later[bisect_left(own, votes) :][:1], votes + 1]) for votes in looks]
