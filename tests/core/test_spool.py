"""The spool: what went in comes out, in memory and from a file, and nobody can change it."""

import gc
import os
import pickle
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from soundsmooth.core.spool import Spool

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 3, 4), np.int16)
#: In memory; and in a file, which begins with the third image.
MOST = [1 << 20, 2 * 3 * 4 * 2]


@pytest.mark.parametrize("most", MOST)
def test_what_goes_in_comes_out(most: int) -> None:
    spool = Spool(iter(IMAGES), most)
    assert len(spool) == 5
    assert all(np.array_equal(*pair) for pair in zip(spool, IMAGES, strict=True))
    assert np.array_equal(spool[-1], IMAGES[-1])
    assert np.array_equal(np.stack(spool[1:4:2]), IMAGES[1:4:2])
    assert np.array_equal(np.stack(spool[::-1].pick([0, 3])), IMAGES[[4, 1]])
    assert np.array_equal(np.stack(pickle.loads(pickle.dumps(spool))), IMAGES)
    with pytest.raises(IndexError):
        spool[5]


@pytest.mark.parametrize("most", MOST)
def test_nobody_writes_to_it(most: int) -> None:
    """Not even who tries to: NumPy's own lock could be opened again."""
    given = IMAGES.copy()
    spool = Spool(given, most)
    given[...] = 7
    assert np.array_equal(np.stack(spool), IMAGES)
    with pytest.raises(ValueError, match="read-only"):
        spool[0][0, 0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        spool[0].setflags(write=True)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_its_file_has_no_name_and_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def maps() -> int:
        return Path("/proc/self/maps").read_text().count(str(tmp_path))

    before = len(os.listdir("/proc/self/fd"))
    spool = Spool(IMAGES, 1)
    assert maps() == 1
    assert not list(tmp_path.iterdir())
    image = spool[2]
    del spool
    gc.collect()
    assert np.array_equal(image, IMAGES[2])  # an image outlives the spool
    del image
    gc.collect()
    assert maps() == 0
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_image_at_a_time_is_in_memory() -> None:
    """Each is gone before the next but one is made: data may be larger than memory."""
    alive = []

    class Watched(np.ndarray):
        def __del__(self) -> None:
            alive.pop()

    def images() -> Iterator[np.ndarray]:
        for image in IMAGES:
            made = image.copy().view(Watched)
            alive.append(1)
            assert len(alive) <= 2
            yield made

    assert len(Spool(images(), 1)) == 5


def test_all_have_one_shape_and_type() -> None:
    for other in (IMAGES[1][:1], IMAGES[1].astype(np.int64), IMAGES[1].T):
        with pytest.raises(ValueError, match="same shape"):
            Spool([IMAGES[0], other])


def test_images_without_pixels_and_no_images() -> None:
    assert Spool([np.zeros((2, 0), np.int16)])[0].shape == (2, 0)
    assert len(Spool([])) == 0


def test_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "write", full)
    with pytest.raises(OSError, match=r"No space left on device: .* set TMPDIR"):
        Spool(IMAGES)
