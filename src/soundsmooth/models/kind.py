"""What is known of a kind of model without one at hand: what promises say of it, and what follows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

#: What a promise's flag `digest` says of Python code: that nothing is known to escape its digest, or that something is.
#: Without the flag the digest is the first one.
CLOSED, OPEN = "2", "2-open"

#: A flag's values; None for a positive whole number.
FlagValues = Mapping[str, tuple[str, ...] | None]


def no_options(promised: Mapping[str, str], flags: Mapping[str, str]) -> dict[str, Any]:
    """Of a model that is made in one way only."""
    return {}


@dataclass(frozen=True)
class ModelKind:
    """One kind of model: what its promises may say (docs/noise.md, 2.4), and how to make it again from that."""

    name: str
    flags: FlagValues
    """The flags that it may promise."""
    optional: tuple[str, ...] = ()
    """Flags that may be missing: older promises do not have them, or only some models do."""
    binding: bool = False
    """Whether the digest fixes the model: it is data. Otherwise it is Python code, assumed honest."""
    devices: tuple[str, ...] | None = ("cpu",)
    """Where it may run; None for any text."""
    software: tuple[str, ...] = ()
    """Packages whose versions are recorded beside a certificate, if they are imported."""
    elsewhere: tuple[str, ...] = ()
    """Those among them that may be imported in another process only: these are always recorded."""
    options: Callable[[Mapping[str, str], Mapping[str, str]], dict[str, Any]] = no_options
    """What `ModelOptions` must say, so that a model votes as one with this promise and these flags did."""
