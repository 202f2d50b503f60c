"""G_a at a itself: copies that rounding makes unreachable are counted, and cost radius."""

import numpy as np
import numpy.typing as npt
import pytest

from scripts import script

misses = script("gallery/misses.py")


class Halves:
    """NumPy's generator has no noise in half precision."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64(seed))

    def standard_normal(self, size: tuple[int, int], dtype: type) -> npt.NDArray[np.float16]:
        assert dtype is np.float16
        return self._rng.standard_normal(size).astype(np.float16)


def test_misses_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half precision, where misses are frequent: every copy by itself, from the same seed."""
    image, dtype = np.arange(1, 13).reshape(3, 2, 2) * 20, np.dtype("float16")
    a, noise = misses.values(image.ravel(), dtype), Halves(7)
    copies = np.concatenate([a + noise.standard_normal((size, 12), np.float16) for size in (1000, 500)])
    expected = sum(any((x - v) + v != x for x, v in zip(copy, a, strict=True)) for copy in copies)
    assert 0 < expected < 1500
    monkeypatch.setattr(misses.np.random, "default_rng", Halves)
    assert misses.misses(image, dtype, 7, 1500) == expected


def test_a_miss_costs_radius() -> None:
    """3.81145… with none; the largest radius is that of the least misses."""
    found = misses.rows({"float32": [0, 6, 2], "float64": [0, 0, 0]}).splitlines()
    assert found[-1] == "| float64 | 3 | 3 | 0 | 0 | 3.8114 | 3.8114 |"
    assert found[-2].startswith("| float32 | 3 | 1 | 8 | 6 | 3.5")
    assert found[-2].endswith(" | 3.8114 |")
