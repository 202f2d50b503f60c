"""Images for the gallery: the embedded ones, and whatever else can be loaded with labels."""

from pathlib import Path

import numpy as np
import pytest

from soundsmooth.lab.gallery.images import load_images


def test_embedded() -> None:
    images, labels = load_images(None)
    assert images.shape == (1000, 1, 28, 28)
    assert images.dtype == np.int16
    assert labels.shape == (1000,)


def test_npz(tmp_path: Path) -> None:
    x, y = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2), np.array([7, 1])
    np.savez(tmp_path / "a.npz", x=x, y=y)
    images, labels = load_images(tmp_path / "a.npz")
    assert np.array_equal(images, x)
    assert labels.tolist() == [7, 1]
    np.savez(tmp_path / "b.npz", x=x)
    with pytest.raises(ValueError, match="labels"):
        load_images(tmp_path / "b.npz")


def test_folder_without_batches(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no data set that is known"):
        load_images(tmp_path)


def test_the_word_cifar10_is_a_folder_here_or_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    with pytest.raises(ValueError, match="there is no data file"):
        load_images(Path("cifar10"))
    for folder, level in ((tmp_path / "home" / ".cache" / "cifar10", 3), (tmp_path / "cifar10", 5)):
        folder.mkdir(parents=True)
        np.savez(folder / "test.npz", x=np.full((2, 4, 4, 3), level, np.uint8), y=np.zeros(2, int))
        assert load_images(Path("cifar10"))[0].max() == level
