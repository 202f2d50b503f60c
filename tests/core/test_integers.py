"""Integers as people write them: exact, or rejected."""

import pytest

from soundsmooth.core.integers import whole_number, written_integer


@pytest.mark.parametrize(
    ("text", "number"),
    [("100000", 100_000), ("100_000", 100_000), ("1e5", 100_000), ("1E+5", 100_000), ("2.5e3", 2500), ("10.0", 10),
     ("-3", -3), ("90071992547409931", 90071992547409931), ("9007199254740993e1", 90071992547409930)],
)  # fmt: skip
def test_what_is_an_integer(text: str, number: int) -> None:
    """Also where a double would round."""
    assert written_integer(text) == number


@pytest.mark.parametrize(
    "text", ["1.5", "1e-2", "15e-1", "1e999", "many", "", "_1", "1__0", "0x10", "nan", "inf", "1 0", "1/2", "٣"]
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not an integer"):
        written_integer(text)


def test_floats_that_are_integers() -> None:
    assert whole_number(1e5, "n") == 100_000
    assert type(whole_number(1e5, "n")) is int
    for wrong in (1.5, float("nan"), float("inf"), True, "5"):
        with pytest.raises(ValueError, match="n must be an integer"):
            whole_number(wrong, "n")  # type: ignore[arg-type]
