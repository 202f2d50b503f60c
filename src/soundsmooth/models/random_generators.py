"""Draws of a model that votes on one row: each is a function of that row.

Processes that are forked from one share the state of its generators. A model that draws would toss one coin for all
rows. So every generator is seeded anew from the row, by a hash: then a model that draws votes by a fixed function of
the row, for the one who issues and for the one who checks.
"""

import _random
import gc
import hashlib
import random
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

_TAG = b"soundsmooth row v1"
#: Bytes of a seed.
SEED = hashlib.sha256().digest_size


def find_generators() -> list[Any]:
    """The global generators of Python, NumPy and torch, and those that objects hold, as far as the garbage collector
    can reach; not one that only C code holds. Each is there once, and what others draw from comes last, unless it is
    seeded with the one that draws.
    """
    held = (each for objects in _reachable() for each in _generators_among(objects))
    found = {id(each): each for each in (*held, *_global_generators())}
    for each in [each for each in found.values() if isinstance(each, np.random.RandomState)]:
        found.pop(id(each._bit_generator), None)
    return sorted(found.values(), key=_is_source)


def seed_of(row: bytes) -> bytes:
    """The seed for a row that consists of these bytes: a hash."""
    return hashlib.sha256(_TAG + row).digest()


def seed_generators(generators: Iterable[Any], seed: bytes) -> None:
    """Seed the generators that were found.

    Guarantee: what they draw from now on is a function of the seed. Generators of one kind draw the same.
    """
    for each in generators:
        _reseed(each, seed)


def _global_generators() -> list[Any]:
    """Those from which the functions of modules draw."""
    torch = sys.modules.get("torch")
    return [random._inst, np.random.mtrand._rand, *([] if torch is None else [torch.default_generator])]


def _is_source(generator: Any) -> bool:
    """Whether another generator may draw from it: then its own seed is the one that counts."""
    return isinstance(generator, np.random.BitGenerator)


def _reachable() -> Iterator[list[Any]]:
    """What containers hold, also those that the collector does not look at: they hold nothing that it would free."""
    held = gc.get_referents(*gc.get_objects())
    while held:
        yield held
        held = gc.get_referents(*(each for each in held if type(each) in (dict, tuple) and not gc.is_tracked(each)))


def _generators_among(objects: list[Any]) -> list[Any]:
    """Kinds first: there are millions of objects, of a few thousand kinds."""
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, _kinds())}
    return [each for each in objects if type(each) in kinds]


def _kinds() -> tuple[type, ...]:
    """Python's, NumPy's and torch's, of which NumPy's `Generator` only wraps one that is found as well."""
    torch = sys.modules.get("torch")
    return (
        _random.Random,
        np.random.BitGenerator,
        np.random.RandomState,
        *([] if torch is None else [torch.Generator]),
    )


def _reseed(generator: Any, seed: bytes) -> None:
    if _is_source(generator):
        generator.state = type(generator)(_number(seed)).state
    elif isinstance(generator, np.random.RandomState):
        fresh = type(generator._bit_generator)(_number(seed)).state
        generator.set_state(dict(fresh))  # of a pair of draws, none is left over
    elif hasattr(generator, "manual_seed"):
        generator.manual_seed(_number(seed))
    else:
        generator.seed(_number(seed))  # bytes would be hashed otherwise in every process


def _number(seed: bytes) -> int:
    return int.from_bytes(seed[:8], "little") >> 1
