"""The certifiers that the gallery puts side by side: those in use, the paper's proposals, and ours.

Each gets a point of integer levels and a classifier that works in the certifier's own precision, and answers with a
label and a radius, or abstains, or refuses.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from ...certification.certify import Counts, Measurement, certify
from ...certification.settings import settings
from ...core.grid import IMAGES
from ...exact import BoundName
from ...noise import Gaussian, Keystream, Purpose, Sampler
from ...smoother import Smoother
from ..unsound import UnsoundStandard, count_votes

Array = npt.NDArray[Any]
Scores = Callable[[Any], Any]
#: Makes the classifier for one precision: all its arithmetic must be in it, or the effects of rounding vanish.
MakeScores = Callable[[np.dtype[Any]], Scores]


class Refused(Exception):  # noqa: N818 (a refusal is an answer, not an error)
    """The certifier declines to certify, and says why."""


@dataclass(frozen=True)
class Answer:
    """A certifier's answer at a point: a label (or None) with a radius, and the votes it rests on."""

    label: int | None
    radius: float
    p_lower: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class CertifierTask:
    """A task for a certifier: σ, the numbers of copies, the level α, the bound."""

    sigma: Fraction
    n: int
    n0: int = 10_000
    alpha: Fraction = Fraction(1, 1000)
    bound: BoundName = "clopper-pearson"


class Certifier(Protocol):
    """One way of certifying by randomized smoothing."""

    @property
    def name(self) -> str: ...

    def certify(self, make: MakeScores, classes: int, x: Array, task: CertifierTask, /) -> Answer:
        """Certify the classifier at the levels x, or raise `Refused`."""


@dataclass(frozen=True)
class Procedure:
    """A certifier with nothing to set: a function, under the name that it has in the gallery."""

    name: str
    certify: Callable[[MakeScores, int, Array, CertifierTask], Answer]


def refuse(why: str, *_: object) -> NoReturn:
    """What certifies nothing by itself."""
    raise Refused(why)


@dataclass(frozen=True)
class Standard:
    """Algorithm 1, as the field runs it: image, noise and sum in one float format."""

    dtype: str

    @property
    def name(self) -> str:
        return f"standard-{self.dtype}"

    def certify(self, make: MakeScores, classes: int, x: Array, task: CertifierTask) -> Answer:
        dtype = np.dtype(self.dtype)
        return ask_standard(UnsoundStandard(make(dtype), classes, task.sigma, dtype=self.dtype), values(x, dtype), task)


def ask_standard(smooth: UnsoundStandard, x: Array, task: CertifierTask, batch: int = 10_000) -> Answer:
    """Algorithm 1's answer for the floats x."""
    found = smooth.certify(x, min(task.n0, task.n), task.n, task.alpha, batch, task.bound)
    return Answer(found.label, found.radius, found.p_lower, found.counts)


def scores_of_levels(scores: Scores, batch: Array) -> Array:
    """Of a classifier in double precision, for a batch in single precision: by the levels that this stands for."""
    return np.asarray(scores(np.rint(batch.astype(np.float64) * IMAGES.q) / IMAGES.q))


@dataclass(frozen=True)
class Ours:
    """Exact noise, added in integers. The classifier gets the double nearest to t/255 for each level t.

    (F's input is a float32, a function of the level alone; reading the level back and dividing in double precision is
    part of the classifier, and lets it compute as the paper's examples do.)
    """

    name: str = "ours"
    independence: str = "auto"
    again: int | None = None

    def certify(self, make: MakeScores, classes: int, x: Array, task: CertifierTask) -> Answer:
        model, n0 = partial(scores_of_levels, make(np.dtype("float64"))), min(task.n0, task.n)
        chosen: dict[str, Any] = {"independence": self.independence, "again": self.again, "batch_size": min(n0, 10_000)}
        try:
            smooth = Smoother(model, task.sigma, **chosen)
            found = smooth.certify(x, n0=n0, n=task.n, alpha=task.alpha, bound=task.bound)
        except ValueError as error:
            raise Refused(str(error).split(":")[0]) from error
        return Answer(found.label, found.radius, found.p_lower, (*found.estimation.classes, found.estimation.nobody))


