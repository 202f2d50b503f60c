"""The second witness: the graph that votes is run, and what the argument claims is compared with what comes out.

It is a test beside the argument, and proves nothing by itself: a graph may behave on a few small batches. It is there
because the argument's rules are our own words for what operators do, and a mistake in one of them would go unnoticed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Subject:
    """A graph that is to be watched."""

    values: Callable[[Array], Mapping[str, Array]]
    """Every value that the graph computes on its way, by name, for a batch; a ValueError if it does not take it."""
    votes: Callable[[Array], Array]
    """The output of the graph as it votes, which nobody watches."""
    claims: Callable[[int, Mapping[str, Array]], Mapping[str, Value]]
    """What the argument claims of these values at a batch size; Unproved if it has no proof there."""
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
    every, first = np.arange(rows), _rows(rng, rows, shape)
    base = _SeenRun(subject, first)
    yield base.voted_alike()
    kinds = cycle(STRANGE)
    for number, kept in enumerate(_kept(rows)):
        other = _replaced(rng, first, kept, kinds)
        same = np.flatnonzero(kept)
        yield _SeenRun(subject, other).same_rows(base, same, same, exact=True, voted=number == 0)
    # Again, after others: no state.
    yield _SeenRun(subject, first).same_rows(base, every, every, exact=True, voted=True)
    turned = np.roll(every, 1)
    yield _SeenRun(subject, first[turned]).same_rows(base, every, turned, exact=False)
    for size in () if fixed else (1, _unusual(base)):
        drawn = np.arange(size) % rows
        yield _SeenRun(subject, first[drawn]).same_rows(base, np.arange(size), drawn, exact=False, voted=True)


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


def _unusual(base: "_SeenRun") -> int:
    extents = {extent for value in base.values.values() for extent in value.shape}
    return next((size for size in OTHERS if size not in extents), OTHERS[-1])


class _SeenRun:
    """One batch: what came out, and what is claimed of it."""

    def __init__(self, subject: Subject, batch: Array) -> None:
        self._subject, self._batch = subject, batch
        self.values = subject.values(batch)
        self.claims = subject.claims(len(batch), self.values)

    def voted_alike(self) -> str | None:
        """The graph that nobody watches gives the same output, bit by bit."""
        voted, watched = self._subject.votes(self._batch), self.values[self._subject.output]
        return None if _same_bits(voted, watched) else "the graph gives another output while it is watched"

    def same_rows(self, other: "_SeenRun", here: Array, there: Array, exact: bool, voted: bool = False) -> str | None:
        """The rows `here` of every value are the rows `there` of another run; constants are the same if `exact`.

        With `voted` the graph that nobody watches gives the same output, too.
        """
        for name, claim in self.claims.items():
            like = other.claims.get(name)
            if like is None:  # no claim is made, and none is needed for the output
                continue
            if (claim.axis is None) != (like.axis is None):
                return f"{name!r} is made of rows at one batch size and not at another"
            if claim.axis is None:
                if exact and not _same_bits(self.values[name], other.values[name]):
                    return f"{name!r} is claimed to be a constant, and changed with the batch"
                continue
            if not self._same(other, name, claim, like, zip(here, there, strict=True), exact):
                seen = "other rows, or on the past" if exact else "its position or the batch size"
                return f"{name!r} is claimed to be made of rows, and a row of it was seen to depend on {seen}"
        return self.voted_alike() if voted else None

    def _same(
        self, other: "_SeenRun", name: str, claim: Value, like: Value, pairs: Iterable[tuple[int, int]], exact: bool
    ) -> bool:
        """Whether rows of one value here are rows of it there: bit by bit, or else up to rounding if not `exact`."""
        mine, theirs = self.values[name], other.values[name]
        if mine.dtype != theirs.dtype:
            return False
        bits = _by_row(_bits(mine), claim, len(self._batch)), _by_row(_bits(theirs), like, len(other._batch))
        differ = [(one, two) for one, two in pairs if not np.array_equal(*_alike(bits[0][one], bits[1][two]))]
        if exact or not differ:
            return not differ
        rows = _by_row(mine, claim, len(self._batch)), _by_row(theirs, like, len(other._batch))
        unit = _tolerance(mine, self._subject.epsilon)
        return all(_close(*_alike(rows[0][one], rows[1][two]), unit) for one, two in differ)


def _by_row(value: Array, claim: Value, rows: int) -> Array:
    """The entries of each row, without a copy."""
    assert claim.axis is not None
    if value.shape != claim.shape:
        raise Unproved(f"a value has shape {list(value.shape)}, and not [{claim}]")
    before, after = value.shape[: claim.axis], value.shape[claim.axis + 1 :]
    split = value.reshape(*before, claim.outer, rows, -1, *after)
    return np.moveaxis(split, len(before) + 1, 0)


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
