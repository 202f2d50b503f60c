"""The arithmetic of whole certificates: issued ones are accepted, and each field that claims more is refused."""

import ast
import copy
import importlib
import inspect
import json
import math
import pkgutil
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import soundsmooth as ss
import soundsmooth.audit
from classifiers import brightness_of_three
from soundsmooth import noise
from soundsmooth.audit import (
    AuditTerms,
    Claim,
    Gaussian,
    VoteCounts,
    check_claim,
    check_record,
    read_claim,
    read_terms,
    verdict,
)
from soundsmooth.certification import certify
from soundsmooth.certification.settings import settings as issuers_settings

BOUNDS = ["clopper-pearson", "hoeffding", "runner-up"]
ROOM = Path(soundsmooth.audit.__file__).parent


@cache
def issued(bound: str, level: int = 250) -> str:
    smooth = ss.Smoother(brightness_of_three, sigma="0.25")
    return smooth.certify(np.full((2, 2), level, np.uint8), n=1000, bound=bound, seed="fixed").to_json()


def record(bound: str = "clopper-pearson", level: int = 250) -> dict[str, Any]:
    return json.loads(issued(bound, level))


def issue(selection: VoteCounts, estimation: VoteCounts, promised: AuditTerms) -> Claim:
    """What the issuer makes of these counts."""
    chosen = issuers_settings(promised.n0, promised.n, promised.alpha, promised.bound)
    counts = [certify.Counts(votes.classes, votes.nobody) for votes in (selection, estimation)]
    found = certify.certify(*counts, noise.Gaussian(promised.law.sigma), chosen)
    return Claim(found.label, found.radius, found.p_lower, found.p_upper, selection, estimation)


@st.composite
def cases(draw: st.DrawFn, most: int = 10**6) -> tuple[VoteCounts, VoteCounts, AuditTerms]:
    """Counts of three classes and nobody; half of them with a clear winner."""
    votes = []
    for n in (draw(st.integers(1, 1000)), draw(st.integers(1, most))):
        winner = draw(st.integers(0, n) | st.integers(min(n, n - n // 20), n))
        second = draw(st.integers(0, n - winner))
        third = draw(st.integers(0, n - winner - second))
        votes.append(VoteCounts((winner, second, third), n - winner - second - third))
    alpha = draw(st.sampled_from([Fraction(1, 1000), Fraction(1, 20), Fraction(1, 10**9)]))
    sigma = draw(st.fractions(Fraction(1, 100), 4, max_denominator=100))
    return *votes, AuditTerms(votes[0].total, votes[1].total, alpha, Gaussian(sigma), draw(st.sampled_from(BOUNDS)))


@settings(max_examples=200)
@given(cases())
def test_what_the_issuer_gives_is_accepted_and_tight(case: tuple[VoteCounts, VoteCounts, AuditTerms]) -> None:
    """n up to 10⁶, all bounds. A failure is a false certificate or one that is wrongly refused; no false alarms."""
    claimed = issue(*case)
    report = check_claim(claimed, case[2])
    assert report.findings == ()
    assert report.tight


@settings(max_examples=60)
@given(cases(10**4))
def test_the_auditors_own_verdict_is_the_issuers(case: tuple[VoteCounts, VoteCounts, AuditTerms]) -> None:
    """Two implementations, the same label, and numbers that differ by no more than their last bits."""
    own, theirs = verdict(*case), issue(*case)
    assert own.label == theirs.label
    assert math.isclose(own.p_lower, theirs.p_lower, rel_tol=1e-15, abs_tol=1e-300)
    # Two bounds that nearly cancel magnify the last bit of each.
    assert math.isclose(own.radius, theirs.radius, rel_tol=1e-9, abs_tol=1e-14)
    assert check_claim(own, case[2]).accepted
    assert check_claim(own, case[2]).tight


@settings(max_examples=100)
@given(cases())
def test_claims_raised_by_a_billionth_are_refused(case: tuple[VoteCounts, VoteCounts, AuditTerms]) -> None:
    claimed, promised = issue(*case), case[2]
    if claimed.p_lower > 0:
        assert check_claim(replace(claimed, p_lower=claimed.p_lower * (1 + 1e-9)), promised).findings
    if claimed.p_upper is not None:
        assert check_claim(replace(claimed, p_upper=claimed.p_upper * (1 - 1e-9)), promised).findings
    assert check_claim(replace(claimed, radius=claimed.radius * (1 + 1e-9) + 1e-300), promised).findings
    smaller = check_claim(replace(claimed, radius=claimed.radius * 0.99), promised)
    assert smaller.accepted
    assert smaller.tight == (claimed.radius == 0)


WINNER = (VoteCounts((5, 90, 5)), VoteCounts((10, 985, 3), 2))
PROMISED = {
    "n0": "100",
    "n": "1000",
    "alpha": "1/1000",
    "sigma": "1/4",
    "bound": "clopper-pearson",
    "independence": "assumed",
}


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"label": 0}, "selection chose 1"),
        ({"label": 7}, "selection chose 1"),
        ({"label": -1}, "number of a class"),
        ({"label": True}, "number of a class"),
        ({"label": None}, "abstention claims"),
        ({"radius": math.inf}, "radius is not a number"),
        ({"radius": math.nan}, "radius is not a number"),
        ({"radius": -0.1}, "radius is not a number"),
        ({"radius": 1}, "radius is not a number"),
        ({"p_lower": math.nan}, "no probabilities"),
        ({"p_lower": 1.0}, "do not prove"),
        ({"p_lower": 0.2, "p_upper": 0.3}, "not proved to win|has no p_upper"),
        ({"selection": VoteCounts((6, 90, 5))}, "add up"),
        ({"selection": VoteCounts((50, 45, 5))}, "selection chose 0"),
        ({"estimation": VoteCounts((10, 986, 3), 2)}, "add up"),
        ({"estimation": VoteCounts((10, 990, 0), 0), "radius": 2.0}, "exceeds what the bounds allow"),
        ({"estimation": VoteCounts((10, 993, -3), 0)}, "whole numbers"),
        ({"estimation": VoteCounts((15, 985))}, "classes"),
        ({"estimation": VoteCounts((25, 970, 3), 2)}, "do not prove"),
    ],
)
def test_each_false_field_has_a_finding(bound: str, change: dict[str, Any], finding: str) -> None:
    promised = read_terms({**PROMISED, "bound": bound})
    claimed = issue(*WINNER, promised)
    assert check_claim(claimed, promised).accepted
    report = check_claim(replace(claimed, **change), promised)
    assert re.search(finding, " ".join(report.findings)), report
    assert not report.tight


