"""Giving up rights, before a process sees a model that nobody trusts, or a row that it must not share."""

import ctypes
import os
import struct
import sys
from functools import cache
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_NO_NEW_PRIVILEGES = 38
#: Rights to the process's own folder: write, read, list, remove a file or folder, make a folder or file, truncate.
_OWN_FOLDER = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 14
_READ_FILE, _READ = 1 << 2, 1 << 2 | 1 << 3
#: Installed software and what describes the processor: what libraries read when they are imported.
_SYSTEM = ("/usr", "/lib", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/proc/cpuinfo", "/sys/devices")


@cache
def linux() -> Any:
    """Linux's C library. What is called of it is looked up once, also for processes that are forked later."""
    libc = ctypes.CDLL(None, use_errno=True)
    for name in ("prctl", "capset", "syscall", "unshare"):
        getattr(libc, name)
    return libc


def confine(folder: str, libraries: list[str]) -> bool:
    """Give up what `give_up` does but for one folder to write in, and installed software to read."""
    readable = [*_SYSTEM, sys.prefix, sys.base_prefix, *libraries]
    readable += [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    there = {path: _READ for path in readable if os.path.exists(path)}
    return give_up(there | {folder: _OWN_FOLDER})


def give_up(rights: dict[str, int]) -> bool:
    """Give up core dumps, capabilities and, where Linux has Landlock, other processes and all files but those below the
    paths to which there are rights.

    True if Landlock is in force. It binds the calling thread and those that it starts, so this comes before any library
    can start one.
    """
    return Renunciation(rights).enforce()


class Renunciation:
    """What `give_up` gives up, laid out: this process, or each that is forked from it, can then do it in few steps.

    Core dumps, and programs with more rights than ours, are given up at once.
    """

    def __init__(self, rights: dict[str, int]) -> None:
        self.ruleset: int | None = None
        """An open descriptor, if Linux has Landlock. `enforce` closes it, and nobody may before."""
        try:
            import resource
        except ImportError:  # Windows
            return
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if sys.platform != "linux":
            return
        linux().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        # Capabilities are of use to root only: without them even root may not read others' memory.
        self._nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        self.ruleset = _landlock(rights)
        self._restrict = _arguments(_RESTRICT_SELF, ctypes.c_int(self.ruleset or 0), ctypes.c_uint32(0))

    def enforce(self) -> bool:
        """Give up the rest, in the process that calls this; True if Landlock is in force."""
        if sys.platform != "linux":
            return False
        linux().capset(*self._nothing)
        if self.ruleset is None:
            return False
        done: bool = linux().syscall(*self._restrict) == 0
        os.close(self.ruleset)
        return done


def _arguments(number: int, *arguments: Any) -> tuple[Any, ...]:
    """How one of Linux's calls is made."""
    return ctypes.c_long(number), *arguments


def _landlock(rights: dict[str, int]) -> int | None:
    """A set of rules: nothing but these rights below these paths; no TCP; no signals, sockets or tracing that leave the
    process that it restricts. It is an open descriptor; None where there is no Landlock.
    """

    def call(number: int, *arguments: Any) -> int:
        return int(linux().syscall(*_arguments(number, *arguments)))

    version = call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return None
    files = (1 << (13 + (version >= 2) + (version >= 3) + (version >= 5))) - 1
    attributes = (ctypes.c_uint64 * 3)(files, 3, 3)  # every access to files; TCP; abstract sockets and signals
    size = ctypes.c_size_t(8 if version < 4 else 16 if version < 6 else 24)
    rules = call(_CREATE_RULESET, attributes, size, ctypes.c_uint32(0))
    if rules < 0:
        return None
    for path, right in rights.items():
        below = os.open(path, os.O_PATH)
        rule = struct.pack("<Qi", right & files & (-1 if os.path.isdir(path) else _READ_FILE), below)
        call(_ADD_RULE, ctypes.c_int(rules), ctypes.c_int(1), rule, ctypes.c_uint32(0))
        os.close(below)
    return rules


def silence() -> None:
    """From now on the standard three streams lead nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)


def seal() -> None:
    """From now on nothing can be opened: no file, no socket, no other process's memory through a file."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
