"""One look at the sampler from outside, under fresh keys from the operating system, with its power written down.

Everything else about the sampler is proved by counting; this test would see what counting cannot, such as bits that
are not those of a fair coin or a stream that repeats. The rule is the Dvoretzky–Kiefer–Wolfowitz inequality with
Massart's constant, which holds for every n and every law, discrete ones too:

    P(sup |F_n − F| > ε) ≤ 2 exp(−2nε²).

False alarm: ε is chosen so that the right side is 10⁻¹⁰. Six comparisons in this file: below 10⁻⁹ together.
Power: if the draws follow G with sup |G − F| = Δ > ε, they are accepted only if sup |F_n − G| ≥ Δ − ε, which has
probability at most 2 exp(−2n(Δ − ε)²). With n = 2²⁴ draws (ε = 0.00085) the tests themselves compute and assert:

    σ     a mean off by 1/255      σ too large by 1 %
    0.25  missed below 10⁻⁴⁰⁰      missed below 10⁻³⁴
    0.5   missed below 10⁻⁷⁰       missed below 10⁻³⁴
"""

import math
import os

import numpy as np
import numpy.typing as npt
import pytest

from soundsmooth.noise import Gaussian, Keystream, Law, Purpose, Sampler

DRAWS = 1 << 24
FALSE_ALARM = 1e-10
Array = npt.NDArray[np.float64]


def distribution(a_law: Law) -> Array:
    """P(T ≤ j) for j = −reach … reach, from the proved breakpoints."""
    return np.array([floor / 2**64 for floor in a_law.breakpoints(64)] + [1.0])


def tolerance(n: int) -> float:
    """The ε with 2 exp(−2nε²) = FALSE_ALARM."""
    return math.sqrt(math.log(2 / FALSE_ALARM) / (2 * n))


def log10_missed(apart: float, n: int) -> float:
    """log₁₀ of the probability, at most, to accept n draws from a law at distance `apart` from the right one."""
    gap = apart - tolerance(n)
    assert gap > 0, "no power at all"
    return (math.log(2) - 2 * n * gap * gap) / math.log(10)


def distance(draws: npt.NDArray[np.integer], lowest: int, expected: Array) -> float:
    """sup |F_n − F|."""
    counts = np.bincount(draws.reshape(-1).astype(np.intp) - lowest, minlength=expected.size)
    assert counts.size == expected.size, "a noise beyond its reach"
    return float(np.abs(np.cumsum(counts) / draws.size - expected).max())


def fresh_noise(a_law: Law, first: int = 0) -> npt.NDArray[np.int16]:
    """2²⁴ elements as 4096 copies of 4096 coordinates under a key from the operating system."""
    bits = Keystream(os.urandom(32), Purpose.ESTIMATION, int.from_bytes(os.urandom(8), "little"))
    return Sampler(a_law).noise(bits, first, 4096, DRAWS // 4096).levels


@pytest.mark.parametrize(("sigma", "shift_missed"), [("0.25", -400), ("0.5", -70)])
def test_the_draws_follow_the_law(sigma: str, shift_missed: float) -> None:
    """False alarm 10⁻¹⁰ each; a mean off by one level, or σ off by 1 %, is missed as rarely as the table above says."""
    a_law = Gaussian(sigma)
    right = distribution(a_law)
    shifted = np.concatenate([[0.0], right[:-1]])
    wider = distribution(Gaussian(a_law.sigma * 101 / 100))
    assert log10_missed(float(np.abs(shifted - right).max()), DRAWS) < shift_missed
    assert log10_missed(float(np.abs(wider - right).max()), DRAWS) < -34
    assert distance(fresh_noise(a_law), -a_law.reach, right) <= tolerance(DRAWS)


def test_the_test_rejects_what_it_should() -> None:
    """Real draws, one level too high, and from σ = 0.2525: both are rejected (but for a chance of 10⁻³⁴)."""
    a_law = Gaussian("0.25")
    right = distribution(a_law)
    assert distance(np.minimum(fresh_noise(a_law) + 1, a_law.reach), -a_law.reach, right) > tolerance(DRAWS)
    assert distance(fresh_noise(Gaussian("0.2525")), -a_law.reach, right) > tolerance(DRAWS)


@pytest.mark.parametrize("pairing", ["coordinates", "copies"])
def test_neighbours_are_independent(pairing: str) -> None:
    """Sums of two neighbours follow the convolution. False alarm 10⁻¹⁰ each.

    Power: if each draw were repeated once the sums would be 2T, at a distance Δ > 0.08 from the convolution
    (asserted), and 2²³ sums would miss it with probability below 10⁻⁴⁰⁰⁰⁰.
    """
    a_law, half = Gaussian("0.25"), DRAWS // 2
    masses = np.diff(distribution(a_law), prepend=0.0)
    sums = np.cumsum(np.convolve(masses, masses))
    doubled = np.zeros(sums.size)
    doubled[::2] = masses
    assert log10_missed(float(np.abs(np.cumsum(doubled) - sums).max()), half) < -40_000
    noise = fresh_noise(a_law, first=12_345)
    one, two = (noise[:, ::2], noise[:, 1::2]) if pairing == "coordinates" else (noise[::2], noise[1::2])
    assert distance(one + two, -2 * a_law.reach, sums) <= tolerance(half)


def test_purposes_and_streams_are_independent() -> None:
    """Selection and estimation of one stream, and two streams, under one key: sums follow the convolution.

    Two comparisons of 2²⁰ sums; false alarm 10⁻¹⁰ each; equal bits would be missed with probability below 10⁻⁵⁰⁰⁰.
    """
    a_law, key, n = Gaussian("0.25"), os.urandom(32), 1 << 20
    masses = np.diff(distribution(a_law), prepend=0.0)
    sums = np.cumsum(np.convolve(masses, masses))
    assert log10_missed(0.08, n) < -5_000

    def noise(purpose: Purpose, stream: int) -> npt.NDArray[np.int16]:
        return Sampler(a_law).noise(Keystream(key, purpose, stream), 0, 1, n).levels

    estimation = noise(Purpose.ESTIMATION, 0)
    for other in (noise(Purpose.SELECTION, 0), noise(Purpose.ESTIMATION, 1)):
        assert distance(estimation + other, -2 * a_law.reach, sums) <= tolerance(n)
