"""The record: it round-trips exactly, and what it prints never claims more than it proves."""

import json
import math
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import soundsmooth as ss
from classifiers import brightness
from soundsmooth import __version__, embedded
from soundsmooth.certification.certify import certify
from soundsmooth.certification.promise import Inputs, Promise, secret
from soundsmooth.certification.report import (
    decimal_above,
    decimal_below,
    largest_radius,
    radii_that_occur,
)
from soundsmooth.certification.settings import settings
from soundsmooth.cli.screens import show_row
from soundsmooth.core import machine
from soundsmooth.core.decimals import raised, truncated
from soundsmooth.models.environment import environment
from soundsmooth.noise import Gaussian
from soundsmooth.runs.output import certificate_row
from soundsmooth.runs.run import Run
from soundsmooth.runs.store import Store
from soundsmooth.runs.stored import RunTerms


def certificate(level: int = 200, **options: object) -> ss.Certificate:
    """The seed is fixed, so nothing here depends on luck."""
    smooth = ss.Smoother(brightness, sigma="0.25")
    return smooth.certify(np.full((2, 2), level, np.uint8), n=1000, **{"seed": "fixed", **options})


@pytest.mark.parametrize("bound", ["clopper-pearson", "hoeffding", "runner-up"])
@pytest.mark.parametrize("level", [127, 140, 250])
def test_round_trip_is_exact(bound: str, level: int) -> None:
    record = certificate(level, bound=bound, label=1, seed="s", nonce="ab" * 32)
    again = ss.Certificate.from_json(record.to_json())
    assert again == record
    assert again.to_json() == record.to_json()


def test_bounds_are_hexadecimal_floats_and_safe_decimals() -> None:
    data = json.loads(certificate(bound="runner-up").to_json())
    for name, safe in (("radius", "<="), ("p_lower", "<="), ("p_upper", ">=")):
        exact = Fraction(float.fromhex(data[name]["hex"]))
        decimal = Fraction(Decimal(data[name]["decimal"]))
        assert decimal <= exact if safe == "<=" else decimal >= exact


def test_record_is_frozen() -> None:
    with pytest.raises(AttributeError):
        certificate().radius = 9.0  # type: ignore[misc]


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"format": "another"}', "nonsense"])
def test_something_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a soundsmooth certificate"):
        ss.Certificate.from_json(text)


def test_a_record_says_nothing_twice() -> None:
    """Python takes the last of two entries of the same name; other readers, and people, may take the first."""
    text = certificate().to_json()
    twice = text.replace('"label": 1', '"label": 0, "label": 1')
    assert json.loads(twice) == json.loads(text)
    with pytest.raises(ValueError, match="twice"):
        ss.Certificate.from_json(twice)


@pytest.mark.parametrize("name", ["alpha", "sigma", "n", "margin"])
def test_numbers_that_take_for_ever_are_refused(name: str) -> None:
    record = certificate()
    changed = replace(record, promise=Promise({**record.promise.values, name: "1e-999999999"}))
    with pytest.raises(ValueError, match=r"not a positive number in lowest terms|beyond any use"):
        ss.Certificate.from_json(changed.to_json())


def test_nested_without_end() -> None:
    with pytest.raises(ValueError, match="not a soundsmooth certificate"):
        ss.Certificate.from_json("[" * 100_000)


def test_abstention_is_never_correct() -> None:
    record = certificate(127, label=0)
    assert record.abstained
    assert not record.correct
    assert not replace(record, truth=None).correct
    assert record.radius == 0.0
    assert "abstained" in str(record)


def test_key_origin() -> None:
    assert certificate().key == "self-chosen"
    assert certificate(nonce="00" * 32).key == "verifier's nonce"


@given(st.floats(0, 10), st.integers(0, 12))
def test_printed_numbers_err_the_safe_way(value: float, digits: int) -> None:
    assert Fraction(Decimal(truncated(value, digits))) <= Fraction(value)
    assert Fraction(Decimal(raised(value, digits))) >= Fraction(value)
    assert Fraction(value) - Fraction(Decimal(truncated(value, digits))) < Fraction(1, 10**digits)


def test_printed_numbers_do_not_depend_on_the_precision_of_decimals() -> None:
    """An application, or a model, may have set it for its own sums: 0.99999 was printed as 1.00."""
    with localcontext(prec=3):
        assert (truncated(1.99999), raised(1.00001, 4)) == ("1.999989", "1.0001")
        assert decimal_below(Fraction(99999, 100000), 5) == "0.99999"
        assert decimal_above(Fraction(12345, 10**6)) == "0.012345"


