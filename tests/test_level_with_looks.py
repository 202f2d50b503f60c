"""The level with looks, end to end: real noise, a real model and real certificates, at α = 0.1 and known p.

An image is one pixel. The class is 0 below a fixed level, so its probability p is a breakpoint of the noise, known to
128 bits. RUNS images vote on all n copies. Then an issuer who has seen all votes stops each image where the bound is
largest. So does one who repeats a bound for a fixed n at each look with the full α, and must be caught.

False alarms: a bound of level α exceeds p more often than LIMIT allows with probability below 10⁻⁹, for each bound and
each of three p. Power: naive repetition exceeds p in a quarter of all runs, by recursion, and stays within LIMIT
with probability below 10⁻⁹. The keys come from the operating system.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest
import torch
from scipy.stats import binom

import soundsmooth as ss
from soundsmooth.certification.certificate import Certificate
from soundsmooth.certification.certify import certify, coin_above
from soundsmooth.certification.goal import default_levels, goal, looks_for
from soundsmooth.certification.looks import Group, Looks
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import Settings, settings
from soundsmooth.exact import BOUNDS, Look, Schedule, bounds, breakpoint_floor
from soundsmooth.exact.balls import float_above
from soundsmooth.exact.group_sequential import boundaries
from soundsmooth.lab.gallery.repeated_looks import chance, needed_at_full_level, needed_hits
from soundsmooth.noise import Gaussian
from soundsmooth.runs.run import certify_inputs

ALPHA, N = Fraction(1, 10), 400
COUNTS = (25, 50, 100, 200, N)
LEVELS = default_levels(COUNTS, ALPHA)
RUNS, SELECTED = 1000, 200
LAW = Gaussian("1/2")
#: The least number of runs that is reached with probability below 10⁻⁹ at a rate of α.
LIMIT = 1 + int(binom.isf(1e-9, RUNS, 0.1))


@dataclass(frozen=True)
class Classifier:
    """Class 1 if a pixel is so many levels brighter than grey."""

    grey: int
    step: int

    @property
    def p(self) -> Fraction:
        """P(the noise has fewer levels) lies between this and 2⁻¹²⁸ more."""
        return Fraction(breakpoint_floor(Fraction(1, 2), 255, self.step - 1, 128), 1 << 128)

    @property
    def p_above(self) -> Fraction:
        return self.p + Fraction(1, 1 << 128)

    def model(self) -> torch.nn.Module:
        """No rounding comes near to its edge."""
        made = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(1, 2))
        edge = torch.tensor([0.0, -(self.grey + self.step - 0.5) / 255])
        made.load_state_dict({"1.weight": torch.tensor([[0.0], [1.0]]), "1.bias": edge})
        return made


#: p is 0.601, 0.699 and 0.845.
CLASSIFIERS = (Classifier(128, 33), Classifier(128, 67), Classifier(40, 130))


@pytest.fixture(autouse=True, scope="module")
def once() -> Iterator[None]:
    """Bounds that are needed again and again are computed once."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("clopper_pearson_below", "randomized_below"):
            patch.setattr(bounds, name, cache(getattr(bounds, name)))
        yield


def looks_of(classifier: Classifier, bound: str) -> Looks:
    """What is promised. Everybody goes on to the end, so that the issuer sees all votes before he stops."""
    if BOUNDS[bound].radii:
        radii = sorted([Fraction(0), Fraction(1, 8), Fraction(3, 8), just_false(classifier)])
        asked = goal(N, ALPHA, radii=radii, looks=COUNTS)
        assert asked is not None
        found = looks_for(asked, LAW, N, ALPHA, bound, None)
    else:
        found = Looks(COUNTS, LEVELS) if BOUNDS[bound].repeatable else Looks((N,), (ALPHA,))
    return replace(found, go_on=tuple(((0, n),) for n in found.counts[:-1]), group=Group(250, 8000))


def just_false(classifier: Classifier) -> Fraction:
    """A radius whose threshold is just above p: to claim it is false, and nothing is harder to tell from true."""
    return Fraction(LAW.radius(float_above(classifier.p_above), None))


def settings_for(classifier: Classifier, bound: str) -> Settings:
    return replace(settings(n0=SELECTED, n=N, alpha=ALPHA, bound=bound), looks=looks_of(classifier, bound))


@cache
def issued(classifier: Classifier, bound: str) -> list[Certificate]:
    """A real run."""
    inputs = Inputs(tuple(range(RUNS)), [np.array([classifier.grey], np.int16)] * RUNS, [None] * RUNS)
    smooth = ss.Smoother(classifier.model(), law=LAW, batch_size=N, threads=1, independence="proved")
    return list(certify_inputs(smooth.smoothing, inputs, settings_for(classifier, bound), secret()))


def is_false(classifier: Classifier, certificate: Certificate, p_lower: float) -> bool:
    """Whether the bound is above the probability of the selected class, which is p or 1 − p."""
    return Fraction(p_lower) > (classifier.p_above if certificate.selection.top == 0 else 1 - classifier.p)


def false_at_the_best_look(classifier: Classifier, bound: str) -> int:
    """In how many runs a bound is false if it stops where p_lower is largest, with all votes in view."""
    chosen, found = settings_for(classifier, bound), 0
    for each in issued(classifier, bound):
        assert each.looks is not None
        stops = [
            certify(each.selection, each.estimation, LAW, chosen, looks=each.looks[:stop], coin=each.coin).p_lower
            for stop in range(len(each.looks) + 1)
        ]
        assert stops[-1] == each.p_lower
        found += is_false(classifier, each, max(stops))
    return found


