"""The second witness: the graph that votes is run, and what the argument claims is compared with what comes out.

It is a test beside the argument, and proves nothing by itself: a graph may behave on a few small batches. It is there
because the argument's rules are our own words for what operators do, and a mistake in one of them would go unnoticed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt

from .values import Shape, Unproved, Value

Array = npt.NDArray[Any]
#: The size of most batches; and sizes for one more batch: the first that is no other extent in the graph.
ROWS, OTHERS = 3, (5, 4, 2, 7, 11, 13)
#: Up to so many rows each is kept once, alone; up to so many, halves tell any two rows apart.
FEW, SEVERAL = 4, 26
#: Of more rows, which only a graph for one batch size has, so many are looked at in values that do not vote: all would
#: fill the memory.
LOOKED_AT = 8
#: What is kept of one value, an array or a tensor: the same rows of each, or all of a constant.
Part = Callable[[Any], Any]


@dataclass(frozen=True)
class Subject:
    """A graph that is to be watched."""

    claims: Callable[[int], Mapping[str, Value]]
    """What the argument claims of the values that the graph computes, at a batch size; Unproved if it has no proof
    there."""
    values: Callable[[Array, Mapping[str, Part]], Mapping[str, Array]]
    """The parts of values that the graph computes on its way, by name, for a batch; a ValueError if it does not take
    the batch."""
    votes: Callable[[Array], Array]
    """The output of the graph as it votes, which nobody watches."""
    output: str
    epsilon: float = 0.0
    """The unit of rounding, where it is larger than that of the numbers' type."""


def disagreement(subject: Subject, shape: Shape, batch: int, fixed: bool) -> None:
    """Unproved if a value was seen to differ from what is claimed of it, or if there is no proof at a batch size.

    Where other rows are replaced, by NaN and infinities too, a row's own entries stay the same, bit by bit, in every
    value; at other positions and in batches of another size they are the same up to rounding. Constants never change.
    Integers are compared exactly. `fixed` if the graph takes batches of one size only.
    """
    for found in _findings(subject, shape, batch, fixed):
        if found is not None:
            raise Unproved(f"the witness disagrees: {found}")


def _findings(subject: Subject, shape: Shape, batch: int, fixed: bool) -> Iterator[str | None]:
    rng = np.random.default_rng(0)
    rows = batch if fixed else ROWS
    every, parts, first = np.arange(rows), list(_kept(rows)), _rows(rng, rows, shape)
    claims, looked = subject.claims(rows), _looked(parts)
    base = _SeenRun(subject, first, claims, looked)
    yield base.as_claimed() or base.voted_alike()
    kinds = cycle(STRANGE)
    for number, kept in enumerate(parts):
        same, other = every[kept], _replaced(rng, first, kept, kinds)
        yield _SeenRun(subject, other, claims, looked).same_rows(base, same, same, exact=True, voted=number == 0)
    # Again, after others: no state.
    yield _SeenRun(subject, first, claims, looked).same_rows(base, every, every, exact=True, voted=True)
    turn = 1 if rows <= SEVERAL else rows // 2 + 1
    turned = np.roll(every, turn)
    moved = _SeenRun(subject, first[turned], claims, (looked + turn) % rows)
    yield moved.same_rows(base, every, turned, exact=False)
    for size in () if fixed else (1, _unusual(claims)):
        drawn = np.arange(size) % rows
        unusual = _SeenRun(subject, first[drawn], subject.claims(size), np.arange(size))
        yield unusual.same_rows(base, np.arange(size), drawn, exact=False, voted=True)


def _rows(rng: np.random.Generator, rows: int, shape: Shape) -> npt.NDArray[np.float32]:
    """Noisy images: of small, of ordinary and of large noise in turn."""
    noise = rng.standard_normal((rows, *shape)) * np.resize([0.25, 1.0, 30.0], rows).reshape(-1, *[1] * len(shape))
    return np.asarray(0.5 + noise, np.float32)


#: What rows are replaced by: other noise, NaN, infinite and huge numbers, numbers too small to be normal.
STRANGE: tuple[Callable[[Array], Array], ...] = (
    lambda noise: noise * 100,
    lambda noise: np.full_like(noise, np.nan),
    lambda noise: np.where(noise > 1, np.inf, np.where(noise < -1, -np.inf, noise * 1e30)),
    lambda noise: noise * 1e-40,
)


def _replaced(rng: np.random.Generator, first: Array, kept: Array, kinds: Iterator[Callable[[Array], Array]]) -> Array:
    """The batch with all rows that are not kept replaced, each by the next kind of strange numbers."""
    found = first.copy()
    with np.errstate(all="ignore"):
        for row in np.flatnonzero(~kept):
            found[row] = next(kinds)(rng.standard_normal(first.shape[1:]))
    return found


def _kept(rows: int) -> Iterator[npt.NDArray[np.bool_]]:
    """Which rows are kept: of any two, each is kept once while the other is replaced. Many rows: halves at random."""
    if rows <= FEW:
        yield from np.eye(rows, dtype=bool)
    elif rows <= SEVERAL:
        for bit in range((rows - 1).bit_length()):
            chosen = (np.arange(rows) >> bit & 1).astype(bool)
            yield from (chosen, ~chosen)
    else:
        half = np.random.default_rng(1).permutation(rows) < rows // 2
        yield from (half, ~half)


