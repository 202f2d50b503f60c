"""Files that others wrote: only their bytes are read, no link is followed, and nothing is waited for."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

#: Where the system has them: do not follow a link, do not wait for a FIFO's writer, do not take over a terminal.
FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"))


class MissingFileError(ValueError):
    """There is no such file."""


def plain_file(path: Path, what: str = "file") -> BinaryIO:
    """The file, open for reading; a ValueError of one line if it is missing, or anything but a plain file.

    Guarantee: a link, a FIFO, a device, a socket or a folder in its place is not opened. (Hard links are plain files.)
    What is read is one file, also if another one is put in its place meanwhile.
    """
    return os.fdopen(_descriptor(path, what), "rb")


def _descriptor(path: Path, what: str) -> int:
    try:
        _check_kind(path, path.lstat().st_mode)
        found = os.open(path, FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(f"there is no {what} {str(path)!r}") from None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ValueError(f"{str(path)!r} is no plain file, but a link: name the file itself") from None
    try:
        _check_kind(path, os.fstat(found).st_mode)
    except BaseException:
        os.close(found)
        raise
    return found


def read_plain(path: Path, what: str = "file", most: int | None = None) -> bytes:
    """All bytes of a plain file; a ValueError if there are more than `most`."""
    with plain_file(path, what) as file:
        content = file.read() if most is None else file.read(most + 1)
    if most is not None and len(content) > most:
        raise ValueError(f"{str(path)!r} is no {what}: it has more than {most} bytes")
    return content


def _check_kind(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode):
        raise ValueError(f"{str(path)!r} is no plain file, but a link: name the file itself")
    raise ValueError(f"{str(path)!r} is {'a folder, and ' if stat.S_ISDIR(mode) else ''}no plain file")
