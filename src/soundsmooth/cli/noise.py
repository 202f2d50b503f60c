"""`soundsmooth noise`: raw noise for outside checks."""

from math import prod
from pathlib import Path

import numpy as np

from ..core.grid import Grid
from ..core.machine import check_memory
from ..noise import Gaussian, Keystream, Purpose, Sampler
from ..noise.keystream import check_room
from ..runs.output import check_new_file


def write_noise(
    key: str,
    sigma: str,
    k: str,
    shape: str,
    stream: int,
    purpose: str,
    first: int,
    levels: int,
    q: int,
    threads: int | None,
    out: Path,
) -> None:
    """Write T of the copies first, first + 1, … as an int16 array of the given shape."""
    copies, *inner = _shape(shape)
    sampler = Sampler(Gaussian(sigma, k, Grid(levels, q)), threads)
    bits = Keystream(_key(key), _purpose(purpose), stream)
    check_room(first, copies, prod(inner))
    check_memory(2 * copies * prod(inner), "the noise", "ask for fewer copies")
    check_new_file(out, (".npy",))
    noise = sampler.noise(bits, first, copies, prod(inner))
    with out.open("wb") as file:
        np.save(file, noise.levels.reshape(copies, *inner))


def _shape(text: str) -> list[int]:
    try:
        shape = [int(part) for part in text.split(",")]
    except ValueError:
        shape = []
    if len(shape) < 2 or min(shape) < 1:
        raise ValueError(f"shape is the number of copies and the input's shape, such as 8,3,32,32, not {text!r}")
    return shape


def _key(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"the key must be 64 hexadecimal digits, not {text!r}") from None


def _purpose(name: str) -> Purpose:
    try:
        return Purpose[name.upper()]
    except KeyError:
        raise ValueError(f"purpose must be selection, estimation or prediction, not {name!r}") from None