@dataclass(frozen=True)
class FloatSum:
    """Exact grid noise with a float addition at the end: the hole in the paper's own published code.

    With index j = T + 255(k + 1) and image level i the model sees fl(fl(fl(j/255) − (k + 1)) + fl(i/255)), clamped.
    That depends on the pair (i, T) and not on i + T alone.
    """

    dtype: str = "float32"
    k: int = 6
    name: str = "paper-code"

    def certify(self, make: MakeScores, classes: int, x: Array, task: CertifierTask) -> Answer:
        dtype = np.dtype(self.dtype)
        return vote_and_certify(self._noisy(dtype, task.sigma), make(dtype), classes, x, task)

    def _noisy(self, dtype: np.dtype[Any], sigma: Fraction) -> "Noise":
        draw = exact_noise(sigma, self.k)
        shift = IMAGES.q * (self.k + 1)

        def noisy(x: Array, purpose: Purpose, first: int, copies: int) -> Array:
            noise = draw(x, purpose, first, copies).astype(np.int64)
            offset = (noise + shift).astype(dtype) / dtype.type(IMAGES.q) - dtype.type(self.k + 1)
            added: Array = offset + values(x, dtype)
            return np.clip(added, dtype.type(-self.k), dtype.type(self.k + 1))

        return noisy


@dataclass(frozen=True)
class GuardBand:
    """The paper's section 4.3: float noise, then rounding to the grid; a copy near a rounding boundary votes against.

    The addition is then harmless. The float sampler remains, and its law is not proved.
    """

    dtype: str = "float32"
    k: int = 6
    name: str = "guard-band"

    def certify(self, make: MakeScores, classes: int, x: Array, task: CertifierTask) -> Answer:
        dtype = np.dtype(self.dtype)
        rng = np.random.default_rng()
        scores = make(dtype)
        guard = guard_width(dtype, self.k)

        def near_boundary(scaled: Array) -> Array:
            distance = np.abs(scaled - np.floor(scaled) - 0.5)
            return np.asarray((distance <= guard).reshape(len(scaled), -1).any(axis=1))

        def noisy(x: Array, purpose: Purpose, first: int, copies: int) -> Array:
            noise = rng.standard_normal((copies, *x.shape), dtype=np.float32).astype(dtype) * dtype.type(
                float(task.sigma)
            )
            scaled = (noise + values(x, dtype)).astype(np.float64) * IMAGES.q
            levels = np.clip(np.rint(scaled), -self.k * IMAGES.q, (self.k + 1) * IMAGES.q)
            rounded: Array = values(levels, dtype)
            rounded[near_boundary(scaled)] = np.nan  # a vote for nobody
            return rounded

        return vote_and_certify(noisy, scores, classes, x, task)


Noise = Callable[[Array, Purpose, int, int], Array]


def one_hot(hit: Array) -> Array:
    """Scores of two classes."""
    return np.stack([~hit, hit], axis=1).astype(np.float32)


def guard_width(dtype: np.dtype[Any], k: int) -> float:
    """In levels: half an ulp of the largest sum, for the addition, and as much again for the scaling by 255."""
    return float(np.spacing(np.asarray(k + 1, dtype))) * IMAGES.q


def vote_and_certify(
    noisy: Noise, scores: Scores, classes: int, x: Array, task: CertifierTask, batch: int = 10_000
) -> Answer:
    """Certify as in Algorithm 1, with noisy copies from anywhere; a copy with a NaN votes for nobody."""

    def counts(purpose: Purpose, n: int) -> Counts:
        def votes(first: int, copies: int) -> Array:
            rows = noisy(x, purpose, first, copies)
            lost = np.isnan(rows).reshape(copies, -1).any(axis=1)
            return np.asarray(np.asarray(scores(rows)).argmax(axis=1)[~lost])

        total = count_votes(votes, n, classes, batch).tolist()
        return Counts(tuple(total), n - sum(total))

    selection = counts(Purpose.SELECTION, min(task.n0, task.n))
    return answer_from(selection, counts(Purpose.ESTIMATION, task.n), task)


def answer_from(
    selection: Counts, estimation: Counts, task: CertifierTask, measured: Measurement | None = None
) -> Answer:
    """What our own bound proves of these votes. What is wrong with a procedure is wrong with its votes."""
    chosen = settings(selection.total, estimation.total, task.alpha, task.bound)
    found = certify(selection, estimation, Gaussian(task.sigma), chosen, measured)
    return Answer(found.label, found.radius, found.p_lower, (*estimation.classes, estimation.nobody))


def exact_noise(sigma: Fraction, k: int) -> Callable[[Array, Purpose, int, int], Array]:
    """Exact noise T under a fresh key, as levels."""

    sampler, key = Sampler(Gaussian(sigma, k)), secrets.token_bytes(32)

    def draw(x: Array, purpose: Purpose, first: int, copies: int) -> Array:
        noise: Array = sampler.noise(Keystream(key, purpose, 0), first, copies, x.size).levels
        return noise.reshape(copies, *x.shape)

    return draw


def values(levels: Array, dtype: np.dtype[Any]) -> Array:
    """Levels as floats: one division in the given precision."""
    divided: Array = np.asarray(levels).astype(dtype) / dtype.type(IMAGES.q)
    return divided
