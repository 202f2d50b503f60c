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

from ..core.grid import Floats

_TAG = b"soundsmooth row v1"


def find_generators() -> list[Any]:
    """The generators that objects hold, as far as the garbage collector can reach; not one that only C code holds."""
    kinds = _kinds()
    return list({id(each): each for each in _reachable() if issubclass(type(each), kinds)}.values())


def seed_generators(held: Iterable[Any], row: Floats) -> None:
    """Seed these generators and the global ones of Python, NumPy and torch from the row.

    Guarantee: what they draw from now on is a function of the row's bits. Generators of one kind draw the same.
    """
    seed = hashlib.sha256(_TAG + np.ascontiguousarray(row).tobytes()).digest()
    _reseed(random, seed)
    np.random.seed(np.frombuffer(seed, np.uint32))
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(_number(seed))
    for each in held:
        _reseed(each, seed)


def _reachable() -> Iterator[object]:
    """What containers hold, also those that the collector does not look at: they hold nothing that it would free."""
    for holder in gc.get_objects():
        held = gc.get_referents(holder)
        while held:
            each = held.pop()
            yield each
            if type(each) in (dict, tuple) and not gc.is_tracked(each):
                held += gc.get_referents(each)


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
    if isinstance(generator, np.random.BitGenerator):
        generator.state = type(generator)(_number(seed)).state
    elif isinstance(generator, np.random.RandomState):
        generator.seed(np.frombuffer(seed, np.uint32))
    elif hasattr(generator, "manual_seed"):
        generator.manual_seed(_number(seed))
    else:
        generator.seed(_number(seed))  # bytes would be hashed otherwise in every process


def _number(seed: bytes) -> int:
    return int.from_bytes(seed[:8], "little") >> 1
