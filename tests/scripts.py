"""Scripts of experiments/ as modules: they are no part of the package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

EXPERIMENTS = Path(__file__).parents[1] / "experiments"


def script(name: str) -> ModuleType:
    """The module of a script, by its path in experiments/."""
    spec = importlib.util.spec_from_file_location(
        "experiments." + name.removesuffix(".py").replace("/", "."), EXPERIMENTS / name
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
