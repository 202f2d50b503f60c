"""The gallery's screen explains its own words."""

import pytest

from command import run_command
from soundsmooth.cli.gallery import CERTIFIERS, VERDICTS
from soundsmooth.lab.gallery.entry import all_certifiers, all_entries
from soundsmooth.lab.gallery.trial import Finding


def test_every_verdict_and_every_certifier_has_an_explanation() -> None:
    assert set(VERDICTS) == set(Finding)
    names = {*all_certifiers(), *(extra.name for entry in all_entries().values() for extra in entry.extra)}
    assert [name for name in names if not name.startswith(tuple(CERTIFIERS))] == []


@pytest.mark.parametrize("against", ["ours", "paper-code"])
def test_one_entry_is_shown_with_its_legend(against: str) -> None:
    shown = " ".join(run_command("break", "listing1", "--against", against, "--n", "1e3").stdout.split())
    assert f"{against}: {CERTIFIERS[against]}" in shown
    assert "holds: no contradiction. If radius > distance, the other point was not given another class" in shown
    assert "in units of the [0, 1] range" in shown
    assert "guard-band:" not in shown  # which was not tried
