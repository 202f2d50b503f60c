"""What a fresh interpreter is started with, by this file's path: the server, without the rest of the package.

The `__init__` files of the package and of its models are not run: empty shells stand in for them.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType


def server() -> ModuleType:
    """The module `server`, imported in a process that imports nothing else of soundsmooth."""
    home = Path(__file__).parents[2]
    for name, folder in (("soundsmooth", home), ("soundsmooth.models", home / "models")):
        shell = ModuleType(name)
        shell.__path__ = [str(folder)]
        sys.modules[name] = shell
    return importlib.import_module("soundsmooth.models.sandbox.server")


if __name__ == "__main__":
    server().main(sys.argv[1:])
