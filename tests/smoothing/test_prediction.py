"""Predictions with looks: their level by enumeration, and what they spend."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth import embedded
from soundsmooth.certification.certify import Counts
from soundsmooth.certification.goal import default_counts, default_levels
from soundsmooth.certification.looks import Looks
from soundsmooth.noise import Purpose
from soundsmooth.noise.sources import FreshNoise
from soundsmooth.smoothing.prediction import answer, first_answer
from soundsmooth.smoothing.voting import Voting, sample_under_noise

ALPHA = Fraction(1, 5)
#: Of two classes and nobody: how probable each is, in parts of their sum. The most probable one is last.
LAWS = [(1, 1, 1), (0, 1, 1), (1, 0, 1), (2, 3, 3), (1, 5, 6), (3, 4, 4)]
cached_answer = cache(answer)


def error_of_any_rule(looks: Sequence[int], levels: Sequence[Fraction], law: Sequence[int], right: int) -> Fraction:
    """How probable it is that there is a look with a wrong answer: the error of the rule that sees all votes and stops
    there. Exact, from look to look; `right` is the most probable category, 2 for nobody.
    """
    paths, wrong = {(0, 0, 0): 1}, Fraction(0)
    for n in range(1, looks[-1] + 1):
        after: dict[tuple[int, ...], int] = {}
        for counts, ways in paths.items():
            for category in range(3):
                found = tuple(count + (place == category) for place, count in enumerate(counts))
                after[found] = after.get(found, 0) + ways * law[category]
        paths = after
        if n in looks:
            level = levels[looks.index(n)]
            said = {found: cached_answer(Counts(found[:2], found[2]), level) for found in paths}
            errs = [found for found, label in said.items() if label not in (None, right)]
            wrong += Fraction(sum(paths.pop(found) for found in errs), sum(law) ** n)
    return wrong


def laws() -> Iterator[tuple[tuple[int, ...], int]]:
    """The laws with each of the three categories as the most probable one."""
    for *others, most in LAWS:
        for right in range(3):
            law = list(others)
            law.insert(right, most)
            yield tuple(law), right


def test_no_rule_to_stop_makes_a_prediction_wrong_more_often_than_alpha() -> None:
    """The default levels, by enumeration. The full α at each of these looks errs 1.27 times as often as α."""
    looks, alpha = tuple(range(4, 25)), Fraction(1, 8)
    spent = max(error_of_any_rule(looks, default_levels(looks, alpha), *law) for law in laws())
    naive = max(error_of_any_rule(looks, [alpha] * len(looks), *law) for law in laws())
    assert 0 < spent <= alpha < naive


def test_the_first_answer_is_that_of_the_first_look_that_has_one() -> None:
    """All sequences of seven votes: the answer, the votes that were spent, and the error."""
    looks, wrong = Looks((4, 6, 7), (Fraction(1, 8), Fraction(1, 32), Fraction(7, 160))), 0
    for votes in product(range(3), repeat=7):
        label, counts = first_answer(sampled(votes), looks)
        spent = counts.total
        answers = {n: answer(counted(votes[:n]), level) for n, level in zip(looks.counts, looks.levels, strict=True)}
        assert counts == counted(votes[:spent])
        assert answers[spent] == label
        assert all(answers[n] is None for n in looks.counts if n < spent)
        assert label is not None or spent == 7
        wrong += label not in (None, 2)
    assert 0 < Fraction(wrong, 3**7) <= ALPHA


def counted(votes: Sequence[int]) -> Counts:
    return Counts((votes.count(0), votes.count(1)), votes.count(2))


def sampled(votes: Sequence[int]) -> Callable[[range], Counts]:
    return lambda segment: counted(votes[segment.start : segment.stop])


def test_a_tie_and_nobody_are_no_answer() -> None:
    assert answer(Counts((500, 500), 0), Fraction(999, 1000)) is None
    assert answer(Counts((300, 0), 700), Fraction(999, 1000)) is None
    assert answer(Counts((700, 0), 300), Fraction(1, 1000)) == 0


@pytest.fixture(scope="module")
def demo() -> ss.Smoother:
    return ss.Smoother(str(embedded.MODELS[Fraction(1, 4)]), "0.25", threads=1)


def test_a_clear_image_has_the_same_label_for_fewer_votes(demo: ss.Smoother) -> None:
    """The votes are those of the first copies under the key that the answer discloses."""
    image = np.load(embedded.IMAGES)["x"][0]
    plain, found = demo.predict(image, n=2000), demo.predict(image, n=2000, looks="auto")
    assert found.label == plain.label is not None
    assert (found.votes, found.n, plain.votes, plain.looks) == (100, 2000, 2000, None)
    counts = default_counts(2000, 100)
    levels = default_levels(counts, Fraction(1, 1000))
    assert found.looks == dict(zip(counts, map(str, levels), strict=True))
    assert sum(levels) <= Fraction(1, 1000)
    assert found.to_dict()["looks"]["100"] == str(levels[0])
    assert "looks" not in plain.to_dict()
    assert "n = 100 of 2000" in repr(found)
    replica = demo.smoothing.replicas[0]
    voting = Voting(replica.model, 100, replica.model.flags())
    noise = FreshNoise(replica.sampler, bytes.fromhex(found.key), 0)
    assert found.counts == sample_under_noise(voting, noise, image.astype(np.int16), Purpose.PREDICTION, range(100))


def test_an_image_that_no_look_decides_votes_to_the_end(demo: ss.Smoother) -> None:
    """A level of 10⁻³⁰ cannot be reached with 80 votes."""
    image = np.load(embedded.IMAGES)["x"][0]
    found = demo.predict(image, n=80, looks={30: "1e-30", 80: "1e-30"})
    assert (found.label, found.votes) == (None, 80)


@pytest.mark.parametrize(
    ("looks", "why"),
    [
        ([100, 100, 1000], "must rise"),
        ([100, 500], "the last look is at all n = 1000"),
        ({100: "0.001", 1000: "0.001"}, "more than alpha"),
        ("100=1/9999,1000", "of each look, or of none"),
        ([], "between 1 and"),
    ],
)
def test_looks_that_are_none(demo: ss.Smoother, looks: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        demo.predict(np.load(embedded.IMAGES)["x"][0], looks=looks)


def test_rows_without_a_proof_have_no_looks() -> None:
    """Where a vote's law may depend on its position, nothing is proved of the test."""
    smooth = ss.Smoother(brightness_of_three, "0.5", independence="assumed")
    with pytest.raises(ValueError, match="proved to be independent, and these are assumed: leave out looks"):
        smooth.predict(np.zeros((2, 2), np.uint8), looks="auto")
