"""CIFAR's files: batches of both versions, packed or not; labels fine, channels first; wrong digests are found."""

import hashlib
import io
import itertools
import lzma
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from pickles import python2_batch
from soundsmooth.data import cifar, published
from soundsmooth.data.load import load

X = np.random.default_rng(6).integers(0, 256, (3, 3, 32, 32), np.uint8)
Y = [9, 0, 4]
FLAT = X.reshape(3, -1)
BINARY_10 = b"".join(bytes([y]) + x.tobytes() for x, y in zip(X, Y, strict=True))
BINARY_100 = b"".join(bytes([77, y]) + x.tobytes() for x, y in zip(X, Y, strict=True))
PYTHON_10 = python2_batch(FLAT, Y)
PYTHON_100 = pickle.dumps({b"data": FLAT, b"fine_labels": Y, b"coarse_labels": [1, 1, 1]}, 4)

VERSIONS = {
    "cifar-10-batches-bin/test_batch.bin": BINARY_10,
    "cifar-10-batches-py/test_batch": PYTHON_10,
    "cifar-100-binary/test.bin": BINARY_100,
    "cifar-100-python/test": PYTHON_100,
}


def packed(*members: tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in members:
            held = tarfile.TarInfo(name)
            held.size = len(content)
            archive.addfile(held, io.BytesIO(content))
    return file.getvalue()


@pytest.mark.parametrize("name", VERSIONS)
def test_each_version(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir()
    path.write_bytes(VERSIONS[name])
    (tmp_path / "all.tar.gz").write_bytes(packed(("meta", b""), (name, VERSIONS[name])))
    for source in (path, path.parent, tmp_path, tmp_path / "all.tar.gz"):
        data = load(source)
        assert np.array_equal(np.stack(data.levels), X)
        assert data.labels == tuple(Y)
        assert data.origin == ""


def test_training_batches_by_their_names(tmp_path: Path) -> None:
    for name, content in (("data_batch_3.bin", BINARY_10), ("data_batch_2", PYTHON_10), ("train.bin", BINARY_100)):
        (tmp_path / name).write_bytes(content)
        assert load(tmp_path / name).labels == tuple(Y)


def test_several_sets_in_one_folder(tmp_path: Path) -> None:
    for name, content in VERSIONS.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"holds several data sets: pass one of .*cifar-10-batches-bin"):
        load(tmp_path)


def test_published_files_are_named_and_damaged_ones_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the digest of the pixels, in whatever version; where there are as many as in the test set."""
    monkeypatch.setattr(cifar, "TEST_IMAGES", 3)
    for name, content in (("test_batch.bin", BINARY_10), ("test_batch", PYTHON_10)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=r"looks like CIFAR-10's test images, and is damaged.*kept in an \.npz"):
            load(tmp_path / name)
    pixels = hashlib.md5(X.transpose(0, 2, 3, 1).tobytes(), usedforsecurity=False).hexdigest()
    monkeypatch.setattr(published, "_FILES", {pixels: "CIFAR-10 test images"})
    for name in ("test_batch.bin", "test_batch"):
        assert load(tmp_path / name).origin == "CIFAR-10 test images, pixels as published, labels not compared"


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("test_batch.bin", BINARY_10[:-1], "no batch of CIFAR: it does not consist of records of 3073 bytes"),
        ("test.bin", BINARY_10, "records of 3074 bytes"),
        ("test_batch.bin", b"", "no batch of CIFAR"),
        ("test_batch", b"", "no batch of CIFAR"),
        ("test_batch", pickle.dumps({"labels": Y}, 4), r'its "data" is not \[images, 3072\]'),
        ("test_batch", pickle.dumps({"data": FLAT, "labels": Y[:2]}, 4), "not one label for each image"),
        ("test_batch", pickle.dumps({"data": FLAT, "labels": [1.0] * 3}, 4), "not one label for each image"),
        ("test_batch", pickle.dumps({"data": FLAT[:, :9], "labels": Y}, 4), "is not"),
        ("cifar.tar.gz", b"junk", "cannot be unpacked"),
        ("cifar.tar.gz", packed(("test_batch", PYTHON_10))[:-2000], "cannot be unpacked"),
        ("cifar.tar.gz", packed(("other", b"")), "holds no test images of CIFAR"),
    ],
    ids=itertools.count(),  # packed files hold the time at which they were packed
)
def test_damage_is_said(name: str, content: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=text):
        load(tmp_path / name)


@pytest.mark.parametrize("label", [2**70, -1])
def test_labels_that_are_no_numbers_of_classes(label: int, tmp_path: Path) -> None:
    (tmp_path / "test_batch").write_bytes(pickle.dumps({"data": FLAT, "labels": [0, label, 1]}, 4))
    with pytest.raises(ValueError, match="is no batch of CIFAR: its labels are no numbers of classes"):
        load(tmp_path / "test_batch")


def test_pixels_that_are_published_say_nothing_of_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = hashlib.md5(X.transpose(0, 2, 3, 1).tobytes()).hexdigest()
    monkeypatch.setitem(published._FILES, pixels, "CIFAR-10 test images")
    monkeypatch.setitem(published._FILES, hashlib.md5(PYTHON_10).hexdigest(), "CIFAR-10 test_batch")
    path = tmp_path / "test_batch"
    path.write_bytes(PYTHON_10)
    assert load(path).origin == "CIFAR-10 test_batch, as published"
    path.write_bytes(python2_batch(FLAT, [0, 4, 9]))
    assert load(path).origin == "CIFAR-10 test images, pixels as published, labels not compared"


def test_a_damaged_archive_of_another_kind(tmp_path: Path) -> None:
    first = tarfile.TarInfo("readme")
    first.size = 200_000
    content = first.tobuf() + bytes(np.random.default_rng(0).integers(0, 4, first.size, np.uint8))
    damaged = bytearray(lzma.compress(content))
    damaged[20_000:20_100] = bytes(100)
    (tmp_path / "cifar.tar").write_bytes(damaged)
    with pytest.raises(ValueError, match="cannot be unpacked"):
        load(tmp_path / "cifar.tar")
