"""The early-out H_A gives the very answers of the definition."""

from typing import Any

import numpy as np
import pytest

from soundsmooth.lab.gallery.certifiers import values
from soundsmooth.lab.gallery.images import load_images
from soundsmooth.lab.gallery.membership import RememberedImages

DTYPES = ("float16", "float32", "float64")


def by_definition(images: Any, batch: Any, dtype: Any) -> list[int]:
    """The first a with (x ⊖ a) ⊕ a = x in every coordinate, or −1: no shortcut at all."""
    known = values(images.reshape(len(images), -1), dtype)
    owners = []
    for x in batch.reshape(len(batch), -1):
        hits = np.flatnonzero((((x - known) + known) == x).all(axis=1))
        owners.append(int(hits[0]) if len(hits) else -1)
    return owners


def noisy(levels: Any, sigma: float, dtype: Any, copies: int, rng: Any) -> Any:
    noise = rng.standard_normal((copies, *levels.shape)).astype(dtype)
    return values(levels, dtype) + noise * dtype.type(sigma)


@pytest.mark.parametrize("name", DTYPES)
def test_early_out_equals_the_definition(name: str) -> None:
    """1500 copies: of remembered images, of their neighbours, of strangers, and grid points; each kind is met."""
    dtype, rng = np.dtype(name), np.random.default_rng(3)
    images, _ = load_images(None)
    known, strangers = images[:60], images[60:]
    near = np.clip(known - 1, 0, 255)
    parts = [noisy(x, 1.0, dtype, 5, rng) for x in known]
    parts += [noisy(x, 0.25, dtype, 10, rng) for x in near]
    parts += [noisy(x, 1.0, dtype, 1, rng) for x in strangers[:300]]
    parts += [values(known + rng.integers(-400, 400, known.shape), dtype) for _ in range(5)]
    batch = np.concatenate(parts)
    found = RememberedImages(known, dtype).owners(batch)
    assert len(batch) == 1500
    assert found.tolist() == by_definition(known, batch, dtype)
    assert (found[:300] >= 0).mean() > 0.9  # copies of remembered images
    assert {-1} < set(found[300:900].tolist())  # neighbours: both kinds
    assert (found[900:] == -1).mean() > 0.9


@pytest.mark.parametrize("name", DTYPES)
def test_few_bright_pixels(name: str) -> None:
    """Images with so few pixels that strangers pass often, black ones, which everything passes, and duplicates."""
    dtype, rng = np.dtype(name), np.random.default_rng(4)
    known = rng.integers(1, 256, (40, 30)) * (rng.random((40, 30)) < 0.15)
    known[17] = known[5]
    batch = np.concatenate([noisy(x, 1.0, dtype, 30, rng) for x in known])
    without_black = known[(known > 0).any(axis=1)]
    for images in (without_black, np.concatenate([without_black, np.zeros((1, 30), int)])):
        found = RememberedImages(images, dtype).owners(batch)
        assert found.tolist() == by_definition(images, batch, dtype)
        assert len(set(found.tolist())) > 5
    assert (found >= 0).all()


def test_zeros_and_not_a_number() -> None:
    """x_i = 0 passes for every a_i, and NaN for none."""
    memory = RememberedImages(np.arange(1, 41).reshape(2, 20), np.dtype("float32"))
    batch = np.zeros((2, 20), np.float32)
    batch[1, 7] = np.nan
    assert memory.owners(batch).tolist() == [0, -1]
    assert memory.owners(batch[:0]).tolist() == []


def test_nothing_to_remember() -> None:
    with pytest.raises(ValueError, match="no images"):
        RememberedImages(np.zeros((0, 4), int), np.dtype("float32"))