def test_truncation_is_not_rounding() -> None:
    assert truncated(0.9999999) == "0.999999"
    assert truncated(1.905999, 2) == "1.90"
    assert re.fullmatch(r"0\.0+", truncated(1e-300))


@cache
def example() -> ss.Certificate:
    return certificate()


def finished(*answers: tuple[int | None, int, float], promised: int = 0) -> Run:
    """A run with a certificate (label, truth, radius) for each answer; `promised` inputs in all."""
    count = promised or len(answers)
    truths = [truth for _, truth, _ in answers] + [1] * (count - len(answers))
    levels = np.zeros(tuple(map(int, example().promise.values["input shape"].split())), np.int16)
    inputs = Inputs(tuple(range(count)), (levels,) * count, tuple(truths))
    promise = Promise({**example().promise.values, "input count": str(count), "inputs": inputs.digest()})
    store = Store.begin(None, RunTerms(promise, secret("s"), 100, False), inputs)
    for place, (label, truth, radius) in enumerate(answers):
        record = replace(example(), index=place, label=label, truth=truth, radius=radius, promise=promise)
        store.add_certificate(place, record)
    return Run(store)


def test_certified_accuracy_is_strict_and_exact() -> None:
    """An image counts at r only if its radius is above r: 0.25 itself does not count at 0.25."""
    above = math.nextafter(0.25, 1)
    with finished((1, 1, 0.25), (1, 1, above), (0, 1, 0.5), (None, 1, 0.0)) as run:
        assert run.accuracy(["1/4", 0]) == [Fraction(1, 4), Fraction(2, 4)]
        assert run.average_radius == (Fraction(0.25) + Fraction(above)) / 4


def test_promised_inputs_without_a_certificate_are_wrong_answers() -> None:
    """Ledger, row 15: an aborted run does not get a better number by leaving images out."""
    with finished((1, 1, 0.5), (1, 1, 0.5), promised=10) as run:
        assert run.accuracy([0]) == [Fraction(2, 10)]
        assert run.average_radius == Fraction(1, 10)


def changed(*path: str, value: object) -> str:
    """The JSON of a certificate with one entry changed."""
    data = json.loads(certificate(140).to_json())
    inner = data
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return json.dumps(data)


FORGED = [
    (("label",), 0),
    (("label",), True),
    (("truth",), "cat"),
    (("index",), -4),
    (("radius",), {"hex": "0x1.8p+6", "decimal": "96"}),
    (("radius", "decimal"), "96"),
    (("p_lower",), {"hex": "0x1.fp-1", "decimal": "0.9"}),
    (("seed",), "00" * 32),
    (("seed",), 5),
    (("nonce",), "zz"),
    (("nonce",), 5),
    (("nonce",), "zz" * 32),
    (("key",), "verifier's nonce"),
    (("independence",), "proved"),
    (("model",), "a graph file, fixed by its digest"),
    (("commitment",), "00" * 32),
    (("estimation",), {"classes": [0, 2000], "nobody": 0}),
    (("estimation",), {"classes": [0, 1000], "nobody": 0}),
    (("estimation",), {"classes": ["0", "1000"], "nobody": 0}),
    (("selection",), {"classes": [100, 0], "nobody": 0}),
    (("selection",), {"classes": [-1000, 1100], "nobody": 0}),
    (("seconds",), float("nan")),
    (("environment",), 5),
    (("something else",), 1),
    (("promise", "n"), "100"),
    (("promise", "n"), "1_000"),
    (("promise", "sigma"), "1/0"),
    (("promise", "sigma"), "2/8"),
    (("promise", "spec"), "99"),
    (("promise", "independence"), "proved"),
    (("promise", "model kind"), "oracle"),
]


@pytest.mark.parametrize(("path", "value"), FORGED, ids=lambda part: str(part)[:40])
def test_a_record_that_does_not_follow_from_itself_is_refused(path: tuple[str, ...], value: object) -> None:
    with pytest.raises(ValueError, match="certificate"):
        ss.Certificate.from_json(changed(*path, value=value))


@pytest.mark.parametrize(
    ("forged", "why"),
    [
        ({"radius": 96.0}, "exceeds what the bounds allow"),
        ({"p_lower": 0.9999}, "do not prove p_lower"),
        ({"label": 0}, "the label is 0, but selection chose 1"),
        ({"label": None}, "an abstention claims the radius"),
    ],
)
def test_a_record_whose_verdict_does_not_follow_is_refused_though_its_checksum_fits(forged: dict, why: str) -> None:
    text = replace(certificate(140), **forged).to_json()
    with pytest.raises(ValueError, match=f"the certificate cannot be relied on: .*{why}"):
        ss.Certificate.from_json(text)


