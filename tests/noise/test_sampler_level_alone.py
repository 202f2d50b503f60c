"""F's input is a function of the noisy level alone: why adding levels is sound and adding floats is not."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from soundsmooth.core.grid import IMAGES
from soundsmooth.noise import Gaussian, Law, Sampler
from soundsmooth.noise.sampler import add_clamp_scale

WIDE = Gaussian("4", 6)  # at σ = 4 every noise from −1785 to 1785 has first words of its own
INPUTS = np.arange(256, dtype=np.int16)
NOISES = np.arange(-WIDE.reach, WIDE.reach + 1)
LEVELS = np.clip(INPUTS + NOISES[:, None], WIDE.lowest, WIDE.highest)
"""clamp(x + T) for every T (rows) and every x (columns)."""


def nearest_float32(value: Fraction) -> float:
    """Round to 24 bits, ties to even, in integers."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length() - 24
    if size >= Fraction(2) ** (exponent + 24):
        exponent += 1
    mantissa = round(size / Fraction(2) ** exponent)
    return float((1 if value > 0 else -1) * mantissa * Fraction(2) ** exponent)


def bits_by_level(values: npt.NDArray[np.float32]) -> dict[int, set[int]]:
    """All bit patterns that F sees at each level."""
    pairs = np.unique(LEVELS.astype(np.int64) << 32 | values.view(np.uint32).astype(np.int64))
    seen: dict[int, set[int]] = {}
    for pair in pairs.tolist():
        seen.setdefault(pair >> 32, set()).add(pair & 0xFFFF_FFFF)
    return seen


def check_function_of_the_level(values: npt.NDArray[np.float32]) -> None:
    seen = bits_by_level(values)
    assert sorted(seen) == list(range(WIDE.lowest, WIDE.highest + 1)), "not every level was reached"
    for level, patterns in seen.items():
        nearest = np.float32(nearest_float32(Fraction(level, 255)))
        assert patterns == {int(nearest.view(np.uint32))}, f"level {level}"


def test_all_pairs_through_the_last_step() -> None:
    """add_clamp_scale on all 256 × 3571 pairs (x, T): one float per level, bit for bit the nearest to t/255."""
    noise = np.repeat(NOISES.astype(np.int16)[:, None], 256, axis=1)
    out = np.empty(noise.shape, np.float32)
    add_clamp_scale(WIDE, noise, INPUTS, out)
    check_function_of_the_level(out)


@pytest.mark.parametrize("block", [100, 1 << 18])
def test_all_pairs_through_the_sampler(replay: type, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """The same end to end: a replayed stream gives copy i the noise T = i − reach in all of its 256 coordinates."""
    monkeypatch.setattr("soundsmooth.noise.sampler.BLOCK", block)
    floors = [-1, *WIDE.breakpoints(32)]
    words = np.repeat(np.array(floors, np.int64) + 1, 256).astype(np.uint32)  # b_{j−1} < word < b_j
    noisy = Sampler(WIDE, 2).noisy(replay(words), INPUTS, 0, NOISES.size)
    check_function_of_the_level(noisy.values)


def test_adding_floats_has_no_such_property() -> None:
    """The tests above can fail: fl(x/255) + fl(T/255), the usual practice, shows F several floats at most levels."""
    values = IMAGES.values(INPUTS) + IMAGES.values(NOISES)[:, None]
    clipped = np.clip(values, np.float32(WIDE.lowest / 255), np.float32(WIDE.highest / 255))
    seen = bits_by_level(clipped)
    several = [level for level, patterns in seen.items() if len(patterns) > 1]
    assert len(several) > 1000
    with pytest.raises(AssertionError):
        check_function_of_the_level(clipped)


def test_floats_tell_neighbouring_inputs_apart() -> None:
    """What an attacker uses: floats that are reached from x = 210 and never from x = 209, as sets over all T."""
    values = IMAGES.values(INPUTS) + IMAGES.values(NOISES)[:, None]
    inner = slice(300, -300)  # far from the clamp
    from_210, from_209 = set(values[inner, 210].tolist()), set(values[inner, 209].tolist())
    assert len(from_210 - from_209) > 100
    sound = IMAGES.values(LEVELS)
    assert len(set(sound[inner, 210].tolist()) - set(sound[inner, 209].tolist())) == 1  # the last level alone


def test_sums_never_wrap_around() -> None:
    """The largest law that int16 allows: K + 2(L − 1) = 32 767, at both ends."""
    largest = Gaussian("1", Fraction(32767 - 510, 255))
    assert isinstance(largest, Law)
    assert largest.reach + 255 == 32767
    noise = np.array([[-largest.reach, largest.reach]] * 2, np.int16)
    out = np.empty((2, 2), np.float32)
    add_clamp_scale(largest, noise, np.array([0, 255], np.int16), out)
    assert out[0].tolist() == [nearest_float32(Fraction(level, 255)) for level in (largest.lowest, largest.highest)]
