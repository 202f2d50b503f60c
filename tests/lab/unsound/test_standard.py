"""The paper's Algorithm 1: it does what the field's code does, the false certificate of Listing 1 included.

Statistical tests: each compares a share of n = 100 000 votes with a probability p, and accepts within 0.01 of it. By
Hoeffding's inequality a correct program is rejected with a probability below 2·exp(−20) = 4.2e-9 when p is exact, and
below 2·exp(−18) = 3.1e-8 when it is known to ±0.0005 only; a program whose probability is off by 0.02 is rejected
with a probability above 1 − 3.1e-8. Seeds are fixed, so in practice nothing flakes until a library changes its streams.
"""

import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from soundsmooth.exact import clopper_pearson_below, hoeffding_below, radius_below
from soundsmooth.lab.unsound import UnsoundResult, UnsoundStandard

A = 210 / 255
N = 100_000
ALPHA = Fraction(1, 1000)
#: P([(ε − a) + a = ε]): in float64 from 2·10⁹ draws; in float32 from all floats, weighted with the normal density.
SHARE_AT_0 = {"float64": 0.4632, "float32": 0.4565}

everywhere = pytest.mark.parametrize(
    ("backend", "dtype"), [(backend, dtype) for backend in ("numpy", "torch") for dtype in ("float32", "float64")]
)


def one_hot(hit: Any) -> Any:
    """Scores of a two-class classifier, for either backend."""
    stack = torch.stack if isinstance(hit, torch.Tensor) else np.stack
    return stack([~hit, hit], -1) * 1.0


def listing1(x: Any) -> Any:
    """F_a(x) = [(x − a) + a = x], all in the precision of x."""
    return one_hot((x - A) + A == x)


@everywhere
def test_listing1_has_0_46_of_hits_at_0(backend: str, dtype: str) -> None:
    """False alarm < 3.1e-8; rejects 0.5, or any share that is off by 0.02, with probability > 1 − 3.1e-8."""
    smooth = UnsoundStandard(listing1, 2, "0.5", dtype=dtype, backend=backend, seed=1)
    counts = smooth.sample_under_noise(0.0, N)
    assert counts.sum() == N
    assert abs(counts[1] / N - SHARE_AT_0[dtype]) < 0.01


@everywhere
def test_listing1_certifies_1_906_and_1_26_where_an_adversarial_example_is_0_82_away(backend: str, dtype: str) -> None:
    """All hits at a. In float32 no noise at all misses (all floats up to 8 = 16σ were tried); in float64 none did in
    2·10⁹ draws, so with other seeds the false alarm is below 1.5e-4 (95 % confidence). One hit less is rejected.
    At 0 the true label is selected and certified but with probability < exp(−2·10⁴·0.036²) = 6e-12.
    """
    smooth = UnsoundStandard(listing1, 2, "0.5", dtype=dtype, backend=backend, seed=2)
    exact, simple = smooth.certify(A), smooth.certify(A, bound="hoeffding")
    assert exact.counts == simple.counts == (0, N)
    assert exact.label == simple.label == 1
    assert exact.p_lower == clopper_pearson_below(N, N, ALPHA)
    assert simple.p_lower == hoeffding_below(N, N, ALPHA)
    assert exact.radius == radius_below(exact.p_lower, Fraction(1, 2)) == pytest.approx(1.906, abs=5e-4)
    assert simple.radius == radius_below(simple.p_lower, Fraction(1, 2)) == pytest.approx(1.26, abs=5e-3)
    elsewhere = smooth.certify(0.0, n0=10_000)  # 0.82 from a, and yet:
    assert elsewhere.label == 0
    assert elsewhere.radius > 0


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_mixing_precisions_hides_the_effect(backend: str) -> None:
    """x + ε in single, the classifier in double: now it hits at 0 as well, with a share of about 0.99, and no
    contradiction shows. False alarm < exp(−2N·0.04²) < 1e-138; the share 0.46 is missed with less than 1e-1000.
    """

    def double(x: Any) -> Any:
        return listing1(x.double() if isinstance(x, torch.Tensor) else x.astype(np.float64))

    smooth = UnsoundStandard(double, 2, "0.5", dtype="float32", backend=backend, seed=3)
    assert smooth.sample_under_noise(0.0, N)[1] > 0.95 * N


@everywhere
def test_the_noise_is_normal_with_the_sigma_asked_for(backend: str, dtype: str) -> None:
    """A half-space σ away has the share Φ(1) = 0.84134. False alarm < 4.2e-9; at σ·1.15 the share is 0.8077 and at
    σ/1.15 it is 0.8749: rejected with probability > 1 − exp(−2N·0.023²) > 1 − 1e-45.
    """
    smooth = UnsoundStandard(lambda x: one_hot(x[:, 1, 0] > 0.25), 2, "1/4", dtype=dtype, backend=backend, seed=4)
    counts = smooth.sample_under_noise(np.full((2, 3), 0.5), N)
    assert abs(counts[1] / N - 0.84134) < 0.01


