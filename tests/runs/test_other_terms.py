"""A run that is continued under other terms: what differs, and what to add."""

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth.certification.goal import GoalOptions, goal, looks_for
from soundsmooth.certification.promise import Promise, Secret, secret
from soundsmooth.noise.law import Gaussian
from soundsmooth.runs.other_terms import OtherTermsError, differences, options_to_add
from soundsmooth.runs.stored import RunTerms

PICTURES = np.full((2, 2, 2), 40, np.uint8)


def terms(votes: bool = True, hidden: Secret | None = None, **values: str) -> RunTerms:
    """Of an .onnx model."""
    graph = {"model kind": "onnx", "flags": "optimization=all provider=CPUExecutionProvider threads=1"}
    made = ss.Smoother(brightness_of_three, "0.5", independence="assumed").commit(PICTURES, seed="s")
    return RunTerms(Promise({**made.values, **graph, **values}), hidden or secret("s"), 100, votes)


@pytest.fixture(scope="module")
def begun() -> RunTerms:
    return terms()


FLAGS = "optimization=all provider=CPUExecutionProvider"


@pytest.mark.parametrize(
    ("other", "added"),
    [
        ({"flags": f"{FLAGS} threads=8"}, {"threads": 1}),
        ({"flags": f"isolated=yes {FLAGS} threads=1"}, {"untrusted": None}),
        ({"batch": "7"}, {"batch_size": 100}),
        ({"device": "NVIDIA H200"}, {"device": "cpu"}),
        ({"n": "5", "n0": "7"}, {"n": 100_000, "n0": 100}),
        ({"alpha": "1/100", "sigma": "1"}, {"alpha": "1/1000", "sigma": "1/2"}),
        ({"bound": "hoeffding", "noise": "shared"}, {"bound": "clopper-pearson", "noise": "fresh"}),
        ({"margin": "255"}, {"k": "6"}),
        ({"input count": "9"}, {"limit": 2}),
        ({"independence": "measured m=5"}, {"independence": "assumed", "again": None}),
        ({"model": "00" * 32, "inputs": "00" * 32}, {}),  # no option sets these
    ],
)
def test_every_term_that_an_option_sets_names_it(
    other: dict[str, str], added: dict[str, object], begun: RunTerms
) -> None:
    assert options_to_add(begun, terms(**other)) == added


def test_the_way_back(begun: RunTerms) -> None:
    """What was begun with a switch, or is a torch model's."""
    isolated = terms(flags=f"isolated=yes {FLAGS} threads=1")
    assert options_to_add(isolated, begun) == {"untrusted": True}
    assert options_to_add(replace_votes(begun), begun) == {"no_votes": True}
    flags = "autocast=False compile={} layout={}"
    module = {"model kind": "torch", "flags": flags.format("none", "contiguous"), "precision": "float32"}
    other = {**module, "flags": flags.format("torch-compile", "channels_last"), "precision": "bfloat16"}
    found = options_to_add(terms(**other), terms(**module))
    assert found == {"dtype": "bfloat16", "compile": "torch-compile", "channels_last": True}


def replace_votes(found: RunTerms) -> RunTerms:
    return replace(found, votes=False)


def test_of_flags_those_are_shown_that_differ() -> None:
    long = " ".join(f"torch.flag{number}=True" for number in range(9))
    old, new = f"autocast=False {long} threads=2", f"autocast=False {long} output=1 threads=1"
    assert differences(terms(flags=old), terms(flags=new)) == ["flags: threads=2 -> output=1 threads=1"]
    assert differences(terms(flags=old), terms(flags=old)) == []
    assert differences(terms(flags="a=1 b=1"), terms(flags="b=1 a=1")) == ["flags: a=1 b=1 -> b=1 a=1"]
    assert differences(terms(flags="a=1 b=1"), terms(flags="a=1")) == ["flags: b=1 -> none"]


def test_seed_and_nonce_are_the_stored_ones_if_they_are_left_out(begun: RunTerms) -> None:
    other = terms(hidden=replace(secret("t"), nonce=b"n" * 32))
    assert options_to_add(begun, other) == {"seed": None, "nonce": None}


def test_python_says_it_in_python(tmp_path: Path) -> None:
    def certify(**how: object) -> None:
        smooth = ss.Smoother(brightness_of_three, "0.5", independence="assumed", batch_size=10)
        smooth.certify_all(PICTURES, out=tmp_path / "run.db", **how).close()  # type: ignore[arg-type]

    certify(n=100, n0=10)
    with pytest.raises(OtherTermsError, match=r"To continue it: add n0=10 n=100 and leave out seed$"):
        certify(n=200, n0=20, seed="x")