def test_a_second_bound_only_where_it_was_promised() -> None:
    one, two = read_terms(PROMISED), read_terms({**PROMISED, "bound": "runner-up"})
    assert "needs a p_upper" in check_claim(issue(*WINNER, one), two).findings[0]
    assert "has no p_upper" in check_claim(issue(*WINNER, two), one).findings[0]


def test_weak_claims_are_sound_and_not_tight() -> None:
    promised = read_terms(PROMISED)
    claimed = issue(*WINNER, promised)
    for weak in ({"radius": 0.1}, {"radius": 0.0}, {"p_lower": 0.9, "radius": 0.1}, {"label": None, "radius": 0.0}):
        report = check_claim(replace(claimed, **weak), promised)
        assert report.accepted
        assert not report.tight


# --- records ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("level", [127, 140, 250])
def test_records_are_accepted(bound: str, level: int) -> None:
    report = check_record(record(bound, level))
    assert report.findings == ()
    assert report.tight


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("radius.hex", "0x1.8p+1"),
        ("radius.decimal", "9.000000000"),
        ("radius.decimal", "1e3"),
        ("radius.decimal", "nan"),
        ("radius.hex", "inf"),
        ("radius.hex", 3),
        ("p_lower.hex", "0x1.ffffp-1"),
        ("p_lower.decimal", "0.999999999"),
        ("label", 0),
        ("label", "1"),
        ("label", None),
        ("estimation.classes", [0, 999, 0]),
        ("estimation.classes", [0, 1000.0, 0]),
        ("estimation.classes", None),
        ("estimation.nobody", -1),
        ("selection.classes", [100, 0, 0]),
        ("promise.alpha", "1/100000"),
        ("promise.alpha", "2/2000"),
        ("promise.alpha", "1e-3"),
        ("promise.alpha", "1/" + "9" * 3000),
        ("promise.alpha", "2"),
        ("promise.sigma", "1/5"),
        ("promise.sigma", "0.25"),
        ("promise.sigma", "-1/4"),
        ("promise.n", "999"),
        ("promise.n", "1000/1"),
        ("promise.n", "10000000000"),
        ("promise.n0", "99"),
        ("promise.bound", "hoeffding"),
        ("promise.bound", "none"),
        ("promise", None),
        ("promise.n", None),
    ],
)
def test_changed_records_are_refused(path: str, value: object) -> None:
    """Every field that the arithmetic reads, changed to claim more, or to something that it is not."""
    changed = copy.deepcopy(record())
    *way, last = path.split(".")
    place = changed
    for step in way:
        place = place[step]
    place[last] = value
    assert check_record(changed).findings


