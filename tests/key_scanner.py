"""What code in a model's process could do to find the key. It knows a hash of what it looks for, and not the thing.

It is loaded by path into the process of an untrusted model, so it imports nothing but Python's library.
"""

import ctypes
import gc
import hashlib
import os
import stat
import sys

Target = tuple[bytes, int, str]
"""The first four bytes, how many there are, and the SHA-256 of all."""
MOST_REGION = 1 << 28
DEPTH = 3


def target(secret: bytes) -> Target:
    return secret[:4], len(secret), hashlib.sha256(secret).hexdigest()


class Scanner:
    """Opens what it needs at once: later it may not be able to."""

    def __init__(self, targets: list[Target]) -> None:
        self.targets = targets
        self._maps, self._memory = (os.open(f"/proc/self/{name}", os.O_RDONLY) for name in ("maps", "mem"))

    def close(self) -> None:
        os.close(self._maps)
        os.close(self._memory)

    def everywhere(self) -> dict[str, bool]:
        return {
            "frames": any(self._in_values(frame) for frame in sys._current_frames().values()),
            "objects": self._in_objects(),
            "environment": self.finds("\n".join(map(":".join, os.environ.items())).encode()),
            "files": any(self.finds(content) for content in self._files()),
            "memory": any(self.finds(content) for content in self._regions()),
        }

    def finds(self, content: bytes) -> bool:
        for start, length, digest in self.targets:
            at = content.find(start)
            while at >= 0:
                if hashlib.sha256(content[at : at + length]).hexdigest() == digest:
                    return True
                at = content.find(start, at + 1)
        return False

    def _in_values(self, frame) -> bool:
        """In what the local variables hold, to a depth of DEPTH."""
        while frame is not None:
            reached = list(frame.f_locals.values())
            for _ in range(DEPTH):
                if any(map(self._is_it, reached)):
                    return True
                reached = gc.get_referents(*reached)
            frame = frame.f_back
        return False

    def _in_objects(self) -> bool:
        return any(self._is_it(value) for each in gc.get_objects() for value in gc.get_referents(each))

    def _is_it(self, value: object) -> bool:
        if isinstance(value, str):
            value = value.encode(errors="replace")
        return isinstance(value, bytes | bytearray) and self.finds(bytes(value))

    def _files(self):
        for number in range(256):
            try:
                if stat.S_ISREG(os.fstat(number).st_mode) and number not in (self._maps, self._memory):
                    yield os.pread(number, 1 << 24, 0)
            except OSError:
                continue

    def _regions(self):
        os.lseek(self._maps, 0, os.SEEK_SET)
        text = b""
        while part := os.read(self._maps, 1 << 16):
            text += part
        for line in text.splitlines():
            start, end = (int(number, 16) for number in line.split()[0].split(b"-"))
            if line.split()[1].startswith(b"rw") and end - start <= MOST_REGION:
                try:
                    yield os.pread(self._memory, end - start, start)
                except OSError:
                    continue


def descriptors() -> list[int]:
    """The numbers of all open files, found without opening one."""

    def is_open(number: int) -> bool:
        try:
            os.fstat(number)
        except OSError:
            return False
        return True

    return [number for number in range(1024) if is_open(number)]


def can_open(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True


def can_read_memory(pid: int, address: int) -> bool:
    """By process_vm_readv, which opens no file."""
    libc, into = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(8)
    here, there = (ctypes.c_size_t * 2)(ctypes.addressof(into), 8), (ctypes.c_size_t * 2)(address, 8)
    return libc.process_vm_readv(pid, here, ctypes.c_ulong(1), there, ctypes.c_ulong(1), ctypes.c_ulong(0)) == 8