def _looked(parts: list[npt.NDArray[np.bool_]]) -> npt.NDArray[np.int64]:
    """The rows that are looked at in every value: all, or some of a large batch, as many in either half."""
    kept = parts[0]
    if len(kept) <= SEVERAL:
        return np.arange(len(kept))
    halves = [np.flatnonzero(half) for half in (kept, ~kept)]
    return np.concatenate([half[np.linspace(0, len(half) - 1, LOOKED_AT // 2).astype(int)] for half in halves])


def _unusual(claims: Mapping[str, Value]) -> int:
    extents = {extent for claim in claims.values() for extent in claim.shape}
    return next((size for size in OTHERS if size not in extents), OTHERS[-1])


class _SeenRun:
    """One batch: what came out, in the rows that are looked at, and what is claimed of it. The output votes, so all of
    its rows are looked at.
    """

    def __init__(self, subject: Subject, batch: Array, claims: Mapping[str, Value], looked: Array) -> None:
        self._subject, self._batch, self._claims = subject, batch, claims
        self._looked = sorted(looked.tolist())
        self._values = subject.values(batch, {name: self._part(name) for name in claims})

    def _looked_at(self, name: str) -> list[int]:
        """The rows of a value that are looked at."""
        return [*range(len(self._batch))] if name == self._subject.output else self._looked

    def _part(self, name: str) -> Part:
        return partial(_part, claim=self._claims[name], rows=len(self._batch), looked=self._looked_at(name))

    def as_claimed(self) -> str | None:
        """The constants whose entries the argument has read are these."""
        for name, claim in self._claims.items():
            if claim.axis is None and claim.entries is not None and not _same_bits(self._values[name], claim.entries):
                return f"{name!r} is a constant, and has other entries than the argument has read"
        return None

    def voted_alike(self) -> str | None:
        """The graph that nobody watches gives the same output, bit by bit."""
        name = self._subject.output
        voted = self._part(name)(self._subject.votes(self._batch))
        return None if _same_bits(voted, self._values[name]) else "the graph gives another output while it is watched"

    def same_rows(self, other: "_SeenRun", here: Array, there: Array, exact: bool, voted: bool = False) -> str | None:
        """The rows `here` of every value are the rows `there` of another run, as far as they are looked at.

        Constants are the same if `exact`. With `voted` the graph that nobody watches gives the same output, too.
        """
        pairs = [*zip(here.tolist(), there.tolist(), strict=True)]
        for name, claim in self._claims.items():
            like = other._claims.get(name)
            if like is None:  # no claim is made, and none is needed for the output
                continue
            if (claim.axis is None) != (like.axis is None):
                return f"{name!r} is made of rows at one batch size and not at another"
            if claim.axis is None:
                if exact and not _same_bits(self._values[name], other._values[name]):
                    return f"{name!r} is claimed to be a constant, and changed with the batch"
                continue
            if not self._same(other, name, pairs, exact):
                seen = "other rows, or on the past" if exact else "its position or the batch size"
                return f"{name!r} is claimed to be made of rows, and a row of it was seen to depend on {seen}"
        return self.voted_alike() if voted else None

    def _same(self, other: "_SeenRun", name: str, pairs: Iterable[tuple[int, int]], exact: bool) -> bool:
        """Whether rows of one value here are rows of it there: bit by bit, or else up to rounding if not `exact`."""
        mine, theirs = self._values[name], other._values[name]
        if mine.dtype != theirs.dtype:
            return False
        rows, others = self._rows(name), other._rows(name)
        both = [_alike(rows[one], others[two]) for one, two in pairs if one in rows and two in others]
        differ = [each for each in both if not _same_bits(*each)]
        if exact or not differ:
            return not differ
        unit = _tolerance(mine, self._subject.epsilon)
        return all(_close(*each, unit) for each in differ)

    def _rows(self, name: str) -> Mapping[int, Array]:
        """The entries of each row that is looked at, without a copy."""
        axis = self._claims[name].axis
        assert axis is not None
        return dict(zip(self._looked_at(name), np.moveaxis(self._values[name], axis + 1, 0), strict=True))


def _part(value: Any, claim: Value, rows: int, looked: list[int]) -> Any:
    """The rows that are looked at, on an axis behind that of the blocks; all of a constant."""
    if tuple(value.shape) != claim.shape:
        raise Unproved(f"a value has shape {list(value.shape)}, and not [{claim}]")
    if claim.axis is None:
        return value
    before, after = claim.shape[: claim.axis], claim.shape[claim.axis + 1 :]
    split = value.reshape(*before, claim.outer, rows, claim.shape[claim.axis] // (claim.outer * rows), *after)
    return split if len(looked) == rows else split[(slice(None),) * (len(before) + 1) + (looked,)]


def _alike(one: Array, other: Array) -> tuple[Array, Array]:
    """Two rows in one shape: at another batch size the same entries may lie on other axes, in the same order."""
    return (one, other) if one.shape == other.shape else (one.ravel(), other.ravel())


def _bits(value: Array) -> Array:
    """The numbers as bits, as which NaN equals itself and 0 does not equal −0."""
    return value.view(f"u{value.dtype.itemsize}")


def _same_bits(one: Array, other: Array) -> bool:
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and np.array_equal(_bits(one), _bits(other))


def _tolerance(value: Array, epsilon: float) -> float:
    """How far a number may be off by rounding, relative to the largest one; integers not at all."""
    if value.dtype.kind != "f":
        return 0.0
    scale = float(np.abs(value[np.isfinite(value)]).max(initial=0.0))
    return 4 * float(np.sqrt(max(epsilon, np.finfo(value.dtype).eps))) * scale


def _close(one: Array, other: Array, tolerance: float) -> bool:
    """Equal up to the tolerance; integers exactly, NaN and infinities at the same places."""
    if one.dtype.kind != "f" or one.shape != other.shape:
        return np.array_equal(one, other)
    finite = np.isfinite(one)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True) or not np.isfinite(other[finite]).all():
        return False
    with np.errstate(over="ignore"):
        return bool((np.abs(one[finite] - other[finite]) <= tolerance).all())