@pytest.mark.parametrize("field", ["label", "radius", "p_lower", "p_upper", "selection", "estimation", "promise"])
def test_records_with_a_field_missing_are_refused(field: str) -> None:
    changed = record()
    del changed[field]
    assert "not a certificate's record" in check_record(changed).findings[0]


@pytest.mark.parametrize(
    "odd", [[], None, 3, "x", {"promise": []}, {"selection": {"classes": [10**5000], "nobody": 0}}]
)
def test_what_is_no_record_has_findings(odd: Any) -> None:
    """Never an exception: a store may hold anything."""
    changed = {**record(), **odd} if isinstance(odd, dict) else odd
    assert check_record(changed).findings


def test_claim_and_terms_of_a_record() -> None:
    data = record("runner-up")
    found = read_claim(data)
    certificate = ss.Certificate.from_json(issued("runner-up"))
    assert (found.label, found.radius, found.p_lower, found.p_upper) == (
        certificate.label,
        certificate.radius,
        certificate.p_lower,
        certificate.p_upper,
    )
    assert read_terms(data["promise"]) == AuditTerms(
        100, 1000, Fraction(1, 1000), Gaussian(Fraction(1, 4)), "runner-up"
    )


# --- independence of the issuer --------------------------------------------------------------------------


def imported(path: Path) -> set[str]:
    """The modules that a file of the room imports, by their first name; '.' for the room itself."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add("." * node.level if node.level else str(node.module).partition(".")[0])
    return names


def test_the_room_imports_itself_and_the_standard_library() -> None:
    files = sorted(ROOM.glob("*.py"))
    assert len(files) > 5
    for path in files:
        assert imported(path) <= {"."} | set(sys.stdlib_module_names), path.name
    assert ".." in imported(ROOM.parent / "noise" / "sampler.py")  # the search sees what it looks for


def test_it_works_without_flint_and_the_issuer(tmp_path: Path) -> None:
    """In a process where flint, numpy and the issuer cannot be imported, a record is still checked."""
    path = tmp_path / "certificate.json"
    path.write_text(issued("runner-up"), encoding="utf-8")
    program = """
import json, sys
for name in ("flint", "numpy", "soundsmooth.exact", "soundsmooth.certification", "soundsmooth.core"):
    sys.modules[name] = None
from soundsmooth.audit import check_record
print(check_record(json.load(open(sys.argv[1], encoding="utf-8"))))
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "ClaimReport(findings=(), tight=True)"


#: Records, and the readers of records.
EXEMPT = {
    "Claim",
    "AuditTerms",
    "VoteCounts",
    "ReplayBlock",
    "Confirmed",
    "ClaimReport",
    "read_claim",
    "read_terms",
    "quantile_guess",
}


def public_things() -> dict[str, object]:
    found = {}
    for info in pkgutil.iter_modules([str(ROOM)]):
        module = importlib.import_module(f"soundsmooth.audit.{info.name}")
        for name, thing in vars(module).items():
            if (
                not name.startswith("_")
                and callable(thing)
                and str(getattr(thing, "__module__", "")) == module.__name__
            ):
                found[name] = thing
    return found


@pytest.mark.parametrize("name", sorted(set(public_things()) - EXEMPT))
def test_says_what_it_guarantees(name: str) -> None:
    lines = (inspect.getdoc(public_things()[name]) or "").splitlines()
    assert any(line.startswith("Guarantee:") and line != "Guarantee:" for line in lines), name


def test_the_list_of_exemptions_is_not_stale() -> None:
    assert set(public_things()) >= EXEMPT
    assert "tail_at_most" in public_things()
