"""A model that seeds the generator of its own noise: fatal with a global generator, useless without one."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from soundsmooth.lab.gallery import global_generators
from soundsmooth.lab.gallery.certifiers import Certifier, CertifierTask, FloatSum, GuardBand, MakeScores, Ours, Standard
from soundsmooth.lab.gallery.contradicting_pairs import Pair, try_pair
from soundsmooth.lab.gallery.entries import reseed
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding, Trial

N = 2000
FULL_RADIUS = 1.3505


def found(certifiers: list[Certifier]) -> dict[str, Trial]:
    return {one.certifier: one for one in reseed.run(certifiers, Options(n=N))}


def on_numpy(dtype: np.dtype[Any]) -> Any:
    """The model that seeds torch, for a certifier that works with NumPy."""
    scores = reseed.seeds_torch(dtype)
    return lambda batch: scores(torch.from_numpy(batch)).numpy()


def test_global_generators_give_two_contradicting_certificates() -> None:
    """No chance involved: all noise is known, and what is left after subtracting it errs by float32 rounding only, by
    less than 1e-6, where half a level is 2e-3. A generator of the certifier's own would make both abstain (see below).
    """
    for name in ("standard-torch", "standard-numpy"):
        one = found([])[name]
        assert one.finding is Finding.FALSE_POINT
        assert one.radius is not None
        assert one.radius > FULL_RADIUS
        assert {counts[:2] for counts in one.counts} == {(0, N), (N, 0)}


def test_nothing_is_gained_against_a_generator_of_the_certifiers_own() -> None:
    """The subtracted numbers are then noise: class 1 has the same p at both points but for 0.0032. FALSE needs 1076
    votes of 2000 for one class at 210 (a radius above 1/255) and 1070 for the other at 209: whatever p is, the product
    of the two binomial tails is below 1e-6 for each certifier.
    """
    own: list[Certifier] = [Standard("float32"), Standard("float64"), FloatSum(), GuardBand()]
    answers = found(own)
    for certifier in own:
        assert not answers[certifier.name].finding.bad


def test_ours_refuses_it_where_proof_is_asked_for() -> None:
    one = found([Ours()])["ours"]
    assert one.finding is Finding.REFUSED
    assert "proved" in one.note


@pytest.mark.parametrize("make", [reseed.seeds_numpy, on_numpy])
def test_ours_loses_nothing_to_it_even_where_honesty_is_assumed(make: MakeScores) -> None:
    """Refused where the check of rows sees it. FALSE by chance with probability below 1e-6, as above.

    Noise from a generator that the model seeds makes it FALSE with certainty, as with the global ones.
    """
    kept = np.random.get_state()
    pair = Pair(make, np.full(1, 210), np.full(1, 209))
    with torch.random.fork_rng(devices=[]):
        one = try_pair("reseed", Ours(), pair, CertifierTask(Fraction(1, 2), N))
    np.random.set_state(kept)
    assert one.finding in (Finding.ABSTAINS, Finding.HOLDS, Finding.REFUSED)


@pytest.mark.parametrize("level", [209, 210])
def test_noise_drawn_at_once_and_shown_in_batches_is_known_too(level: int) -> None:
    """As ART does it. Exact: 1003 rows, drawn together, in batches of 32."""
    kept = np.random.get_state()
    scores = reseed.seeds_numpy(np.dtype("float32"))
    rows = np.float32(level / 255) + np.random.normal(scale=0.5, size=(1003, 1)).astype(np.float32)
    np.random.set_state(kept)
    labels = np.concatenate([scores(rows[i : i + 32]).argmax(axis=1) for i in range(0, len(rows), 32)])
    assert (labels == level - 209).all()


def test_the_global_generators_are_put_back() -> None:
    np.random.seed(7)
    torch.manual_seed(7)
    found([Standard("float32")])
    after = np.random.normal(), float(torch.randn(1))
    np.random.seed(7)
    torch.manual_seed(7)
    assert after == (np.random.normal(), float(torch.randn(1)))


def test_without_torch_the_others_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(global_generators, "import_module", missing)
    answers = found([])
    assert answers["standard-torch"].finding is Finding.REFUSED
    assert "soundsmooth[torch]" in answers["standard-torch"].note
    assert answers["standard-numpy"].finding is Finding.FALSE_POINT