@everywhere
def test_the_classifier_gets_batches_of_that_precision_and_a_last_smaller_one(backend: str, dtype: str) -> None:
    seen: list[tuple[tuple[int, ...], str]] = []

    def watch(x: Any) -> Any:
        seen.append((tuple(x.shape), str(x.dtype).removeprefix("torch.")))
        return one_hot(x[:, 0, 0] == x[:, 0, 0])

    smooth = UnsoundStandard(watch, 2, "0.5", dtype=dtype, backend=backend, seed=5)
    assert smooth.sample_under_noise(np.zeros((2, 3)), 25, batch_size=10).tolist() == [0, 25]
    assert seen == [((10, 2, 3), dtype), ((10, 2, 3), dtype), ((5, 2, 3), dtype)]


@everywhere
def test_a_seed_fixes_the_votes(backend: str, dtype: str) -> None:
    def counts(seed: int) -> list[int]:
        smooth = UnsoundStandard(lambda x: x, 4, 1, dtype=dtype, backend=backend, seed=seed)
        return smooth.sample_under_noise(np.zeros(4), 10_000).tolist()

    assert counts(6) == counts(6)
    assert counts(6) != counts(7)  # for these seeds


def test_torch_takes_a_tensor_too() -> None:
    smooth = UnsoundStandard(lambda x: one_hot(x[:, 0] > 5), 2, "0.1", backend="torch", seed=8)
    assert smooth.predict(torch.full((3,), 9.0), 100) == 1


def test_without_a_seed_the_classifier_can_reseed_the_noise() -> None:
    """Ledger, row 4: torch's global generator is the classifier's as well. With a seed of its own it is not."""

    def batches(seed: int | None) -> list[torch.Tensor]:
        seen: list[torch.Tensor] = []

        def reseeds(x: torch.Tensor) -> torch.Tensor:
            torch.manual_seed(0)
            seen.append(x)
            return one_hot(x[:, 0] > 0)

        UnsoundStandard(reseeds, 2, 1, backend="torch", seed=seed).sample_under_noise(np.zeros(2), 30, batch_size=10)
        return seen

    with torch.random.fork_rng(devices=[]):
        shared, own = batches(None), batches(9)
    assert torch.equal(shared[1], shared[2])
    assert not torch.equal(own[1], own[2])


def test_many_classes_and_ties() -> None:
    """Votes are argmax: of equal scores the first."""
    scores = np.array([[0, 1, 2, 3], [5, 5, 0, 0], [0, 0, 9, 9], [1, 1, 1, 1]])
    smooth = UnsoundStandard(lambda x: np.resize(scores, (len(x), 4)), 4, 1, seed=10)
    assert smooth.sample_under_noise(np.zeros(1), 400, batch_size=100).tolist() == [200, 0, 100, 100]


def half_each(x: Any) -> Any:
    return one_hot(np.arange(len(x)) % 2 == 1)


def test_an_even_vote_is_an_abstention() -> None:
    smooth = UnsoundStandard(half_each, 2, 1, seed=11)
    result = smooth.certify(0.0, n=1000)
    assert result == UnsoundResult(None, 0.0, clopper_pearson_below(500, 1000, ALPHA), (500, 500), (50, 50))
    assert smooth.predict(0.0, 1000) is None
    assert UnsoundStandard(lambda x: one_hot(np.ones(len(x), bool)), 2, 1).predict(0.0, 11) == 1
    assert UnsoundStandard(lambda x: one_hot(np.ones(len(x), bool)), 2, 1).predict(0.0, 10) is None  # 2/2¹⁰ > 0.001


def test_torch_is_imported_only_when_asked_for() -> None:
    program = (
        "import sys, soundsmooth.lab.unsound as u; u.UnsoundStandard(None, 2, 1); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"sigma": 0}, "sigma"),
        ({"sigma": "nan"}, "sigma"),
        ({"num_classes": 1}, "classes"),
        ({"dtype": "float8"}, "dtype"),
        ({"backend": "jax"}, "backend"),
    ],
)
def test_bad_settings(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        UnsoundStandard(**{"classifier": listing1, "num_classes": 2, "sigma": 1, **arguments})


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"n": 0}, "n and batch_size"),
        ({"batch_size": 0}, "n and batch_size"),
        ({"alpha": 1}, "alpha"),
        ({"bound": "wald"}, "bound"),
    ],
)
def test_bad_calls(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        UnsoundStandard(listing1, 2, 1).certify(0.0, **arguments)


def test_scores_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[batch, classes\] = \(10, 3\)"):
        UnsoundStandard(listing1, 3, 1).sample_under_noise(0.0, 10)
