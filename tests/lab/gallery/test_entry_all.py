"""The gallery as a whole, at a smaller n: every row but the last has somebody who is wrong, and it is never ours.

The margins are those of each entry's own test: at these n a certifier in use escapes its verdict with probability below
1e-5, and ours gets a bad one with probability below 5e-6 in all (nearly all of it from the rows of rates, whose
verdict is wrong with 1e-6 by definition).
"""

import os

import pytest
from _pytest.mark import ParameterSet

from soundsmooth.lab.gallery import proposition_4_1
from soundsmooth.lab.gallery.certifiers import FloatSum, Ours, Standard
from soundsmooth.lab.gallery.entry import all_entries
from soundsmooth.lab.gallery.options import Options

#: As in the entry's own test. (Class 0 has 0.54 at the point 0 of the first two, which takes more copies to establish.)
COPIES = {
    "listing1": 20_000,
    "pixel": 20_000,
    "gate": 300,
    "image": 1000,
    "memory": 1000,
    "proposition": 1000,
    "filtered-votes": 100_000,
    "stopped-replay": 10_000,
}
#: Their own tests run them whole, against certifiers that are wrong and against ours.
ALSO_ELSEWHERE = (
    "filtered-votes",
    "gate",
    "known-rows",
    "lucky-attack",
    "lucky-key",
    "memory",
    "pixel",
    "proposition",
    "second-channel",
    "stopped-replay",
    "stopping",
    "travelling-memory",
)
#: Nobody is wrong there: an attack that fails, and measurements where there is no fork.
HARMLESS = {"lucky-attack"} | (set() if hasattr(os, "fork") else {"common-coin", "travelling-memory", "second-channel"})


def entries() -> list[ParameterSet]:
    long = pytest.mark.long("its own test runs it whole")
    return [pytest.param(name, marks=[long] if name in ALSO_ELSEWHERE else []) for name in all_entries()]


@pytest.mark.parametrize("name", entries())
@pytest.mark.slow("tries every certifier on the entry")
def test_somebody_is_wrong_and_it_is_not_ours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposition_4_1, "MOST", 4)  # eight images remembered and tried
    entry = all_entries()[name]
    certifiers = [Standard("float32"), FloatSum(), Ours()]
    found = list(entry.run(certifiers, Options(n=COPIES.get(name, 2000))))
    assert any(trial.certifier == "ours" for trial in found)
    assert not any(trial.finding.bad for trial in found if trial.certifier == "ours")
    others = [trial for trial in found if trial.certifier != "ours"]
    assert any(trial.finding.bad for trial in others) == (name not in HARMLESS)
