"""The frames of the pipe between us and the process of an untrusted model: a fixed header, then plain bytes."""

import struct
from typing import IO, Any, NamedTuple

MOST_AXES = 8
#: Magic, kind, element type, number of axes, bytes that follow, sizes of the axes.
HEADER = struct.Struct(f"<4sBBBxQ{MOST_AXES}Q")
MAGIC = b"sms1"
HELLO, GRAPH, LOAD, LOADED, NOT_FROZEN, VOTE, SCORES, ERROR, WATCH, LOOK, TRY, SEEN = range(12)
#: Values may have these types, scores all but the last; the number in the header is the place in this list.
TYPES = (
    *("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
    "bool",
)
MOST_TEXT = 2000


class Frame(NamedTuple):
    """What the header of a frame says."""

    kind: int
    type: int
    size: int
    sizes: tuple[int, ...]


def write_frame(pipe: IO[bytes], kind: int, content: Any = b"", sizes: tuple[int, ...] = (), type_: int = 0) -> None:
    """A header and the bytes that it announces. `pipe` is unbuffered."""
    view = memoryview(content).cast("B") if len(content) else memoryview(b"")
    padded = (*sizes, *(0,) * (MOST_AXES - len(sizes)))
    pipe.write(HEADER.pack(MAGIC, kind, type_, len(sizes), len(view), *padded))
    while len(view):
        view = view[pipe.write(view) :]


def read_header(pipe: IO[bytes]) -> Frame:
    """EOFError at the end, ValueError for anything that is no header: a process that answers so is not believed."""
    magic, kind, type_, axes, size, *sizes = HEADER.unpack(read_exactly(pipe, bytearray(HEADER.size)))
    if magic != MAGIC or axes > MOST_AXES:
        raise ValueError("its answer is malformed")
    return Frame(kind, type_, size, tuple(sizes[:axes]))


def read_exactly(pipe: IO[bytes], into: bytearray) -> bytearray:
    view = memoryview(into)
    while len(view):
        got = pipe.readinto(view)  # type: ignore[attr-defined]
        if not got:
            raise EOFError
        view = view[got:]
    return into
