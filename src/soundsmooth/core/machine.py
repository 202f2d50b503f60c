"""What is known of the machine: its cores, its memory, its system, this package."""

import hashlib
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path

from .. import __version__

PRECISIONS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class InputPlacement:
    """Where a model reads its batches, if not in the memory of the processor as float32."""

    device: str
    """As torch writes it: cuda:0."""
    precision: str = "float32"
    """float32, bfloat16 or float16."""
    channels_last: bool = False

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ValueError(f"a batch is made in {', '.join(PRECISIONS)}, not in {self.precision!r}")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> int:
    """The GPUs that torch can use; 0 where it was never imported."""
    torch = sys.modules.get("torch")
    return 0 if torch is None else int(torch.cuda.device_count())


def memory() -> int | None:
    """Bytes of memory that can be had now, where the system tells; None elsewhere."""
    try:
        with open("/proc/meminfo") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_memory(needed: int, what: str, advice: str) -> None:
    """A ValueError, before anything is allocated, for what cannot fit."""
    there = memory()
    if there is not None:
        refuse_beyond(there, needed, what, advice)


def check_batch_memory(batch: int, shape: Sequence[int]) -> None:
    """A ValueError if there is no memory for such a batch: its size and shape may be somebody's word."""
    check_memory(batch * 4 * prod(shape), describe_batch(batch, shape), "are inputs of the model so large?")


def describe_batch(batch: int, shape: Sequence[int]) -> str:
    return f"a batch of {batch} inputs of shape {list(shape)}"


def refuse_beyond(there: int, needed: int, what: str, advice: str) -> None:
    """A ValueError if more bytes are needed than are there."""
    if needed > there:
        raise ValueError(f"{what} needs {needed / 2**30:.1f} GiB, but {there / 2**30:.1f} GiB are free; {advice}")


@cache
def system() -> str:
    """The operating system, the kind of processor and the C library; not the kernel's name, which tells whose it is."""
    return " ".join(filter(None, (platform.system(), platform.machine(), *platform.libc_ver())))


@cache
def processor() -> str:
    """The make of the processor, where the system tells."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@cache
def ourselves() -> str:
    """The version of this package, and the beginning of a digest of its source, installed or not."""
    folder = Path(__file__).parents[1]
    digests = {path.relative_to(folder): hashlib.sha256(path.read_bytes()) for path in folder.rglob("*.py")}
    lines = sorted(f"{path.as_posix()} {digest.hexdigest()}\n" for path, digest in digests.items())
    digest = hashlib.sha256("".join(lines).encode())
    return f"{__version__}, source {digest.hexdigest()[:16]}"
