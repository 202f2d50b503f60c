"""No function hides the module that it is written in: `import soundsmooth.noise.law` gives the module."""

import importlib
import pkgutil
from types import ModuleType

import pytest

import soundsmooth

PACKAGES = [soundsmooth.__name__] + [
    info.name for info in pkgutil.walk_packages(soundsmooth.__path__, "soundsmooth.") if info.ispkg
]


@pytest.mark.parametrize("name", PACKAGES)
def test_no_function_hides_a_module(name: str) -> None:
    package = importlib.import_module(name)
    for info in pkgutil.iter_modules(package.__path__):
        held = vars(package).get(info.name)
        assert held is None or isinstance(held, ModuleType), f"{name}.{info.name} is a {type(held).__name__}"


def test_the_rooms_are_met() -> None:
    assert {"soundsmooth.exact", "soundsmooth.audit", "soundsmooth.noise"} <= set(PACKAGES)
