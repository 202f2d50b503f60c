"""The laws of noise: which distribution, on which grid, clamped where; and the radius that it certifies.

A new law is a subclass of `Law` and a line in `LAWS`, with its arithmetic in `exact`; and the same in `audit`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from ..core.grid import IMAGES, Grid
from ..exact import Rational, breakpoint_floor, breakpoint_floors, positive, radius_below, radius_two_below, rational

MOST_SIGMA = 10**6
EUCLIDEAN = "‖δ‖₂"


@dataclass(frozen=True)
class Law(ABC):
    """T(U) = min { j ≥ −reach : U < B_j or j = reach }, for U uniform on [0, 1).

    B_j is the probability of a noise of at most j levels. Samplers know nothing else of it.
    """

    word: ClassVar[str]
    """What the promise's line `sigma` begins with; the normal law has only its number there."""
    norm: ClassVar[str]
    """The norm of the perturbations δ that its radii bound."""

    grid: Grid
    margin: int
    """K: noisy levels are clamped to [−K, levels − 1 + K]."""

    @property
    def reach(self) -> int:
        """K + L − 1: the noise lies in [−reach, reach]."""
        return self.margin + self.grid.levels - 1

    @property
    def lowest(self) -> int:
        return -self.margin

    @property
    def highest(self) -> int:
        return self.grid.levels - 1 + self.margin

    @property
    def lines(self) -> dict[str, str]:
        """What a promise says of the law, in the order of its fields."""
        return {"grid": self.grid.text, "margin": str(self.margin), "sigma": f"{self.word} {self.parameter}".strip()}

    @property
    @abstractmethod
    def parameter(self) -> Fraction:
        """The one number that, with grid and margin, fixes the law."""

    @abstractmethod
    def breakpoints(self, bits: int) -> tuple[int, ...]:
        """⌊2^bits · B_j⌋ for j = −reach, …, reach − 1.

        Guarantee: each is proved.
        """

    @abstractmethod
    def breakpoint(self, j: int, bits: int) -> int:
        """⌊2^bits · B_j⌋ for one j.

        Guarantee: proved.
        """

    @abstractmethod
    def radius(self, p_lower: float, p_upper: float | None) -> float:
        """The certified radius of a label that wins: with p_lower > p_upper, or with p_lower > ½ where that is None.

        Guarantee: at most the true value. So the smoothed classifier keeps its label at x + δ for every δ with a norm
        below it, if p_lower and p_upper bound the probabilities at x.
        """


@dataclass(frozen=True, init=False)
class Gaussian(Law):
    """B_j = Φ((j + ½)/(σq)).

    Then clamp(x + T) has exactly the law of g_k(x + ε), ε ~ N(0, σ²), for every level x of the grid:
    the paper's Proposition 5.1.
    """

    word = ""
    norm = EUCLIDEAN

    sigma: Fraction

    def __init__(self, sigma: Rational, k: Rational = 6, grid: Grid = IMAGES) -> None:
        """σ and k in units of value 1 (the paper's convention), both exact rationals."""
        deviation = positive(sigma, "sigma")
        if deviation > MOST_SIGMA:
            raise ValueError(
                f"sigma = {sigma} is beyond any use: all noise would be clamped; keep it below {MOST_SIGMA}"
            )
        super().__init__(grid, grid.margin(positive(k, "k")))
        object.__setattr__(self, "sigma", deviation)

    @property
    def parameter(self) -> Fraction:
        return self.sigma

    def breakpoints(self, bits: int) -> tuple[int, ...]:
        """⌊2^bits · B_j⌋ for j = −reach, …, reach − 1.

        Guarantee: each is proved in ball arithmetic (`exact.breakpoint_floors`).
        """
        return _breakpoints(self.sigma, self.grid.q, self.reach, bits)

    def breakpoint(self, j: int, bits: int) -> int:
        """⌊2^bits · B_j⌋ for one j.

        Guarantee: proved in ball arithmetic (`exact.breakpoint_floor`).
        """
        return _breakpoint(self.sigma.numerator, self.sigma.denominator, self.grid.q, j, bits)

    def radius(self, p_lower: float, p_upper: float | None) -> float:
        """σ/2 · (Φ⁻¹(p_lower) − Φ⁻¹(p_upper)), where p_upper is 1 − p_lower if there is none.

        Guarantee: at most the true value (`exact.radius_below`, `exact.radius_two_below`).
        """
        if p_upper is None:
            return radius_below(p_lower, self.sigma)
        return radius_two_below(p_lower, p_upper, self.sigma)


#: By the word that a promise names them with.
LAWS: dict[str, Callable[[Rational, Rational, Grid], Law]] = {each.word: each for each in (Gaussian,)}


def promised_law(values: Mapping[str, str]) -> Law:
    """The law that a promise's lines name.

    Guarantee: it has exactly these lines; a ValueError if no law has.
    """
    named = {name: values[name] for name in ("grid", "margin", "sigma")}
    word, _, parameter = named["sigma"].rpartition(" ")
    if word not in LAWS:
        raise ValueError(f"the promised sigma names no law of noise: {named['sigma']!r:.80}")
    grid = Grid.of_text(named["grid"])
    law = LAWS[word](parameter, rational(named["margin"], "margin") / grid.q, grid)
    if law.lines != named:
        raise ValueError(f"the promised law of noise would be written {law.lines}, not {named}")
    return law


@lru_cache(maxsize=32)
def _breakpoints(sigma: Fraction, q: int, reach: int, bits: int) -> tuple[int, ...]:
    return tuple(breakpoint_floors(sigma, q, reach, bits))


@lru_cache(maxsize=1 << 16)
def _breakpoint(numerator: int, denominator: int, q: int, j: int, bits: int) -> int:
    """Two integers are found faster than a fraction, whose hash is a power modulo a prime."""
    return breakpoint_floor(Fraction(numerator, denominator), q, j, bits)
