"""The gallery's entries by name: each is a module in `entries` with a CLAIM and a function `run`."""

import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple

from . import entries
from .art import Art, installed
from .certifiers import Certifier, FloatSum, GuardBand, Ours, Standard
from .options import Options
from .trial import Trial


class Entry(NamedTuple):
    """One way in which a smoothing certificate has been false."""

    name: str
    claim: str
    run: Callable[[list[Certifier], Options], Iterator[Trial]]
    extra: tuple[Certifier, ...] = ()
    """Certifiers that only this entry brings along."""


#: The order in which the gallery is shown; an entry that is not listed here comes after these, by name.
ORDER = (
    "listing1",
    "pixel",
    "image",
    "memory",
    "proposition",
    "gate",
    "float_sum",
    "reseed",
    "counter",
    "batch",
    "position",
    "common_coin",
    "travelling_memory",
    "second_channel",
    "sampler",
    "round_up",
    "lucky_key",
    "stopping",
    "stopped_replay",
    "known_rows",
    "filtered_votes",
    "lucky_attack",
)


def all_entries() -> dict[str, Entry]:
    """Every module in `entries`, in the order of the gallery. The name on the command line has hyphens."""
    names = {module.name for module in pkgutil.iter_modules(entries.__path__)}
    ordered = [name for name in ORDER if name in names] + sorted(names - set(ORDER))
    found = {}
    for name in ordered:
        module = import_module(f"{entries.__name__}.{name}")
        public = name.replace("_", "-")
        found[public] = Entry(public, module.CLAIM, module.run, getattr(module, "EXTRA", ()))
    return found


def all_certifiers() -> dict[str, Certifier]:
    """The certifiers by name: those in use, the paper's proposals, ours last."""
    listed: list[Certifier] = [Standard("float32"), Standard("float64"), Standard("float16"), FloatSum(), GuardBand()]
    if installed():
        listed.append(Art())
    listed.append(Ours())
    return {certifier.name: certifier for certifier in listed}
