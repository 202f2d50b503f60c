"""Images for the gallery: embedded, .npz, and CIFAR-10's python batches, which are pickles and not to be trusted."""

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soundsmooth.lab.gallery.images import load_images


def text(value: str) -> bytes:
    """A string as Python 2 pickled it."""
    return b"U" + bytes([len(value)]) + value.encode()


def python2_batch(data: Any, labels: list[int]) -> bytes:
    """A dictionary as in CIFAR-10's files, which Python 2 wrote: opcode by opcode, since Python 3 writes others."""
    raw = data.tobytes()
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + text("b") + b"tR"
    dtype = b"cnumpy\ndtype\n(" + text("u1") + b"K\x00K\x01tR(K\x03" + text("|") + b"NNN" + 2 * b"J\xff\xff\xff\xff"
    shape = b"(" + b"".join(b"M" + struct.pack("<H", size) for size in data.shape) + b"t"
    array = empty + b"(K\x01" + shape + dtype + b"K\x00tb" + b"\x89T" + struct.pack("<i", len(raw)) + raw + b"tb"
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + text("data") + array + text("labels") + listed + b"u."


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


@pytest.mark.parametrize("folder", [".", "cifar-10-batches-py"])
def test_cifar_batches(folder: str, tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(0, 256, (5, 3072), np.uint8)
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "test_batch").write_bytes(python2_batch(data, [3, 8, 0, 9, 5]))
    images, labels = load_images(tmp_path)
    assert images.shape == (5, 3, 32, 32)
    assert np.array_equal(images[2, 1, 0], data[2, 1024 : 1024 + 32])  # the green plane begins at 1024
    assert labels.tolist() == [3, 8, 0, 9, 5]


def test_folder_without_batches(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no data set that is known"):
        load_images(tmp_path)


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_batch_is_refused(protocol: int, tmp_path: Path) -> None:
    """It names a function that no data set needs, and the function does not run."""
    held = {b"data": Evil(tmp_path / "owned"), b"labels": [0]}
    (tmp_path / "test_batch").write_bytes(pickle.dumps(held, protocol))
    with pytest.raises(ValueError, match="refused"):
        load_images(tmp_path)
    assert not (tmp_path / "owned").exists()
    pickle.loads(pickle.dumps(Evil(tmp_path / "owned"), protocol))
    assert (tmp_path / "owned").exists()  # so the test can fail


@pytest.mark.parametrize("name", ["ndarray.tofile", "load", "memmap", "fromfile"])
def test_other_names_of_numpy_are_refused(name: str, tmp_path: Path) -> None:
    asked = b"\x80\x04\x8c\x05numpy\x8c" + bytes([len(name)]) + name.encode() + b"\x93."
    (tmp_path / "test_batch").write_bytes(asked)
    with pytest.raises(ValueError, match="refused"):
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


@pytest.mark.parametrize("content", [b"", b"\x80\x02}.", b"nothing"])
def test_a_broken_batch_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "test_batch").write_bytes(content)
    with pytest.raises(ValueError, match="no batch of CIFAR"):
        load_images(tmp_path)
