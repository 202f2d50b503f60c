"""Software and machine, recorded beside a certificate and not promised in it."""

import importlib.metadata
import platform
import sys
from functools import cache

from ..core.machine import cores, ourselves, processor, system
from .registry import KINDS

ALWAYS = ("numpy", "python-flint", "cryptography")


def environment(kind: str | None = None) -> dict[str, str]:
    """This process's, and what models of this kind run in other processes."""
    found = {"python": platform.python_version(), "platform": system()}
    found |= {"processor": processor(), "cores": str(cores()), "soundsmooth": ourselves()}
    elsewhere = KINDS[kind].elsewhere if kind in KINDS else ()
    packages = [package for each in KINDS.values() for package in each.software]
    used = [package for package in packages if package in sys.modules or package in elsewhere]
    return found | {package: _version(package) for package in (*ALWAYS, *used)}


@cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed as a package"
