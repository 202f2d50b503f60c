"""What a promise says of looks: what honest tools write is read as they read it, and each line has one spelling."""

import math
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundsmooth.audit import Gaussian, check_record, read_terms
from soundsmooth.audit.bounds import Look, clopper_pearson_below
from soundsmooth.audit.looks import StopRule
from soundsmooth.certification.goal import default_counts, default_levels, goal, looks_for
from soundsmooth.certification.looks import Looks
from soundsmooth.noise import Gaussian as Law

ALPHA = Fraction(1, 1000)
PLAIN = {
    "sigma": "1/4",
    "n0": "100",
    "n": "1000",
    "alpha": "1/1000",
    "bound": "clopper-pearson",
    "noise": "fresh",
    "batch": "100",
    "independence": "proved",
}
RADII = "0=0x1.0000000000001p-1 1/4=0x1.aec4bd120d37ep-1 1/2=0x1.f45a183e9b13ep-1"
LINES = {
    "looks": "100=1/100000 200=3/100000 1000=3/3125",
    "radii": RADII,
    "go on": "40-60,70-100 none",
    "wrong labels": "skipped",
    "group": "128 images 16384 copies",
}


def promised(**changed: str | None) -> dict[str, str]:
    """The promise with these lines changed, or left out; names with spaces are written with underscores."""
    changes = {name.replace("_", " "): text for name, text in changed.items()}
    return {name: text for name, text in {**PLAIN, **LINES, **changes}.items() if text is not None}


def test_what_is_promised_is_read() -> None:
    found = read_terms(promised(bound="group-sequential"))
    assert found.looked
    assert found.schedule.looks == (100, 200, 1000)
    assert found.schedule.levels == (Fraction(1, 10**5), Fraction(3, 10**5), Fraction(3, 3125))
    assert found.schedule.thresholds == tuple(float.fromhex(word.split("=")[1]) for word in RADII.split(" "))
    assert found.rule == StopRule((((40, 60), (70, 100)), ()), True)


def test_thresholds_are_the_bounds_only_where_it_needs_them() -> None:
    assert read_terms(promised()).schedule.thresholds == ()
    assert read_terms(promised(bound="runner-up")).schedule.thresholds == ()


def test_a_plain_promise_has_one_look_and_no_rule() -> None:
    found = read_terms(PLAIN)
    assert (found.looked, found.rule) == (False, None)
    assert (found.schedule.looks, found.schedule.levels) == ((1000,), (ALPHA,))


@pytest.mark.parametrize("bound", ["clopper-pearson", "runner-up", "group-sequential"])
@pytest.mark.parametrize("sigma", ["3/25", "1/4", "1", "7/3"])
def test_what_the_issuer_writes_is_read_as_the_issuer_reads_it(bound: str, sigma: str) -> None:
    asked = goal(3000, ALPHA, radii="steps", skip_wrong=True)
    assert asked is not None
    looks = looks_for(asked, Law(Fraction(sigma)), 3000, ALPHA, bound, None)
    found = read_terms({**PLAIN, "n": "3000", "sigma": sigma, "bound": bound, **looks.lines})
    assert found.schedule == looks.schedule(bound)
    assert found.rule == StopRule(looks.go_on, True)