def looking(noted: GoalOptions | None = None, **asked: object) -> RunTerms:
    """Of a run with looks, whose rows are proved to be independent."""
    wanted = goal(200, Fraction(1, 10), **asked)  # type: ignore[arg-type]
    assert wanted is not None
    looks = looks_for(wanted, Gaussian("1/2"), 200, Fraction(1, 10), "group-sequential", None)
    lines = {**looks.lines, "bound": "group-sequential", "independence": "proved"}
    return replace(terms(n="200", alpha="1/10", **lines), noted=wanted.options if noted is None else noted)


@pytest.mark.parametrize(
    ("asked", "said", "added"),
    [
        ({"radii": "0.5"}, ["radii: 0,0.25 -> 0.5"], {"radii": "0,0.25"}),
        ({"radii": "0,0.25", "patience": 10}, ["patience: 100000 -> 10"], {"patience": None}),
        ({"radii": "0,0.25", "looks": [50, 200]}, ["looks: the usual ones -> 50,200"], {"looks": None}),
        (
            {"radii": "0,0.25", "skip_wrong": True},
            ["images with a wrong selected class: voted on -> skipped"],
            {"skip_wrong": None},
        ),
    ],
)
def test_options_for_when_to_stop_are_named_and_no_table_is_shown(
    asked: dict[str, object], said: list[str], added: dict[str, object]
) -> None:
    """The radii, the rule and the groups follow from them."""
    begun, other = looking(radii="0,0.25"), looking(**asked)
    assert differences(begun, other) == said
    assert options_to_add(begun, other) == added


def test_a_run_that_looks_and_one_that_does_not_differ_in_what_is_asked_alone(begun: RunTerms) -> None:
    """Its bound is the usual one for radii, so nobody has to name it."""
    plain = {"n": "200", "alpha": "1/10", "independence": "proved"}
    found = looking(radii="steps"), terms(**plain)
    assert differences(*found) == ["radii: steps -> none"]
    assert options_to_add(*found) == {"radii": "steps"}
    assert options_to_add(*reversed(found)) == {"radii": None}


def test_radii_that_were_not_noted_are_those_of_the_promise() -> None:
    begun = replace(looking(radii="0,0.25", skip_wrong=True), noted=None)
    assert begun.asked == {"radii": "0,0.25", "skip_wrong": True}


def test_a_rule_that_comes_out_otherwise_is_said_by_its_digest() -> None:
    """The same options, by another version: no option helps, and no table is shown."""
    begun, other = looking(radii="0.5"), looking(radii="0.5", patience=10)
    (said,) = differences(begun, replace(other, noted=begun.noted))
    assert re.fullmatch("the rule when to stop, its SHA-256: [0-9a-f]{12}… -> [0-9a-f]{12}…", said)


def test_long_lists_are_cut() -> None:
    begun = looking(radii="0.5", noted={"radii": ",".join(["0.125"] * 99)})
    (said,) = differences(begun, looking(radii="0.5", patience=10, noted={"radii": "0.5"}))
    assert len(said) < 100


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"radii": [0]}, r"radii: 0,0.25 -> 0\. To continue it: add radii='0,0.25'"),
        ({"radii": [0, "1/8"]}, r"radii: 0,0.25 -> 0,0.125\. .*add radii='0,0.25'"),
        ({}, r"radii: 0,0.25 -> none\. .* add radii='0,0.25'"),
        ({"radii": [0, "1/4"], "looks": [100, 1000]}, "looks: the usual ones -> 100,1000. .* leave out looks"),
        ({"radii": [0, "1/4"], "patience": 5}, "patience: 100000 -> 5. .* leave out patience"),
        ({"radii": [0, "1/4"], "skip_wrong": True}, "wrong selected class: voted on -> skipped. .*leave out skip_w"),
        ({"width": "10%"}, "radii: 0,0.25 -> none; width: none -> 0.1. .*add radii='0,0.25' and leave out width"),
    ],
    ids=str,
)
def test_a_run_is_not_continued_with_other_looks(other: dict[str, object], said: str, tmp_path: Path) -> None:
    """One short error, and not a byte of the file changes."""
    smooth, path = ss.Smoother(brightness_of_three, "1/4", batch_size=100, independence="assumed"), tmp_path / "run.db"
    labels = [0] * len(PICTURES)
    smooth.certify_all(PICTURES, labels, n=1000, radii=[0, "1/4"], out=path).close()
    before = path.read_bytes()
    with pytest.raises(OtherTermsError, match=said) as found:
        smooth.certify_all(PICTURES, labels, n=1000, out=path, **other)
    assert len(str(found.value)) < 400
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    smooth.certify_all(PICTURES, labels, n=1000, radii=[0, "1/4"], out=path).close()  # as it was begun
