"""The mutants of the ledger can be tried: their text is in the source, and their tests exist.

Whether the tests kill them takes minutes: `experiments/house/ledger_mutants.py`.
"""

import re
from pathlib import Path

import pytest

from scripts import script

ROOT = Path(__file__).parents[2]
MUTANTS = script("house/mutants_of_the_ledger.py").MUTANTS


def test_there_are_as_many_as_were_promised() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies(mutant: object) -> None:
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    assert mutant.new != mutant.old
    for test in mutant.tests:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not name or re.search(rf"^def {re.escape(name.partition('[')[0])}\(", text, re.MULTILINE), test
