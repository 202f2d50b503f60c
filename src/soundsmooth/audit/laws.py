"""The laws of noise that a promise may name, and the radii that they certify."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from .radius import radius_below, radius_holds


class Law(ABC):
    """A law of noise, as far as radii depend on it. It wins with p_lower > p_upper, or > ½ where that is None.

    Guarantee: what `radius_below` gives is at most the true radius, and `radius_holds` is True only for such a number.
    """

    word: ClassVar[str]
    """What the promise's line `sigma` begins with, before its number."""

    @abstractmethod
    def radius_holds(self, radius: float, p_lower: float, p_upper: float | None) -> bool:
        """Whether a radius of a label that wins is proved to be at most the one that the bounds allow."""

    @abstractmethod
    def radius_below(self, p_lower: float, p_upper: float | None) -> float:
        """The auditor's own radius of a label that wins."""


@dataclass(frozen=True)
class Gaussian(Law):
    """N(0, σ²), with radii in the Euclidean norm: σ/2 · (Φ⁻¹(p_lower) − Φ⁻¹(p_upper)).

    Guarantee: as `Law`.
    """

    word = ""

    sigma: Fraction

    def radius_holds(self, radius: float, p_lower: float, p_upper: float | None) -> bool:
        return radius_holds(radius, p_lower, p_upper, self.sigma)

    def radius_below(self, p_lower: float, p_upper: float | None) -> float:
        return radius_below(p_lower, p_upper, self.sigma)

    def __str__(self) -> str:
        return f"sigma = {self.sigma}"


#: By the word that a promise names them with.
LAWS: dict[str, Callable[[Fraction], Law]] = {each.word: each for each in (Gaussian,)}
