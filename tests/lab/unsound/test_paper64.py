"""The paper's Algorithm 2: the fast version is the literal one, and its law is that of the theorem, by counting."""

from collections import Counter
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

from soundsmooth.lab.unsound import (
    UnsoundPaper64,
    breaking_points,
    discretized_normal,
    discretized_normal_literally,
)
from soundsmooth.lab.unsound.paper64 import ambiguous_draws
from soundsmooth.noise.decide import decide
from soundsmooth.noise.law import Law, law

TOP = (1 << 64) - 1
A = 210 / 255

laws = pytest.mark.parametrize(
    "noise", [law("0.12", 6), law("0.25", 3), law("0.5", 1), law(1, 6)], ids=lambda noise: f"σ={noise.sigma}"
)


def fast(arr: list[int], draws: list[int]) -> list[int | None]:
    noise, failed = discretized_normal(ambiguous_draws(arr), np.array(draws, np.uint64))
    return [None if f else int(j) for j, f in zip(noise, failed, strict=True)]


def listing1(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    hit = (x - A) + A == x
    return np.stack([~hit, hit], -1) * 1.0


@laws
def test_the_array_is_the_papers(noise: Law) -> None:
    """arr[255k + 255 + i] = ⌈2⁶⁴ Φ((i + ½)/(255σ))⌉, here by mpmath, and 2⁶⁴ at the end."""
    arr = breaking_points(noise)
    reach = noise.margin + 255
    assert len(arr) == 2 * reach + 1
    assert arr == sorted(arr)
    assert arr[-1] == 1 << 64
    with mpmath.workdps(60):
        for i in range(-reach, reach, 97):
            z = mpmath.mpf(2 * i + 1) / 510 / mpmath.mpf(noise.sigma.numerator) * noise.sigma.denominator
            assert arr[reach + i] == int(mpmath.ceil(mpmath.ncdf(z) * 2**64))


def test_most_upper_ceilings_fit_no_64_bit_integer_but_the_ambiguous_draws_do() -> None:
    arr = breaking_points(law("0.12", 6))
    assert arr.count(1 << 64) > 1000
    assert int(ambiguous_draws(arr)[-1]) == TOP


@laws
def test_the_fast_version_is_the_literal_one_on_every_ambiguous_draw_and_its_neighbours(noise: Law) -> None:
    arr = breaking_points(noise)
    forced = {t + d for t in (ceiling - 1 for ceiling in arr) for d in (-1, 0, 1)} | {0, 1, TOP - 1, TOP}
    draws = sorted(t for t in forced if 0 <= t <= TOP)
    assert fast(arr, draws) == [discretized_normal_literally(arr, t) for t in draws]


def test_the_last_entry_makes_no_draw_ambiguous() -> None:
    """At σ = 1, k = 1 the last breaking point is far from 1: the draw 2⁶⁴ − 1 is the topmost noise, not a Failure."""
    arr = breaking_points(law(1, 1))
    assert arr[-2] < TOP
    assert fast(arr, [TOP]) == [discretized_normal_literally(arr, TOP)] == [510]
    with pytest.raises(ValueError, match="not below"):
        discretized_normal_literally(arr, TOP + 1)


@pytest.mark.parametrize("bits", [1, 8, 12, 16])
@pytest.mark.parametrize("sigma", ["0.12", "1"])
def test_all_draws_of_few_bits_give_each_level_the_mass_of_its_breakpoints(sigma: str, bits: int) -> None:
    """Counting, not sampling: level j has the draws strictly between the floors of B_{j−1} and B_j."""
    noise = law(sigma, 1)
    floors = [-1, *noise.breakpoints(bits), 1 << bits]
    levels = range(-noise.reach, noise.reach + 1)
    masses = {j: max(0, floors[i + 1] - floors[i] - 1) for i, j in enumerate(levels)}
    got = Counter(fast(breaking_points(noise, bits), list(range(1 << bits))))
    assert got.pop(None) == len(set(noise.breakpoints(bits)))
    assert got == {j: mass for j, mass in masses.items() if mass}


@laws
def test_all_draws_of_64_bits_give_each_level_the_mass_of_its_breakpoints(noise: Law) -> None:
    """Both ends of each run of draws between two floors give the run's level; the noise rises with the draw, so all
    draws between do. Runs and failures together are all 2⁶⁴ draws.
    """
    floors = [-1, *noise.breakpoints(64), 1 << 64]
    runs = {
        j: (floors[i] + 1, floors[i + 1] - 1)
        for i, j in enumerate(range(-noise.reach, noise.reach + 1))
        if floors[i + 1] - floors[i] > 1
    }
    arr = breaking_points(noise)
    assert fast(arr, [first for first, _ in runs.values()]) == list(runs)
    assert fast(arr, [last for _, last in runs.values()]) == list(runs)
    failures = sorted(set(floors[1:-1]))
    assert set(fast(arr, failures)) == {None}
    assert sum(last - first + 1 for first, last in runs.values()) + len(failures) == 1 << 64


@laws
def test_it_agrees_with_the_law_of_the_specification(noise: Law) -> None:
    """A draw t is the first 64 bits of U. Either every such U has the noise that paper64 says, shown by the smallest
    and the largest U (T rises with U); or these two differ, and paper64 says Failure.
    """
    arr = breaking_points(noise)
    rng = np.random.default_rng(12)
    draws = [int(t) for t in rng.integers(TOP, size=60, dtype=np.uint64, endpoint=True)]
    for floor in [int(f) for f in rng.choice(np.array(noise.breakpoints(64), np.uint64), 20)]:
        draws += [t for t in (floor - 1, floor, floor + 1) if 0 <= t <= TOP]
    for t, got in zip(draws, fast(arr, draws), strict=True):
        low, high = (decide(noise, lambda level, t=t, rest=rest: word(t, level, rest)) for rest in (0, 1))
        assert low is not None
        assert high is not None
        assert (got is None and low < high) or (got == low == high)


def word(t: int, level: int, rest: int) -> int:
    """The words of the U that begins with the 64 bits t and goes on with `rest` (0 or 1) for ever."""
    if level == 0:
        return t >> 32
    if level == 1:
        return (t & 0xFFFFFFFF) << 32 | rest * 0xFFFFFFFF
    return rest * TOP


def test_its_draws_are_uniform_enough_to_see_a_shift_by_one_level() -> None:
    """The share of negative noise among m = 400 000 at σ = 0.12 is B_{−1} = Φ(−1/61.2) = 0.49348. Accepts within
    0.0065. False alarm < 2·exp(−2m·0.0065²) = 4.2e-15 (Hoeffding). Noise that is one level too high, as the published
    code's, has the share Φ(−3/61.2) = 0.48045, one too low 0.50652: missed with a probability below 3e-15.
    """
    noise, failed = UnsoundPaper64(listing1, 2, "0.12", seed=13).noise(400_000, ())
    assert not failed.any()
    assert abs((noise < 0).mean() - 0.49348) < 0.0065


@pytest.mark.parametrize("bits", [9, 11, 64])
def test_sample_under_noise_is_the_papers_loop(bits: int) -> None:
    """The same draws through the literal loop: Failure at any position of a copy, and the copy votes for nobody."""

    def classify(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return x.reshape(len(x), -1)

    image = np.array([[10, 20], [0, 255]], np.uint8)
    got = UnsoundPaper64(classify, 4, "0.5", k=1, bits=bits, seed=14).sample_under_noise(image, 250, batch_size=100)

    noise = law("0.5", 1)
    arr = breaking_points(noise, bits)
    rng = np.random.default_rng(14)
    counts, failures = [0, 0, 0, 0], 0
    for copies in (100, 100, 50):
        draws = rng.integers((1 << bits) - 1, size=(copies, 4), dtype=np.uint64, endpoint=True)
        for row in draws:
            epsilon = [discretized_normal_literally(arr, int(t)) for t in row]
            if None in epsilon:
                failures += 1
                continue
            pairs = zip(image.ravel(), epsilon, strict=True)
            clamped = [max(-255, min(510, int(x) + e)) for x, e in pairs if e is not None]
            counts[int(np.argmax(clamped))] += 1
    assert got.tolist() == counts
    assert sum(counts) + failures == 250
    assert (failures > 0) == (bits < 64)  # for this seed; at 64 bits the odds are 1000 · 1020 / 2⁶⁴


def test_certify_counts_failures_against_the_class() -> None:
    def always(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.tile([0.0, 1.0], (len(x), 1))

    sure = UnsoundPaper64(always, 2, "0.5", k=1, seed=15).certify(np.array([7]), n=1000)
    failing = UnsoundPaper64(always, 2, "0.5", k=1, bits=12, seed=15).certify(np.array([7]), n=1000)
    hopeless = UnsoundPaper64(always, 2, "0.5", k=1, bits=1, seed=15).certify(np.array([7]), n=1000)
    assert sure.counts == (0, 1000)
    assert failing.label == 1
    assert failing.counts[1] < 1000
    assert failing.radius < sure.radius
    assert (hopeless.label, hopeless.radius, hopeless.counts) == (None, 0.0, (0, 0))  # both draws are ambiguous


@pytest.mark.parametrize(("dtype", "share", "radius"), [("float64", 0.88343, 0.588), ("float32", 0.83775, 0.485)])
def test_listing1_is_no_contradiction_any_more(dtype: str, share: float, radius: float) -> None:
    """The share at 210 is known exactly, by summing masses over levels. Accepts within 0.01 for n = 100 000: false
    alarm < 4.2e-9 (Hoeffding); the share 1 of float noise is missed with a probability below exp(−2n·0.1²) < 1e-800.
    """
    noise = law("0.5", 6)
    floors = [0, *noise.breakpoints(64), 1 << 64]
    exact = Fraction(0)
    for i, j in enumerate(range(-noise.reach, noise.reach + 1)):
        value = np.dtype(dtype).type(max(noise.lowest, min(noise.highest, 210 + j))) / np.dtype(dtype).type(255)
        if listing1(value[None])[0, 1]:
            exact += Fraction(floors[i + 1] - floors[i], 1 << 64)
    assert float(exact) == pytest.approx(share, abs=1e-5)
    result = UnsoundPaper64(listing1, 2, "0.5", dtype=dtype, seed=16).certify(np.array(210))
    assert abs(result.counts[1] / 100_000 - share) < 0.01
    assert result.label == 1
    assert result.radius == pytest.approx(radius, abs=0.03)
    assert result.radius < A  # the distance to 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_classifiers_input_is_a_function_of_the_level_alone(dtype: str) -> None:
    """Everything that it ever sees is one of the floats nearest to t/255, one for each level."""
    seen: list[npt.NDArray[Any]] = []

    def watch(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        seen.append(np.unique(x))
        return np.zeros((len(x), 2))

    smooth = UnsoundPaper64(watch, 2, "0.5", k=1, dtype=dtype, seed=17)
    smooth.sample_under_noise(np.arange(256, dtype=np.uint8), 500)
    values = np.array([t / 255 for t in range(-255, 511)]).astype(dtype)  # no double rounding: see below
    assert all(x.dtype == dtype for x in seen)
    assert np.isin(np.concatenate(seen), values).all()
    assert len(np.unique(np.concatenate(seen))) == 766  # all levels were met, for this seed
    for t, value in zip(range(-255, 511), values, strict=True):
        below, above = np.nextafter(value, value.dtype.type(-9)), np.nextafter(value, value.dtype.type(9))
        gap = abs(Fraction(float(value)) - Fraction(t, 255))
        assert all(gap < abs(Fraction(float(other)) - Fraction(t, 255)) for other in (below, above))


def test_bad_input() -> None:
    smooth = UnsoundPaper64(listing1, 2, "0.5")
    with pytest.raises(ValueError, match="outside the levels"):
        smooth.certify(np.array([256]))
    with pytest.raises(ValueError, match="not on the grid"):
        smooth.certify(np.array([0.5]))
    with pytest.raises(ValueError, match="bits"):
        UnsoundPaper64(listing1, 2, "0.5", bits=65)
    with pytest.raises(ValueError, match="dtype"):
        UnsoundPaper64(listing1, 2, "0.5", dtype="float16")
    with pytest.raises(ValueError, match="k·q"):
        UnsoundPaper64(listing1, 2, "0.5", k="7.5")