def test_a_record_that_claims_less_than_it_could_is_read() -> None:
    """It is true, and so is an abstention."""
    record = certificate(140)
    for weaker in ({"radius": record.radius / 2}, {"label": None, "radius": 0.0}):
        assert ss.Certificate.from_json(replace(record, **weaker).to_json()) == replace(record, **weaker)


def test_a_consistent_record_with_another_n_is_refused() -> None:
    """Counts that do not add up to the promised n, with bounds that do follow from them."""
    record = certificate()
    counts = replace(record.estimation, classes=tuple(2 * c for c in record.estimation.classes))
    found = certify(record.selection, counts, Gaussian("1/4"), settings(n=2000))
    forged = replace(record, estimation=counts, radius=found.radius, p_lower=found.p_lower)
    with pytest.raises(ValueError, match="the counts add up to 100 and 2000, not to 100 and 1000"):
        ss.Certificate.from_json(forged.to_json())


def test_nothing_that_is_shown_is_rounded_up() -> None:
    """The text, the TSV row and the row on the screen of a radius that rounds up to 1."""
    record = replace(certificate(), radius=0.99999999, p_lower=0.99999999)
    assert "‖δ‖₂ < 0.999999 in units of the [0, 1] range (p ≥ 0.999999" in str(record)
    assert certificate_row(record).split("\t")[3] == "0.999999"
    with Console(record=True, width=100) as console:
        show_row(console, record)
    assert "0.9999 " in console.export_text()


def test_python_models_are_marked_as_assumed_honest() -> None:
    """Ledger, row 11."""
    assert "assumed honest" in certificate().trust
    assert "assumed honest" in str(certificate())
    assert json.loads(certificate().to_json())["model"] == certificate().trust
    graph = ss.Smoother(embedded.MODELS[Fraction(1, 4)], "0.25").certify(np.zeros((1, 28, 28), np.uint8), n=100)
    assert "assumed honest" not in str(graph)


def test_software_and_machine_are_recorded_beside_the_promise() -> None:
    record = certificate()
    assert {"python", "platform", "cores", "numpy", "python-flint", "cryptography"} <= set(record.environment)
    assert not set(record.environment) & set(record.promise.values)


def test_another_source_of_this_package_is_recorded_as_another(tmp_path: Path) -> None:
    """Where it is imported from does not count, nor what Python has compiled; what it says does."""
    copy = tmp_path / "soundsmooth"
    shutil.copytree(Path(machine.__file__).parents[1], copy, ignore=shutil.ignore_patterns("__pycache__"))

    def recorded() -> str:
        code = "from soundsmooth.models.environment import environment; print(environment()['soundsmooth'])"
        found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, text=True, capture_output=True, check=True)
        return found.stdout.strip()

    assert recorded() == environment()["soundsmooth"]
    (copy / "core/grid.py").write_text((copy / "core/grid.py").read_text() + "# changed\n")
    assert recorded() != environment()["soundsmooth"]
    assert recorded().startswith(f"{__version__}, source ")


def test_decimals_of_shares_are_truncated() -> None:
    assert decimal_below(Fraction(2, 3)) == "0.666"
    assert decimal_below(Fraction(1)) == "1.000"
    assert decimal_below(Fraction(1, 10000)) == "0.000"
    assert decimal_above(Fraction(1, 3)) == "0.333334"
    assert decimal_above(Fraction(1, 1000)) == "0.001"
    assert decimal_above(Fraction(20)) == "20"


def test_radii_that_occur_stop_at_the_largest() -> None:
    chosen = settings(n=100_000)
    assert 0.95 < largest_radius(Gaussian("1/4"), chosen) < 0.96
    assert radii_that_occur(Gaussian("1/4"), chosen)[-1] == Fraction(3, 4)


def with_independence(word: str) -> ss.Certificate:
    """The record of a promise that says so, consistent in itself."""
    record = certificate()
    return replace(record, promise=replace(record.promise, values={**record.promise.values, "independence": word}))


@pytest.mark.parametrize("word", ["proved", "checked", "assumed"])
def test_how_independence_is_known_is_one_of_these_words(word: str) -> None:
    record = with_independence(word)
    assert ss.Certificate.from_json(record.to_json()).independence == word


def test_another_word_for_independence_is_refused() -> None:
    with pytest.raises(ValueError, match="promised independence is none of"):
        ss.Certificate.from_json(with_independence("hoped").to_json())
    with pytest.raises(ValueError, match="promised independence is none of"):
        ss.Certificate.from_json(with_independence("measured").to_json())  # it must say how many rows
