"""A spool: the images of a run in memory that nobody writes to, or, if they are many, in a file without a name."""

import mmap
import tempfile
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from .grid import Levels

#: Up to so many bytes are kept in memory; more go to a file.
IN_MEMORY = 1 << 28


class Spool(Sequence[Levels]):
    """Images of one shape and type, in order.

    Guarantee: what was put in is what comes out, always. The images were copied. They are in memory that cannot be
    written to, or in a file that has no name, is mapped for reading only, and is gone with the last reader.
    """

    def __init__(self, images: Iterable[Levels], most: int = IN_MEMORY) -> None:
        self._images = _written((np.asarray(image)[None] for image in images), most)
        self._places: Sequence[int] = range(len(self._images))

    @classmethod
    def joined(cls, chunks: Iterable[Levels]) -> "Spool":
        """The images of arrays [images, …], one array after the other."""
        images = _written(chunks, IN_MEMORY)
        return cls._of_places(images, range(len(images)))

    @classmethod
    def _of_places(cls, images: npt.NDArray[Any], places: Sequence[int]) -> "Spool":
        found = object.__new__(cls)
        found._images, found._places = images, places
        return found

    @classmethod
    def of(cls, images: Iterable[Levels]) -> "Spool":
        """The images; nothing is copied if they are in a spool already."""
        return images if isinstance(images, Spool) else cls(images)

    def pick(self, places: Sequence[int]) -> "Spool":
        """The images at these places, which stay where they are."""
        return self._of_places(self._images, tuple(self._places[place] for place in places))

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Levels: ...

    @overload
    def __getitem__(self, place: slice) -> "Spool": ...

    def __getitem__(self, place: int | slice) -> "Levels | Spool":
        if isinstance(place, slice):
            return self.pick(range(*place.indices(len(self))))
        image: Levels = self._images[self._places[place]]
        return image

    def __reduce__(self) -> tuple[Any, ...]:
        return Spool, (list(self),)


def _written(chunks: Iterable[Levels], most: int) -> npt.NDArray[Any]:
    """One pass over arrays of images, which are not held together in memory; the result cannot be written to."""
    kinds, count = set[tuple[tuple[int, ...], np.dtype[Any]]](), 0  # shapes and types
    with tempfile.SpooledTemporaryFile(most) as file:
        for chunk in chunks:
            kinds.add((chunk.shape[1:], chunk.dtype))
            if len(kinds) > 1:
                raise ValueError("all images of a run must have the same shape and type")
            count += len(chunk)
            try:
                file.write(chunk.tobytes())
            except OSError as error:
                text = f"{error.strerror}: large data is kept in {tempfile.gettempdir()}; set TMPDIR to a larger place"
                raise OSError(error.errno, text) from None
        shape, dtype = kinds.pop() if kinds else ((), np.dtype(np.int16))
        size = count * prod(shape) * dtype.itemsize
        return np.ndarray((count, *shape), dtype, _frozen(file, size, most))


def _frozen(file: "tempfile.SpooledTemporaryFile[bytes]", size: int, most: int) -> bytes | mmap.mmap:
    """All that was written, as memory that is only read."""
    if size > most:  # then it is on the disk
        file.flush()
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    file.seek(0)
    return file.read()
