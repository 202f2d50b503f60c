"""CIFAR-10 and CIFAR-100 from the files of their authors: the binary version and the python version, packed or not."""

import lzma
import tarfile
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..core.plain_files import plain_file, read_plain
from .items import DataSource, rows_of
from .published import published
from .unpickle import unpickled

#: The test images of a folder or an archive, in the order in which they are looked for.
TESTS = ("test_batch.bin", "test_batch", "test.bin", "test")
FOLDERS = ("", "cifar-10-batches-bin", "cifar-10-batches-py", "cifar-100-binary", "cifar-100-python")
TRAINING = ("train.bin", "train", *(f"data_batch_{number}{end}" for number in range(1, 6) for end in ("", ".bin")))
PIXELS = 3 * 32 * 32
TEST_IMAGES = 10_000
#: More bytes than any file of theirs has.
MOST = 1 << 28
#: Images and labels.
Batch = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


def is_cifar(path: Path) -> bool:
    """Whether a file has a name that the authors gave: a batch, or the archive of all."""
    return path.name in TESTS + TRAINING or is_archive(path)


def is_archive(path: Path) -> bool:
    return path.name.endswith((".tar.gz", ".tgz", ".tar"))


def cifar_in(folder: Path) -> list[Path]:
    """The test images in a folder, if it is one of CIFAR's: the file, not a class folder of that name."""
    return [path for inside in FOLDERS for name in TESTS if (path := folder / inside / name).is_file()]


def cifar_source(path: Path) -> DataSource:
    """The images [3, 32, 32] of a batch, or the test images of an archive."""
    name, content = _unpacked(path) if is_archive(path) else (path.name, read_plain(path, "data file", MOST))
    try:
        images, labels = _binary(name, content) if name.endswith(".bin") else _pickled(content)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is no batch of CIFAR: {error}") from None
    return rows_of(images, labels, f"{path.name}, ", _known(path, name, content, images))


def _known(path: Path, name: str, content: bytes, images: npt.NDArray[np.uint8]) -> str:
    """What it is, if it is a published file; a ValueError for CIFAR-10's test images with a wrong digest."""
    whole, known = published(content), published(images.transpose(0, 2, 3, 1).tobytes())
    if whole is not None:
        return f"{whole}, as published"
    if known is None and name.startswith("test_batch") and len(images) == TEST_IMAGES:
        raise ValueError(
            f"{str(path)!r} looks like CIFAR-10's test images, and is damaged: its MD5 is not the published one. "
            "Other images are better kept in an .npz"
        )
    return f"{known}, pixels as published, labels not compared" if known else ""


def _binary(name: str, content: bytes) -> Batch:
    """One byte for the label, of CIFAR-100 one before it for the coarse one; then the image, channel by channel."""
    before = 1 if name.endswith("batch.bin") or name.startswith("data_batch") else 2
    if not content or len(content) % (before + PIXELS):
        raise ValueError(f"it does not consist of records of {before + PIXELS} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, before + PIXELS)
    return records[:, before:].reshape(-1, 3, 32, 32), records[:, before - 1].astype(np.int64)


def _pickled(content: bytes) -> Batch:
    held = unpickled(content)
    images, labels = held.get("data"), held.get("labels", held.get("fine_labels"))
    if not isinstance(images, np.ndarray) or images.ndim != 2 or images.shape[1] != PIXELS or not len(images):
        raise ValueError(f'its "data" is not [images, {PIXELS}]')
    if not isinstance(labels, list) or len(labels) != len(images) or not all(type(each) is int for each in labels):
        raise ValueError("it has not one label for each image")
    if not all(0 <= each < 1 << 63 for each in labels):
        raise ValueError("its labels are no numbers of classes")
    return images.reshape(-1, 3, 32, 32), np.array(labels, np.int64)


def _unpacked(path: Path) -> tuple[str, bytes]:
    """The test images in an archive, and the name of their file. Nothing is written."""
    try:
        with plain_file(path, "data file") as file, tarfile.open(fileobj=file) as archive:
            for member in archive:
                name = Path(member.name).name
                if name in TESTS and member.isreg() and member.size <= MOST:
                    held = archive.extractfile(member)
                    assert held is not None
                    return name, held.read(MOST)
    except (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, MemoryError) as error:
        raise ValueError(f"{str(path)!r} cannot be unpacked: {error}") from None
    raise ValueError(
        f"{str(path)!r} holds no test images of CIFAR ({', '.join(TESTS)}): unpack it, and pass the folder"
    )
