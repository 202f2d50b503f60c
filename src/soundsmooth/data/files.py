"""Data by its path: what kind of file or folder it is, by its name, and who reads it."""

from pathlib import Path

from ..core.plain_files import MissingFileError
from .cifar import cifar_in, cifar_source, is_cifar
from .folder import file_source, folder_source
from .items import DataSource
from .mnist import idx_in, idx_source, is_idx
from .npz import npy_source, npz_source
from .pictures import SUFFIXES
from .rows import Keys

KINDS = (
    ".npz and .npy files, folders of images, image files, and the files of MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100"
)


def path_source(path: Path, keys: Keys) -> DataSource:
    """The data set in a file or a folder; a ValueError says what is read."""
    if path.suffix == ".npz" and not path.is_dir():
        return npz_source(path, keys)
    keys.reject(repr(path.name))
    if path.is_dir():
        return _folder(path)
    if path.suffix == ".npy":
        return npy_source(path)
    if is_idx(path):
        return idx_source(path)
    if is_cifar(path):
        return cifar_source(path)
    if path.suffix.lower() in SUFFIXES:
        return file_source(path)
    if not path.exists():
        raise MissingFileError(f"there is no data file {str(path)!r}")
    raise ValueError(f"{str(path)!r} is of no known kind: data are {KINDS}")


def _folder(folder: Path) -> DataSource:
    """The test images of a known data set, or a folder of images."""
    known = [*idx_in(folder), *cifar_in(folder)]
    if len({each.parent for each in known}) > 1:
        raise ValueError(
            f"{str(folder)!r} holds several data sets: pass one of {', '.join(str(e.parent) for e in known)}"
        )
    if known:
        return (idx_source if is_idx(known[0]) else cifar_source)(known[0])
    return folder_source(folder)
