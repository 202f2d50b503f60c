"""Certificates with looks: issued ones are accepted; impossible counts, and stops that were not promised, are not."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth import noise
from soundsmooth.audit import AuditTerms, Claim, VoteCounts, check_claim, check_record, read_terms, verdict
from soundsmooth.audit.bounds import Look
from soundsmooth.certification import certify
from soundsmooth.certification.goal import goal, looks_for
from soundsmooth.certification.looks import Looks
from soundsmooth.certification.settings import Settings

ALPHA, SIGMA, N = Fraction(1, 1000), Fraction(1, 4), 2000
BOUNDS = ["clopper-pearson", "runner-up", "group-sequential"]
#: Looks, each with its level: the first m of N copies have spent (m/N)² of α.
SPENT = {100: "1/400000", 200: "3/400000", 400: "3/100000", 800: "3/25000", N: "21/25000"}
SELECTION = VoteCounts((5, 90, 5))
PLAIN = {
    "sigma": str(SIGMA),
    "n0": "100",
    "n": str(N),
    "alpha": str(ALPHA),
    "noise": "fresh",
    "batch": "100",
}


@cache
def looks_of(bound: str) -> Looks:
    asked = goal(N, ALPHA, radii="0,0.25,0.5", skip_wrong=True, looks=SPENT)
    assert asked is not None
    return looks_for(asked, noise.Gaussian(SIGMA), N, ALPHA, bound, None)


def terms(bound: str) -> AuditTerms:
    lines = looks_of("clopper-pearson" if bound == "randomized" else bound).lines
    return read_terms({**PLAIN, "bound": bound, "independence": "proved", **lines})


@st.composite
def stopped(draw: st.DrawFn, bound: str) -> list[VoteCounts]:
    """The votes of three classes and nobody at each look, until the rule stops; often with a clear winner."""
    looks, found, p = looks_of(bound), list[VoteCounts](), draw(st.sampled_from([0.4, 0.6, 0.84, 0.95, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    total = np.zeros(4, int)
    while looks.goes_on(None, 1, [votes.look(1) for votes in found]):  # type: ignore[misc]
        more = len(looks.segments[len(found)])
        total += rng.multinomial(more, [(1 - p) / 3, p, (1 - p) / 3, (1 - p) / 3])
        found.append(VoteCounts(tuple(map(int, total[:3])), int(total[3])))
    return found


def issue(votes: list[VoteCounts], bound: str) -> Claim:
    """What the issuer makes of these votes."""
    chosen = Settings(100, N, ALPHA, bound, "fresh", None, looks_of(bound))
    last = votes[-1] if votes else VoteCounts((0, 0, 0))
    counts = [certify.Counts(each.classes, each.nobody) for each in (SELECTION, last)]
    looks = tuple(certify.Look(*each.look(1)) for each in votes)
    found = certify.certify(*counts, noise.Gaussian(SIGMA), chosen, looks=looks)
    taken = tuple(each.look(1) for each in votes)
    return Claim(found.label, found.radius, found.p_lower, found.p_upper, SELECTION, last, looks=taken)


@pytest.mark.parametrize("bound", BOUNDS)
@settings(max_examples=40)
@given(data=st.data())
def test_what_the_issuer_gives_is_accepted_and_tight(bound: str, data: st.DataObject) -> None:
    """Two implementations, one answer. A failure is a false certificate or one that is wrongly refused."""
    votes, promised = data.draw(stopped(bound)), terms(bound)
    claimed = issue(votes, bound)
    report = check_claim(claimed, promised)
    assert report.findings == ()
    assert report.tight
    own = verdict(SELECTION, claimed.estimation, promised, looks=claimed.looks)
    assert own.label == claimed.label
    assert math.isclose(own.p_lower, claimed.p_lower, rel_tol=1e-15)
    assert math.isclose(own.radius, claimed.radius, rel_tol=1e-9, abs_tol=1e-14)
    assert check_claim(own, promised).tight
    if claimed.p_lower > 0:
        assert check_claim(replace(claimed, p_lower=claimed.p_lower * (1 + 1e-9)), promised).findings


VOTES = [VoteCounts((1, 99, 0)), VoteCounts((2, 197, 0), 1)]


def claim(bound: str = "clopper-pearson", **changes: Any) -> Claim:
    """Two looks, at 100 and 200 copies, as honest as `changes` leave them."""
    return replace(issue(VOTES, bound), aborted=True, **changes)


def test_an_aborted_image_keeps_its_last_look() -> None:
    assert check_claim(claim(), terms("clopper-pearson")).tight
    assert check_claim(claim("group-sequential"), terms("group-sequential")).tight


def test_the_best_look_counts_not_the_last() -> None:
    promised, (first, _) = terms("clopper-pearson"), claim().looks or ()
    worse = VoteCounts((2, 100, 0), 98)
    looks = (first, worse.look(1))
    own = replace(verdict(SELECTION, worse, promised, looks=looks), aborted=True)
    assert own.p_lower == verdict(SELECTION, VOTES[0], promised, looks=(first,)).p_lower > 0.5
    assert check_claim(own, promised).tight


def test_where_independence_is_measured_the_last_look_counts() -> None:
    """By docs/looks.md: the loss at α_k/2, the lower bound at α_k/4. The issuer's numbers are the auditor's."""
    looks, lines = looks_of("clopper-pearson"), {**PLAIN, "bound": "clopper-pearson", "independence": "measured m=500"}
    promised, taken = read_terms({**lines, **looks.lines}), claim().looks or ()
    own = verdict(SELECTION, VOTES[1], promised, lost=3, looks=taken)
    chosen = Settings(100, N, ALPHA, "clopper-pearson", "fresh", None, looks)
    counts = [certify.Counts(each.classes, each.nobody) for each in (SELECTION, VOTES[1])]
    given = tuple(certify.Look(*look) for look in taken)
    found = certify.certify(*counts, noise.Gaussian(SIGMA), chosen, certify.Measurement(500, 3), looks=given)
    assert (found.label, found.p_lower) == (own.label, own.p_lower)
    assert check_claim(replace(own, aborted=True), promised).tight
    alone = verdict(SELECTION, VOTES[1], replace(promised, again=None), looks=taken)
    assert 0.5 < own.p_lower < alone.p_lower


@pytest.mark.parametrize(
    "looks",
    [
        None,
        (),
        (Look(100, 99, 1),),
        (Look(200, 197, 2),),
        (Look(100, 99, 1), Look(100, 99, 1), Look(200, 197, 2)),
        (Look(200, 197, 2), Look(100, 99, 1)),
        (Look(100, 99, 1), Look(200, 198, 2)),
        (Look(100, 99, 1), Look(200, 197, 1)),
        (Look(100, 96, 1), Look(200, 197, 2)),
        (Look(100, 100, 1), Look(200, 197, 2)),
        (Look(100, 101, 0), Look(200, 197, 2)),
        (Look(100, 96, 2), Look(200, 197, 2)),
        (Look(100, 97, 0), Look(200, 197, 2)),
        (Look(100, 198, -98), Look(200, 197, 2)),
        (Look(100, 99, 3), Look(200, 197, 2)),
        (Look(True, 99, 1), Look(200, 197, 2)),
        (Look(100.0, 99, 1), Look(200, 197, 2)),  # type: ignore[arg-type]
        (Look(100, 99.0, 1), Look(200, 197, 2)),  # type: ignore[arg-type]
        (Look(100, 10**4000, 1), Look(200, 197, 2)),
        (Look(100, 99, 1), Look(200, 197, 2), Look(400, 397, 2)),
    ],
    ids=lambda looks: str(looks)[:80],
)
def test_looks_that_cannot_be_are_refused(looks: tuple[Look, ...] | None) -> None:
    assert not check_claim(claim(looks=looks), terms("clopper-pearson")).accepted


@pytest.mark.parametrize("looks", [(Look(100, 10**4000, 0),), (Look(100, 90, 10),) * 10_000])
def test_looks_that_cannot_be_are_one_short_finding(looks: tuple[Look, ...]) -> None:
    claimed = replace(verdict(SELECTION, VoteCounts((0, 100, 0)), terms("clopper-pearson"), looks=()), looks=looks)
    (text,) = check_claim(claimed, terms("clopper-pearson")).findings
    assert len(text) < 200


def test_looks_need_a_promise_and_a_promise_looks() -> None:
    plain = read_terms({**PLAIN, "bound": "clopper-pearson", "independence": "proved"})
    votes = VoteCounts((0, N, 0))
    honest = verdict(SELECTION, votes, plain)
    assert check_claim(honest, plain).accepted
    for changed in (replace(honest, looks=(votes.look(1),)), replace(honest, aborted=True)):
        assert not check_claim(changed, plain).accepted
    assert not check_claim(honest, terms("clopper-pearson")).accepted


def test_a_stop_that_was_not_promised_is_found_and_proves_as_much() -> None:
    promised = terms("clopper-pearson")
    (finding,) = check_claim(replace(claim(), aborted=False), promised).findings
    assert "goes on after 2 looks" in finding


def test_to_go_on_where_the_rule_ends_is_found() -> None:
    promised = terms("clopper-pearson")
    votes = [VoteCounts((n, 0, 0)) for n in promised.schedule.looks[:2]]
    claimed = issue(votes, "clopper-pearson")
    (finding,) = check_claim(claimed, promised).findings
    assert "ends it after 1 looks, and it has 2" in finding
    ended = issue(votes[:1], "clopper-pearson")
    assert check_claim(ended, promised).accepted
    (finding,) = check_claim(replace(ended, aborted=True), promised).findings
    assert "said to be aborted" in finding


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_wrong_label_ends_after_selection_and_a_right_one_does_not(bound: str) -> None:
    skipped, promised = issue([], bound), terms(bound)
    assert (skipped.label, skipped.p_lower) == (None, 0.0)
    assert check_claim(replace(skipped, truth=0), promised).tight
    for truth in (None, 1):
        (finding,) = check_claim(replace(skipped, truth=truth), promised).findings
        assert "goes on after 0 looks" in finding
    assert not check_claim(replace(skipped, truth=0, label=1, p_lower=0.6), promised).accepted
    (finding,) = check_claim(replace(claim(bound), truth=0), promised).findings
    assert "ends it after 0 looks" in finding


COIN = Fraction(2, 3)


def randomized(**changes: Any) -> tuple[Claim, AuditTerms]:
    promised = read_terms({**PLAIN, "bound": "randomized", "independence": "proved"})
    return replace(verdict(SELECTION, VoteCounts((10, N - 20, 10)), promised, coin=COIN), **changes), promised


def test_a_randomized_claim_needs_its_coin_and_no_other_has_one() -> None:
    claimed, promised = randomized()
    assert check_claim(claimed, promised).tight
    plain = verdict(SELECTION, claimed.estimation, replace(promised, bound="clopper-pearson"))
    assert plain.p_lower < claimed.p_lower
    for coin in (None, Fraction(0), Fraction(-1, 2), Fraction(3, 2), COIN + Fraction(1, 1000)):
        assert not check_claim(replace(claimed, coin=coin), promised).accepted
    weaker = check_claim(replace(claimed, coin=COIN - Fraction(1, 1000)), promised)
    assert weaker.accepted
    assert not weaker.tight
    assert not check_claim(replace(plain, coin=COIN), replace(promised, bound="clopper-pearson")).accepted


@pytest.mark.parametrize("independence", ["checked", "assumed", "measured m=100"])
def test_a_coin_needs_rows_that_are_proved_to_be_independent(independence: str) -> None:
    with pytest.raises(ValueError, match=r"independen"):
        read_terms({**PLAIN, "bound": "randomized", "independence": independence})


def test_a_coin_goes_with_one_look() -> None:
    with pytest.raises(ValueError, match="holds for one look"):
        terms("randomized")


@pytest.mark.parametrize(
    "odd", [None, 1, 0.5, "", "0", "0" * 15, "0" * 17, "A" * 16, "٠" * 16, " " + "0" * 15, "0x" + "0" * 14]
)
def test_coins_that_are_none_are_refused(odd: Any) -> None:
    assert "coin" in check_record({**record(radii="0,0.25"), "coin": odd}).findings[0]


@cache
def issued(**asked: Any) -> str:
    smooth = ss.Smoother(brightness_of_three, sigma="0.25", batch_size=100)
    return smooth.certify(np.full((2, 2), 250, np.uint8), label=0, n=1000, seed="fixed", **asked).to_json()


def record(**asked: Any) -> dict[str, Any]:
    return json.loads(issued(**asked))


@pytest.mark.parametrize("asked", [{"radii": "0,0.25"}, {"width": "5%"}, {"skip_wrong": True}], ids=str)
def test_records_are_accepted(asked: dict[str, Any]) -> None:
    report = check_record(record(**asked))
    assert report.findings == ()
    assert report.tight


ODD = [None, True, 1, 1e400, "[]", {}, [[]], [[100]], [[100, 100, 0, 0]], [(100, 100, 0)], [[100, 100, 0.0]]]
ODD += [[[100, 100, None]], [[100, 100, -1]], [[True, 100, 0]], [["100", 100, 0]], [[100, 1e400, 0]], [[100, "１", 0]]]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_looks_that_are_none_are_refused(odd: Any) -> None:
    assert check_record({**record(radii="0,0.25"), "looks": odd}).findings


@pytest.mark.parametrize("odd", [False, None, 1, "true", [], 1.0])
def test_aborted_is_true_or_not_there(odd: Any) -> None:
    assert "aborted" in check_record({**record(radii="0,0.25"), "aborted": odd}).findings[0]


@pytest.mark.parametrize("odd", [True, -1, 1.0, "1", [1]])
def test_the_true_label_is_a_number(odd: Any) -> None:
    assert "truth" in check_record({**record(radii="0,0.25"), "truth": odd}).findings[0]
