"""What a user chooses about a certification, checked once."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import SupportsIndex, get_args

from ..core.integers import whole_number
from ..exact import BoundName, Rational, probability
from ..noise.sources import NOISE_MODES, NoiseMode

MOST_COPIES = 10**9
DEFAULT_BOUND: BoundName = get_args(BoundName)[0]


@dataclass(frozen=True)
class Settings:
    """n₀ copies select the class, n estimate its probability; the certificate fails with probability ≤ α."""

    n0: int
    n: int
    alpha: Fraction
    bound: str
    """One of `exact.BOUNDS`."""
    noise: NoiseMode


def settings(
    n0: int | float = 100,
    n: int | float = 100_000,
    alpha: Rational = "0.001",
    bound: str = DEFAULT_BOUND,
    noise: str = "fresh",
) -> Settings:
    """Settings from what the user wrote, or a ValueError that says what is wrong."""
    n0, n = copies(n0, "n0"), copies(n, "n")
    if bound not in get_args(BoundName):
        raise ValueError(f"bound must be one of {', '.join(get_args(BoundName))}, not {bound!r}")
    mode = next((known for known in NOISE_MODES if known == noise), None)
    if mode is None:
        raise ValueError(f"noise must be one of {', '.join(NOISE_MODES)}, not {noise!r}")
    return Settings(n0, n, probability(alpha, "alpha"), bound, mode)


def promised_settings(promised: Mapping[str, str]) -> Settings:
    """Those that a promise names; a ValueError if it names none."""
    return settings(int(promised["n0"]), int(promised["n"]), promised["alpha"], promised["bound"], promised["noise"])


def copies(value: SupportsIndex | float, name: str) -> int:
    """A number of noisy copies: an integer between 1 and 10⁹; 1e5 is one."""
    count = whole_number(value, name)
    if not 1 <= count <= MOST_COPIES:
        raise ValueError(f"{name} must be an integer between 1 and 10⁹, not {value!r}")
    return count
