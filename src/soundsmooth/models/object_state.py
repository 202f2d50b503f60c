"""What an object of Python holds: attributes, slots, and what C code keeps for it."""

import dataclasses
import functools
import types
from collections import namedtuple
from typing import Any

SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType, type(vars(namedtuple("_", "x"))["x"]))
_HEAP = 1 << 9


def attributes_of(tensor: Any) -> dict[str, Any]:
    """What somebody has set on a tensor. (torch itself marks buffers.)"""
    return {name: value for name, value in vars(tensor).items() if name not in ("_is_buffer", "persistent")}


def state_of(value: Any) -> dict[str, Any]:
    """The attributes of an object, in its dictionary or in slots."""
    held: dict[str, Any] = getattr(value, "__dict__", {})
    kind: Any = type(value)
    slots = _slots(kind)
    return {**{name: getattr(value, name) for name in slots if hasattr(value, name)}, **held} if slots else held


@functools.lru_cache(1024)
def _slots(kind: type) -> tuple[str, ...]:
    """Names of attributes that are kept in slots."""
    return tuple(name for base in kind.__mro__ for name in _members(base) if name in _declared(base))


def _members(base: type) -> list[str]:
    return [name for name, each in vars(base).items() if isinstance(each, SLOTS[0])]


def _declared(base: type) -> set[str]:
    """Names that a class statement has put into slots; of private ones, the longer name."""
    slots = vars(base).get("__slots__", ())
    names = {slots} if isinstance(slots, str) else set(slots)
    return names | {f"_{base.__name__.lstrip('_')}{name}" for name in names}


def basis_of(kind: type) -> type:
    """The class, written in C, whose memory an object has: `object`, if all its state is in attributes."""
    for base in kind.__mro__:
        new = vars(base).get("__new__")
        in_c = isinstance(new, types.BuiltinFunctionType) and new.__self__ is base
        if not base.__flags__ & _HEAP or in_c or not _declared(base).issuperset(_members(base)):
            return base
    return object


def defaults_of(field: Any) -> list[Any]:
    return [None if each is dataclasses.MISSING else [each] for each in (field.default, field.default_factory)]
