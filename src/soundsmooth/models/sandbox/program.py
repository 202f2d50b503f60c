"""What a fresh interpreter is started with, by this file's path: the server, without the rest of the package.

The package's own `__init__` files are not run: what lies in this folder is found under a package of another name.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType


def server() -> ModuleType:
    """The module `server`, imported in a process that imports nothing else of soundsmooth."""
    models = ModuleType("models")
    models.__path__ = [str(Path(__file__).parents[1])]
    sys.modules["models"] = models
    return importlib.import_module("models.sandbox.server")


if __name__ == "__main__":
    server().main(sys.argv[1:])
