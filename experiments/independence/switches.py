"""Checks that can be taken out while the inspector runs: the sources of a copy of the package call these (`cuts`)."""

from collections.abc import Callable
from typing import Any

#: The check that is out.
active: str | None = None
#: The checks that would have changed something if they had been out.
fired: set[str] = set()
#: The checks that were asked at all.
reached: set[str] = set()


def part(name: str, value: Any, without: bool) -> Any:
    """A part of a condition; `without` takes the check out: False of one that refuses, True of one that admits."""
    reached.add(name)
    many = getattr(value, "ndim", 0) > 0
    if bool(value.all() if many else value) == without:
        return value
    fired.add(name)
    if active != name:
        return value
    return (value | True) if many else without


def call(name: str, whole: Callable[[], Any], without: Callable[[], Any]) -> Any:
    """A call that may refuse; `without` is what there is in its place when it is out."""
    reached.add(name)
    if active == name:
        return without()
    try:
        return whole()
    except Exception:
        fired.add(name)
        raise
