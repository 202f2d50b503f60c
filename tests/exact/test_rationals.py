"""σ, α and k become exactly the number that was written down, or a ValueError."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundsmooth.exact import positive, probability, rational

GOOD = [
    ("0.12", Fraction(3, 25)),
    (" 0.12 ", Fraction(3, 25)),
    ("1/3", Fraction(1, 3)),
    ("-7/100", Fraction(-7, 100)),
    ("1e-3", Fraction(1, 1000)),
    (".5", Fraction(1, 2)),
    ("2", Fraction(2)),
    (3, Fraction(3)),
    (0.12, Fraction(3, 25)),
    (1e-30, Fraction(1, 10**30)),
    (0.1 + 0.2, Fraction(30000000000000004, 10**17)),
    (np.float64(0.12), Fraction(3, 25)),
    (np.int64(2), Fraction(2)),
    (Decimal("0.0005"), Fraction(1, 2000)),
    (
        Decimal("0.12345678901234567890123456789012345678901234567890"),
        Fraction(1234567890123456789012345678901234567890123456789, 10**49),
    ),
    (Fraction(22, 7), Fraction(22, 7)),
    (Fraction(np.uint8(1), np.uint8(200)), Fraction(1, 200)),
    ("0.1" + "0" * 60 + "1", Fraction(10**61 + 1, 10**62)),
]
BAD = ["", " ", "abc", "1/0", "1/x", "1/2/3", "0,5", "0x1p-2", "nan", "-inf", "inf", "1e5000", "1e-5000"]
BAD_OBJECTS = [None, True, False, float("nan"), float("inf"), Decimal("sNaN"), Decimal("Infinity"), 1 + 2j, [1], b"1"]


@pytest.mark.parametrize(("written", "meant"), GOOD, ids=lambda v: repr(v)[:30])
def test_reads_what_was_written(written: object, meant: Fraction) -> None:
    """0.12 means 12/100 and not the double beside it; long decimals lose no digit."""
    read = rational(written)  # type: ignore[arg-type]
    assert read == meant
    assert (type(read.numerator), type(read.denominator)) == (int, int)


def test_a_float_is_not_its_binary_value() -> None:
    """The test above can fail: the double 0.12 is not 3/25."""
    assert Fraction(0.12) != rational(0.12)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_float_is_the_decimal_it_prints_as(x: float) -> None:
    assert rational(x) == Fraction(Decimal(repr(x)))


@pytest.mark.parametrize("written", [*BAD, *BAD_OBJECTS], ids=repr)
def test_refuses_what_is_no_number(written: object) -> None:
    """One line, with the name of the parameter in it."""
    with pytest.raises(ValueError, match="sigma") as error:
        rational(written, "sigma")  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("written", ["0", "-0.25", 0, -1, 0.0, -0.0, Fraction(-1, 3), "nan"])
def test_positive_refuses(written: object) -> None:
    with pytest.raises(ValueError, match="sigma"):
        positive(written, "sigma")  # type: ignore[arg-type]


@pytest.mark.parametrize("written", ["0", "1", 1, 0.0, 1.0, "1.5", "-0.001", "3/2", "nan"])
def test_probability_refuses(written: object) -> None:
    with pytest.raises(ValueError, match="alpha"):
        probability(written, "alpha")  # type: ignore[arg-type]


def test_positive_and_probability_accept() -> None:
    assert positive("1e-9", "sigma") == Fraction(1, 10**9)
    assert probability("0.9999999999999999999999", "alpha") == 1 - Fraction(1, 10**22)