@given(st.integers(0, 5), st.lists(st.integers(0, 1000)), st.booleans())
def test_the_rule_is_the_issuers(taken: int, hits: list[int], wrong: bool) -> None:
    counts = default_counts(3000, None)
    rule = tuple(((n // 3, n // 2), (n - 5, n)) for n in counts[:-1])
    theirs = Looks(counts, default_levels(counts, ALPHA), (), rule, True)
    looks = [Look(n, h, 0) for n, h in zip(counts[:taken], hits, strict=False)]
    assert StopRule(rule, True).goes_on(looks, wrong) == theirs.goes_on(1 if wrong else 0, 0, looks)  # type: ignore[arg-type]


REFUSED: list[Mapping[str, str | None]] = [
    {"looks": None},
    {"looks": ""},
    {"looks": "100=1/100000 200=3/100000 1000=3/3125 "},
    {"looks": " 100=1/100000 200=3/100000 1000=3/3125"},
    {"looks": "100=1/100000  200=3/100000 1000=3/3125"},
    {"looks": "100=1/100000\t200=3/100000 1000=3/3125"},
    {"looks": "100=1/100000 200=3/100000 1000=3/3125\n"},
    {"looks": "100=1/100000 100=3/100000 1000=3/3125"},
    {"looks": "200=1/100000 100=3/100000 1000=3/3125"},
    {"looks": "100=1/100000 200=3/100000 1000=2/2000"},
    {"looks": "100=1/100000 200=3/100000 999=3/3125"},
    {"looks": "100=1/100000 200=3/100000 1001=3/3125"},
    {"looks": "100=1/100000 200=3/100000 1000=1/1000"},
    {"looks": "100=2/200000 200=3/100000 1000=3/3125"},
    {"looks": "100=0 200=3/100000 1000=3/3125"},
    {"looks": "100=-1/100000 200=3/100000 1000=3/3125"},
    {"looks": "100=+1/100000 200=3/100000 1000=3/3125"},
    {"looks": "100=1e-5 200=3/100000 1000=3/3125"},
    {"looks": "100=0.00001 200=3/100000 1000=3/3125"},
    {"looks": "100=1/0 200=3/100000 1000=3/3125"},
    {"looks": "100=1 200=3/100000 1000=3/3125"},
    {"looks": "0=1/100000 200=3/100000 1000=3/3125"},
    {"looks": "0100=1/100000 200=3/100000 1000=3/3125"},
    {"looks": "1e2=1/100000 200=3/100000 1000=3/3125"},
    {"looks": "1_00=1/100000 200=3/100000 1000=3/3125"},
    {"looks": "-100=1/100000 200=3/100000 1000=3/3125"},
    {"looks": "１００=1/100000 200=3/100000 1000=3/3125"},
    {"looks": "100=١/100000 200=3/100000 1000=3/3125"},
    {"looks": "100 200=3/100000 1000=3/3125"},
    {"looks": "100=1/100000=1 200=3/100000 1000=3/3125"},
    {"looks": f"100=1/{10**2001} 200=3/100000 1000=3/3125"},
    {"looks": f"100=1/100000 200=3/100000 1000=3/3125 {10**12}=1/{10**9}"},
    {"looks": " ".join(f"{n}=1/1000000" for n in range(936, 1001)), "go on": " ".join(["none"] * 64)},
    {"radii": ""},
    {"radii": RADII + " "},
    {"radii": "0=0x1.0000000000000p-1"},
    {"radii": "0=0x1p+0"},
    {"radii": "0=0x1.0000000000000p+0"},
    {"radii": "0=0x1.8p-1"},
    {"radii": "0=0X1.8000000000000P-1"},
    {"radii": "0=0x1.800000000000Ap-1"},
    {"radii": "0=0x0.c000000000000p+0"},
    {"radii": "0=0.75"},
    {"radii": "0=nan"},
    {"radii": "-1/4=0x1.8000000000000p-1"},
    {"radii": "0/1=0x1.8000000000000p-1"},
    {"radii": "2/8=0x1.c000000000000p-1"},
    {"radii": "00=0x1.c000000000000p-1"},
    {"radii": "0.25=0x1.c000000000000p-1"},
    {"radii": "1/4=0x1.aec4bd120d37dp-1"},
    {"radii": f"{10**400}=0x1.fffffffffffffp-1"},
    {"radii": "1/4=0x1.aec4bd120d37ep-1 0=0x1.f45a183e9b13ep-1"},
    {"radii": "0=0x1.0000000000001p-1 0=0x1.0000000000002p-1"},
    {"radii": "0=0x1.8000000000000p-1 1/10000=0x1.8000000000000p-1"},
    {"go on": None},
    {"go on": ""},
    {"go on": "none"},
    {"go on": "none none none"},
    {"go on": "none  none"},
    {"go on": "none None"},
    {"go on": "40-60,61-100 none"},
    {"go on": "40-60,60-100 none"},
    {"go on": "70-100,40-60 none"},
    {"go on": "60-40 none"},
    {"go on": "40-101 none"},
    {"go on": "040-60 none"},
    {"go on": "-1-60 none"},
    {"go on": "40-60, none"},
    {"go on": "40–60 none"},
    {"go on": "40-6٠ none"},
    {"wrong labels": ""},
    {"wrong labels": "kept"},
    {"wrong labels": "Skipped"},
    {"wrong labels": "skipped "},
    {"group": ""},
    {"group": "128"},
    {"group": "0 images 100 copies"},
    {"group": "128 images 0 copies"},
    {"group": "100001 images 100 copies"},
    {"group": "128 images 1000000001 copies"},
    {"group": "128  images 100 copies"},
    {"group": "0128 images 100 copies"},
    {"noise": "shared"},
    {"noise": "batchwise"},
    {"independence": "checked"},
    {"independence": "checked", "group": None, "batch": "64"},
    {"independence": "checked", "group": None, "batch": "1e2"},
    {"independence": "checked", "group": None, "batch": "0"},
    {"independence": "checked", "group": None, "bound": "group-sequential"},
    {"independence": "measured m=100", "group": None, "bound": "group-sequential"},
    {"bound": "group-sequential", "radii": None},
    {"bound": "group-sequential", **dict.fromkeys(LINES)},
    {"bound": "hoeffding"},
]


@pytest.mark.parametrize("change", REFUSED, ids=str)
def test_lines_that_honest_tools_do_not_write_are_refused(change: Mapping[str, str | None]) -> None:
    changed = {name.replace(" ", "_"): text for name, text in change.items()}
    with pytest.raises(ValueError, match=r"promise|alpha|looks|independen"):
        read_terms(promised(**changed))


@pytest.mark.parametrize("name", list(LINES))
@pytest.mark.parametrize("odd", [None, 1, 1e400, True, ["100=1/1000"], {"a": 1}, b"100=1/1000"])
def test_lines_that_are_no_text_are_refused(name: str, odd: object) -> None:
    changed: dict[str, object] = {**promised(), name: odd}
    with pytest.raises(ValueError, match="no texts"):
        read_terms(changed)  # type: ignore[arg-type]
    assert check_record({"promise": changed}).findings


@pytest.mark.parametrize(
    "change",
    [
        {"independence": "checked", "group": None},
        {"independence": "measured m=100", "group": None},
        {"noise": "shared", "group": None},
        {"noise": "shared", "group": None, "bound": "group-sequential"},
        {"bound": "hoeffding", "looks": "1000=1/1000", "go_on": None},
        {"bound": "group-sequential", "looks": "1000=1/1000", "go_on": None},
        {"independence": "checked", "group": None, "looks": "1000=1/1000", "go_on": None, "batch": "64"},
        {"radii": f"1/{10**400}=0x1.0000000000001p-1"},
        {"radii": "1=0x1.ffff000000000p-1"},
    ],
    ids=str,
)
def test_other_lines_are_read(change: Mapping[str, str | None]) -> None:
    assert read_terms(promised(**change)).looked


def test_a_threshold_is_proved_at_the_last_bit() -> None:
    """The issuer's threshold is the smallest double that can be proved; one bit less is refused, at each radius."""
    law, asked = Law(Fraction(1, 2)), goal(3000, ALPHA, radii="steps")
    assert asked is not None
    for radius, p in looks_for(asked, law, 3000, ALPHA, "clopper-pearson", None).radii:
        assert read_terms(promised(sigma="1/2", radii=f"{radius}={p.hex()}"))
        with pytest.raises(ValueError, match="not proved"):
            read_terms(promised(sigma="1/2", radii=f"{radius}={math.nextafter(p, 0).hex()}"))


def test_there_are_at_most_256_radii() -> None:
    radii = [f"{k}/10007=0x1.f{k:012x}p-1" for k in range(1, 258)]
    assert read_terms(promised(radii=" ".join(radii[:-1]))).looked
    with pytest.raises(ValueError, match="more than 256"):
        read_terms(promised(radii=" ".join(radii)))


def test_levels_that_no_boundary_can_be_computed_for_are_refused() -> None:
    """With n = 10⁶ and levels of 10⁻²⁰⁰⁰ one boundary takes a gigabyte."""
    tiny = f"100=1/1{'0' * 101} 200=1/4000 1000=1/2000"
    assert read_terms(promised(looks=tiny)).looked
    with pytest.raises(ValueError, match="a promised look spends less than 10⁻¹⁰⁰"):
        read_terms(promised(looks=tiny, bound="group-sequential"))


def test_proofs_are_for_the_law_that_is_promised() -> None:
    """What was read under one law is not taken for another."""
    assert read_terms(promised()).law == Gaussian(Fraction(1, 4))
    with pytest.raises(ValueError, match="not proved"):
        read_terms(promised(sigma="1/5"))


@pytest.mark.parametrize("independence", ["checked", "assumed", "measured m=100"])
@pytest.mark.parametrize("one_look", [False, True])
def test_alpha_is_at_most_a_quarter_where_a_vote_may_depend_on_its_position(independence: str, one_look: bool) -> None:
    lines = {"looks": "1000=1/1000", "go_on": None} if one_look else {}
    assert read_terms(promised(alpha="1/4", independence=independence, group=None, **lines)).alpha == Fraction(1, 4)
    with pytest.raises(ValueError, match="independence is not proved, and alpha = 250001/1000000 is above 1/4"):
        read_terms(promised(alpha="250001/1000000", independence=independence, group=None, **lines))
    assert read_terms(promised(alpha="999/1000", **lines)).alpha == Fraction(999, 1000)  # proved


@pytest.mark.parametrize("independence", ["checked", "assumed"])
@pytest.mark.parametrize("bound", ["clopper-pearson", "runner-up", "hoeffding"])
def test_without_looks_alpha_is_at_most_a_quarter_too(independence: str, bound: str) -> None:
    """Positions do not care for looks. Rows that vote alone have none."""
    plain = {**PLAIN, "bound": bound, "alpha": "12/25"}
    assert read_terms({**plain, "independence": independence, "alpha": "1/4"}).alpha == Fraction(1, 4)
    with pytest.raises(ValueError, match="independence is not proved, and alpha = 12/25 is above 1/4"):
        read_terms({**plain, "independence": independence})
    for known in ("proved", *(["measured m=100"] if bound == "clopper-pearson" else [])):
        assert read_terms({**plain, "independence": known}).alpha == Fraction(12, 25)


def test_above_a_quarter_positions_can_make_a_certificate_false_too_often() -> None:
    """Four copies at four positions: at α = 0.48 the bound is above ½ and above the mean with probability 0.492."""
    chances = [Fraction(0), Fraction(3, 4), Fraction(3, 4), Fraction(7, 8)]
    law = [Fraction(1)]
    for p in chances:
        law = [(1 - p) * stay + p * rise for stay, rise in zip([*law, 0], [0, *law], strict=True)]
    mean, alpha = sum(chances) / 4, Fraction(12, 25)
    bounds = [Fraction(clopper_pearson_below(hits, 4, alpha)) for hits in range(5)]
    error = sum(q for q, bound in zip(law, bounds, strict=True) if bound > max(mean, Fraction(1, 2)))
    assert alpha < Fraction(492, 1000) < error < Fraction(493, 1000)
