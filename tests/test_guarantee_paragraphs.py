"""Everything public in `exact` and `noise` that samples or bounds says in its docstring what it guarantees."""

import importlib
import inspect
import pkgutil
import sys
from types import ModuleType

import pytest

import soundsmooth.exact
import soundsmooth.noise

#: Public names that neither sample nor bound: parameters, records, protocols and checks.
EXEMPT = {
    "soundsmooth.exact.balls.precision",
    "soundsmooth.noise.keystream.Purpose",
    "soundsmooth.noise.keystream.check_room",
    "soundsmooth.noise.log_guide.CrowdedError",
    "soundsmooth.noise.law.Law",
    "soundsmooth.noise.law.Gaussian",
    "soundsmooth.noise.sampler.Bits",
    "soundsmooth.noise.sampler.Noise",
    "soundsmooth.noise.sampler.Noisy",
    "soundsmooth.noise.gpu.Request",
    "soundsmooth.noise.sources.CopyRange",
    "soundsmooth.noise.sources.Source",
    "soundsmooth.noise.sources.check_shared_memory",
}
#: Methods that sample or bound.
METHODS = [
    "Sampler.noise",
    "Sampler.noisy",
    "Sampler.add",
    "GpuSampler.noise",
    "GpuSampler.noisy",
    "GpuSampler.noisy_together",
    "GpuSampler.add",
    "Law.breakpoints",
    "Law.breakpoint",
    "Law.radius",
    "Gaussian.breakpoints",
    "Gaussian.breakpoint",
    "Gaussian.radius",
]


def modules(package: ModuleType) -> list[ModuleType]:
    names = [f"{package.__name__}.{info.name}" for info in pkgutil.iter_modules(package.__path__)]
    for each in names:
        importlib.import_module(each)
    return [package, *(sys.modules[each] for each in names)]


def public_things() -> dict[str, object]:
    """Functions and classes that are written in one of the two rooms, by full name."""
    found = {}
    for package in (soundsmooth.exact, soundsmooth.noise):
        for module in modules(package):
            for name, thing in vars(module).items():
                here = getattr(thing, "__module__", "").startswith(package.__name__)
                if here and not name.startswith("_") and (inspect.isfunction(thing) or inspect.isclass(thing)):
                    found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return found


THINGS = public_things()


@pytest.mark.parametrize("name", sorted(set(THINGS) - EXEMPT))
def test_says_what_it_guarantees(name: str) -> None:
    """A 'Guarantee:' at the start of a line of the docstring, followed by words."""
    lines = (inspect.getdoc(THINGS[name]) or "").splitlines()
    promises = [line.removeprefix("Guarantee:").strip() for line in lines if line.startswith("Guarantee:")]
    assert any(promises), f"{name} has no Guarantee: paragraph"


@pytest.mark.parametrize("name", METHODS)
def test_methods_say_what_they_guarantee(name: str) -> None:
    owner, method = name.split(".")
    assert "Guarantee:" in (inspect.getdoc(getattr(getattr(soundsmooth.noise, owner), method)) or "")


def test_the_list_is_not_empty_and_not_stale() -> None:
    """The parametrized test can fail: it meets the bounds and samplers, and each exemption still exists."""
    must = {"binomial.clopper_pearson_below", "radius.radius_below", "breakpoints.breakpoint_floors"}
    assert {f"soundsmooth.exact.{name}" for name in must} <= set(THINGS)
    assert {"soundsmooth.noise.sampler.Sampler", "soundsmooth.noise.reference.reference_noise"} <= set(THINGS)
    assert set(THINGS) >= EXEMPT
