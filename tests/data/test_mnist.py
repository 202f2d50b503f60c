"""idx files: images and labels side by side, packed or not; damage is found; published files are known by name."""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from soundsmooth.data import published
from soundsmooth.data.load import load
from soundsmooth.data.mnist import MOST

X = np.random.default_rng(5).integers(0, 256, (4, 5, 6), np.uint8)
Y = np.array([3, 9, 0, 1], np.uint8)


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sizes + array.tobytes()


def write(folder: Path, packed: bool, part: str = "t10k", images: np.ndarray = X) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    end, pack = (".gz", gzip.compress) if packed else ("", bytes)
    (folder / f"{part}-labels-idx1-ubyte{end}").write_bytes(pack(idx(Y)))
    path = folder / f"{part}-images-idx3-ubyte{end}"
    path.write_bytes(pack(idx(images)))
    return path


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("inside", ["", "raw", "FashionMNIST/raw"])
def test_a_folder_is_its_test_images(packed: bool, inside: str, tmp_path: Path) -> None:
    write(tmp_path / inside, packed)
    write(tmp_path / inside, packed, "train", 255 - X)
    data = load(tmp_path)
    assert np.array_equal(np.stack(data.levels), X[:, None])
    assert data.labels == (3, 9, 0, 1)
    assert data.origin == ""  # no published file


def test_a_file_is_what_it_says(tmp_path: Path) -> None:
    path = write(tmp_path, True, "train", 255 - X)
    assert np.array_equal(np.stack(load(path).levels), 255 - X[:, None])
    (tmp_path / "train-labels-idx1-ubyte.gz").rename(tmp_path / "train-labels-idx1-ubyte")
    assert load(path).labels == (3, 9, 0, 1)  # one packed and the other not
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    assert load(path).labels == (None,) * 4


def test_published_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the digest of what is packed, or of the file. Both files must be of the same set."""
    digests = {
        hashlib.sha256(idx(X)).hexdigest(): "Toy test images",
        hashlib.sha256(idx(Y)).hexdigest(): "Toy test labels",
    }
    monkeypatch.setattr(published, "_FILES", digests)
    assert load(write(tmp_path, True)).origin == "Toy test images, as published"
    assert load(write(tmp_path, False)).origin == "Toy test images, as published"
    monkeypatch.setitem(digests, hashlib.sha256(idx(Y)).hexdigest(), "Other test labels")
    assert load(write(tmp_path, False)).origin == ""


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\x08",
        idx(X)[:-1],
        idx(X) + b"\0",
        idx(Y),
        b"\0\0\x0d\x03" + idx(X)[4:],
        bytes((0, 0, 8, 3)) + b"\xff" * 12,
        b"\x1f\x8b" + b"junk",
        gzip.compress(idx(X))[:-9],
        gzip.compress(idx(X))[:-6] + b"\0" * 6,
    ],
)
def test_damage_is_found(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="t10k-images-idx3-ubyte' is damaged"):
        load(path)


def test_what_grows_too_large_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soundsmooth.data.mnist.MOST", 1000)
    assert MOST > 60_000 * 28 * 28
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(idx(np.zeros((40, 5, 6), np.uint8))))
    with pytest.raises(ValueError, match="is damaged: it cannot be decompressed"):
        load(path)


def test_as_many_labels_as_images(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has 3 images and t10k-labels-idx1-ubyte 4 labels"):
        load(write(tmp_path, False, images=X[:3]))