def naive_false(classifier: Classifier, bound: str, prove: Callable[[Look], float]) -> int:
    """In how many runs a bound for a fixed n is false at one of the looks at least."""
    runs = issued(classifier, bound)
    return sum(any(is_false(classifier, each, prove(look)) for look in each.looks or ()) for each in runs)


each_classifier = pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda each: f"p={float(each.p):.3f}")


@each_classifier
@pytest.mark.parametrize(
    ("bound", "least"),
    [
        ("clopper-pearson", 20),  # 65 to 67 are expected
        ("group-sequential", 40),  # 93 to 99
        ("randomized", 40),  # 100, or a little less; it has one look, and may only be left out
    ],
)
@pytest.mark.slow("certifies a thousand images with each bound")
def test_the_level_holds_for_an_issuer_who_sees_all_votes(classifier: Classifier, bound: str, least: int) -> None:
    """False alarm below 10⁻⁹ on either side: there are not too many false bounds, nor so few that nothing is tested."""
    assert least <= false_at_the_best_look(classifier, bound) < LIMIT


@each_classifier
def test_naive_repetition_of_clopper_pearson_is_caught(classifier: Classifier) -> None:
    """On the votes of the same run. Missed with probability below 10⁻⁹."""
    prove = BOUNDS["clopper-pearson"].prove
    alone = cache(lambda look: prove([look], Schedule.fixed(look.n, ALPHA))[0])
    assert naive_false(classifier, "clopper-pearson", alone) >= LIMIT


@each_classifier
def test_naive_repetition_for_set_radii_is_caught(classifier: Classifier) -> None:
    """The boundaries of a fixed n at each look. Missed with probability below 10⁻⁹."""
    thresholds = looks_of(classifier, "group-sequential").schedule("group-sequential").thresholds
    prove = BOUNDS["group-sequential"].prove
    alone = cache(lambda look: prove([look], Schedule((look.n,), (ALPHA,), thresholds))[0])
    assert naive_false(classifier, "group-sequential", alone) >= LIMIT


@each_classifier
def test_naive_repetition_of_the_randomized_bound_is_caught(classifier: Classifier) -> None:
    """At each look of the votes of another run, with one U for each image. Missed with probability below 10⁻⁹.

    It lies between the bounds of Clopper and Pearson for h and h + 1 hits: so it is caught if the one for h is, and it
    is computed only where the two disagree.
    """
    between, wrong = bounds.clopper_pearson_below, partial(is_false, classifier)
    coins = [coin_above(each.coin) for each in issued(classifier, "randomized") if each.coin is not None]
    found = 0
    for each, coin in zip(issued(classifier, "clopper-pearson"), coins, strict=True):
        for look in each.looks or ():
            if look.hits < look.n and not wrong(each, between(look.hits + 1, look.n, ALPHA)):
                continue
            if wrong(each, between(look.hits, look.n, ALPHA)) or wrong(each, randomized(look, coin)):
                found += 1
                break
    assert found >= LIMIT


def randomized(look: Look, coin: Fraction) -> float:
    return BOUNDS["randomized"].prove([look], Schedule((look.n,), (ALPHA,), (), coin))[0]


@pytest.mark.parametrize(
    ("classifier", "rates"),
    list(zip(CLASSIFIERS, [[0.065, 0.093, 0.248], [0.067, 0.099, 0.245], [0.067, 0.094, 0.257]], strict=True)),
    ids=lambda each: f"p={float(each.p):.3f}" if isinstance(each, Classifier) else "",
)
def test_the_rates_that_are_stated(classifier: Classifier, rates: list[float]) -> None:
    """By recursion: for (a), for (b), and for naive repetition; and what follows for the limits."""
    p, p_above = float(classifier.p), classifier.p_above
    looks = looks_of(classifier, "group-sequential")
    (threshold,) = [bound for radius, bound in looks.radii if radius == just_false(classifier)]
    assert p_above < Fraction(threshold) < classifier.p + Fraction(1, 10**12)
    spent = chance(p, COUNTS, needed_hits(COUNTS, classifier.p, LEVELS))
    reached = chance(p, COUNTS, boundaries(threshold, COUNTS, LEVELS))
    naive = chance(p, COUNTS, needed_at_full_level(COUNTS, classifier.p, ALPHA))
    assert [round(rate, 3) for rate in (spent, reached, naive)] == rates
    assert binom.sf(LIMIT - 1, RUNS, float(ALPHA)) < 1e-9
    assert binom.cdf(LIMIT - 1, RUNS, naive) < 1e-9
    assert binom.cdf(19, RUNS, spent) < 1e-9
    assert binom.cdf(39, RUNS, reached) < 1e-9
    capped = 0.1 - 0.2 * binom.pmf(range(N + 1), N, p).max()  # (c): U is at least 2α
    assert binom.cdf(39, RUNS, capped) < 1e-9


@each_classifier
def test_selection_chooses_class_0_in_nearly_all_runs(classifier: Classifier) -> None:
    """So that p is what is said. Another class has a probability below 0.0017, and 20 of 1000 runs one below 10⁻¹³."""
    other = binom.cdf(SELECTED // 2 - 1, SELECTED, float(classifier.p))
    assert binom.sf(19, RUNS, other) < 1e-13
    assert sum(each.selection.top == 0 for each in issued(classifier, "clopper-pearson")) > RUNS - 20
