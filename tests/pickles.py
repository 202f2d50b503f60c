"""Pickles as Python 2 wrote them, and one that runs a command."""

import os
import struct
from pathlib import Path
from typing import Any


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


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.target}",)
