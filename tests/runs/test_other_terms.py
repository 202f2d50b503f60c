"""A run that is continued under other terms: what differs, and what to add."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth.certification.promise import Promise, Secret, secret
from soundsmooth.runs.other_terms import OtherTermsError, options_to_add
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


RADII = "0=0x1.0000000000001p-1 1/4=0x1.aec4bd120d37ep-1"


def test_radii_and_skipping_name_their_options() -> None:
    looks = {"looks": "1000=1/1000", "radii": RADII, "wrong labels": "skipped"}
    assert options_to_add(terms(**looks), terms()) == {"radii": "0,1/4", "skip_wrong": True}
    assert options_to_add(terms(), terms(**looks)) == {"radii": None, "skip_wrong": False}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"radii": [0]}, r"radii: 0=\S+ 1/4=\S+ -> 0=\S+; .*To continue it: add radii='0,1/4'"),
        ({"radii": [0, "1/8"]}, r"radii: 0=\S+ 1/4=\S+ -> 0=\S+ 1/8=\S+; .*add radii='0,1/4'"),
        ({}, r"looks: 100=\S+ .* -> none; .* add radii='0,1/4'"),
        ({"radii": [0, "1/4"], "looks": [100, 1000]}, "looks: 100="),
        ({"radii": [0, "1/4"], "patience": 5}, "go on: .* -> none none"),
        ({"radii": [0, "1/4"], "skip_wrong": True}, "wrong labels: none -> skipped. .*leave out skip_wrong"),
        ({"width": "10%"}, "radii: .* -> none"),
    ],
    ids=str,
)
def test_a_run_is_not_continued_with_other_looks(other: dict[str, object], said: str, tmp_path: Path) -> None:
    """One short error, and not a byte of the file changes."""
    smooth, path = ss.Smoother(brightness_of_three, "1/4", batch_size=100, independence="assumed"), tmp_path / "run.db"
    smooth.certify_all(PICTURES, n=1000, radii=[0, "1/4"], out=path).close()
    before = path.read_bytes()
    with pytest.raises(OtherTermsError, match=said) as found:
        smooth.certify_all(PICTURES, n=1000, out=path, **other)
    assert len(str(found.value)) < 1200
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    smooth.certify_all(PICTURES, n=1000, radii=[0, "1/4"], out=path).close()  # as it was begun
