"""What a user chooses about a certification, checked once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, SupportsIndex, get_args

from ..core.integers import whole_number
from ..exact import BoundName, Rational, Schedule, probability
from ..noise.sources import NOISE_MODES, NoiseMode
from .goal import FOR_RADII, Goal, goal
from .looks import Looks, check_bound

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
    goal: Goal | None = None
    """What is asked of each image; None for n copies of every one."""
    looks: Looks | None = None
    """The looks that answer it. They follow from goal, law and model, and are promised."""

    @property
    def stops_early(self) -> bool:
        """Whether an image may stop before it has n copies."""
        return self.goal is not None and self.goal.stops_early

    @property
    def shares_batches(self) -> bool:
        """Whether images share batches; before looks are known, whether they will if rows are proved independent."""
        if self.looks is not None:
            return self.looks.group is not None
        return self.stops_early and self.noise == "fresh"

    @property
    def schedule(self) -> Schedule:
        """When votes are counted and how α is spent: once, at n, unless there are looks."""
        return Schedule.fixed(self.n, self.alpha) if self.looks is None else self.looks.schedule(self.bound)

    @property
    def segments(self) -> list[range]:
        """The copies of estimation, as they vote from look to look."""
        return [range(self.n)] if self.looks is None else self.looks.segments


def settings(
    n0: int | float = 100,
    n: int | float = 100_000,
    alpha: Rational = "0.001",
    bound: str | None = None,
    noise: str = "fresh",
    **asked: Any,
) -> Settings:
    """Settings from what the user wrote, or a ValueError that says what is wrong. What is `asked` makes the goal.

    Without a bound it is the default, or, for radii, whichever suits the model.
    """
    n0, n = copies(n0, "n0"), copies(n, "n")
    if bound is not None and bound not in get_args(BoundName):
        raise ValueError(f"bound must be one of {', '.join(get_args(BoundName))}, not {bound!r}")
    mode = next((known for known in NOISE_MODES if known == noise), None)
    if mode is None:
        raise ValueError(f"noise must be one of {', '.join(NOISE_MODES)}, not {noise!r}")
    level = probability(alpha, "alpha")
    wanted = goal(n, level, any_bound=bound is None, **asked)
    return Settings(n0, n, level, bound or DEFAULT_BOUND, mode, wanted)


def usual_bound(radii: bool, proved: bool) -> str:
    """The bound that is taken if none is named, by whether radii are asked for and rows are proved independent."""
    return FOR_RADII if radii and proved else DEFAULT_BOUND


def promised_settings(promised: Mapping[str, str]) -> Settings:
    """Those that a promise names; a ValueError if it names none."""
    chosen = settings(int(promised["n0"]), int(promised["n"]), promised["alpha"], promised["bound"], promised["noise"])
    looks = Looks.of_lines(promised)
    if looks is None:
        check_bound(chosen.bound, 1, radii=False)
        return chosen
    looks.check(chosen.n, chosen.alpha, chosen.bound)
    return replace(chosen, looks=looks)


def copies(value: SupportsIndex | float, name: str) -> int:
    """A number of noisy copies: an integer between 1 and 10⁹; 1e5 is one."""
    count = whole_number(value, name)
    if not 1 <= count <= MOST_COPIES:
        raise ValueError(f"{name} must be an integer between 1 and 10⁹, not {value!r}")
    return count
