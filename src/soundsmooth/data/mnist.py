"""MNIST, Fashion-MNIST and all that has their format: idx files, compressed or not, the labels beside the images."""

import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..core.plain_files import read_plain
from .items import DataSource, rows_of
from .published import published

#: The test images of a folder, and where torchvision keeps them.
TEST_IMAGES = ("t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte")
FOLDERS = ("", "raw", "MNIST/raw", "FashionMNIST/raw")
#: More bytes than any such file has.
MOST = 1 << 28


def is_idx(path: Path) -> bool:
    """Whether a file has a name of that format."""
    return path.name.removesuffix(".gz").endswith("-ubyte")


def idx_in(folder: Path) -> list[Path]:
    """The test images in a folder, if it is one of MNIST's."""
    places = (folder / inside / f"{name}{end}" for inside in FOLDERS for name in TEST_IMAGES for end in ("", ".gz"))
    return [path for path in places if path.is_file()]


def idx_source(path: Path) -> DataSource:
    """Images [1, height, width] of an idx file, with the labels of the file beside it."""
    images, known = _content(path, dimensions=3)
    beside = _labels_beside(path)
    if beside is None:
        return rows_of(images[:, None], None, f"{path.name}, ", known or "")
    labels, also = _content(beside, dimensions=1)
    if len(labels) != len(images):
        raise ValueError(f"{path.name} has {len(images)} images and {beside.name} {len(labels)} labels")
    same = known is not None and also == known.replace("images", "labels")
    return rows_of(images[:, None], labels, f"{path.name}, ", f"{known}, as published" if same else "")


def _labels_beside(path: Path) -> Path | None:
    name = path.name.replace("images", "labels").replace("idx3", "idx1")
    stem = name.removesuffix(".gz")
    found = (path.with_name(each) for each in (name, stem, f"{stem}.gz") if name != path.name)
    return next((each for each in found if each.is_file()), None)


def _content(path: Path, dimensions: int) -> tuple[npt.NDArray[np.uint8], str | None]:
    """The numbers of an idx file, and what it is if it is a published one."""
    raw = read_plain(path, "idx file", MOST)
    plain = _unzipped(path, raw) if raw[:2] == b"\x1f\x8b" else raw
    sizes = [int.from_bytes(plain[4 * axis : 4 * axis + 4], "big") for axis in range(1, dimensions + 1)]
    head = 4 * (dimensions + 1)
    if plain[:4] != bytes((0, 0, 8, dimensions)) or len(plain) - head != np.prod(sizes, dtype=object):
        raise ValueError(f"{str(path)!r} is damaged, or no idx file of bytes with {dimensions} axes")
    return np.frombuffer(plain, np.uint8, offset=head).reshape(sizes), published(raw, plain)


def _unzipped(path: Path, raw: bytes) -> bytes:
    """What was compressed; no more of it than such a file has."""
    try:
        unzip = zlib.decompressobj(wbits=31)
        plain = unzip.decompress(raw, MOST)
        if unzip.unconsumed_tail or not unzip.eof:
            raise zlib.error("it goes on")
    except zlib.error:
        raise ValueError(f"{str(path)!r} is damaged: it cannot be decompressed") from None
    return plain
