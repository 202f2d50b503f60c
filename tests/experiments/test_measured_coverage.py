"""How often a measured certificate is false: a slice of experiments/measured/coverage.py."""

import pytest

from scripts import script

coverage = script("measured/coverage.py")


@pytest.mark.parametrize("name", ["mean over the batch", "remembers the image before, turns 0"])
def test_no_model_is_certified_falsely_too_often(name: str) -> None:
    """At α = 0.1. More than 33 of 150 are false with probability below 6e-6 if the bound holds; if every third run were
    false, at most 33 with probability below 0.02.
    """
    assert coverage.tried(name, 150).false <= 33


def test_a_model_that_knows_its_rows_is() -> None:
    """So the simulation can fail: 0.9 of the runs are false then; fewer than ten of twenty with probability 1e-6."""
    assert coverage.tried("CONTROL knows its own rows, turns 40", 20).false >= 10
