"""The fast sampler: NumPy on all cores, bit for bit the noise of the specification."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import local
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..core.grid import Floats, Levels
from ..core.limits import thread_count
from ..core.machine import check_memory, cores
from .decide import decide
from .keystream import Words, check_room
from .law import Law
from .tables import CELL_BITS, OPEN, tables

#: Elements that one thread works on at a time. Smaller blocks lose to the overhead of the NumPy calls (and to
#: threads that wait for each other's interpreter lock), larger ones to the cache.
BLOCK = 1 << 18
#: Fewer elements than this are not worth a second thread.
FEW = 1 << 17


class Bits(Protocol):
    """Where the words come from: a `Keystream`, or in tests a replayed one."""

    def first_words(self, first: int, out: Words) -> None: ...
    def later_word(self, level: int, element: int) -> int: ...


@dataclass(frozen=True)
class Noise:
    """The noise of consecutive copies: one row of levels per copy, before the input is added.

    A lost copy (an element undecided after the last level of bits) holds OPEN there and votes for nobody.
    """

    levels: Any
    """int16, in NumPy or on a GPU."""
    lost: tuple[int, ...]
    doubt: Any = None
    """A flag on the GPU: if it turns out positive, this must be made again with `sure`."""


@dataclass(frozen=True)
class Noisy:
    """Noisy copies of one input as the model sees them; lost copies vote for nobody."""

    values: Any
    """float32 in NumPy, or what the model's place asks for on a GPU."""
    lost: tuple[int, ...]
    doubt: Any = None
    """As for `Noise`."""


@dataclass(frozen=True)
class _Piece:
    """A rectangle of the (copies × coordinates) matrix that is contiguous in the stream."""

    rows: slice
    columns: slice
    first: int


class _Scratch(local):
    """Each thread's own memory, kept between calls."""

    def __init__(self) -> None:
        self.words = np.empty(BLOCK, np.uint32)
        self.cells = np.empty(BLOCK, np.intp)
        self.noise = np.empty(BLOCK, np.int16)


class Sampler:
    """Draws from a law on `threads` threads (default: all cores).

    Guarantee: element e = i·D + c of copy i and coordinate c gets T(U) for its own bits of the stream,
    whatever the batch split, the block size or the number of threads.
    """

    def __init__(self, law: Law, threads: int | None = None) -> None:
        self.law = law
        self._tables = tables(law)
        self._scratch = _Scratch()
        self._threads = thread_count(threads) or cores()
        self._pools: dict[int, ThreadPoolExecutor] = {}

    def noise(self, bits: Bits, first: int, copies: int, dimension: int, sure: bool = True) -> Noise:
        """The noise of the copies first, …, first + copies − 1 of a stream with `dimension` coordinates.

        Guarantee: the one of the class; values in [−reach, reach]. This sampler is always `sure`.
        """
        check_room(first, copies, dimension)
        out = np.empty((copies, dimension), np.int16)

        def fill(piece: _Piece) -> list[int]:
            target = out[piece.rows, piece.columns].reshape(-1)  # contiguous, so this is a view
            return self._levels(bits, piece.first, target)

        lost = self._run(fill, first, copies, dimension)
        out.setflags(write=False)
        return Noise(out, lost)

    def noisy(self, bits: Bits, x: Levels, first: int, copies: int, sure: bool = True) -> Noisy:
        """Noisy copies of the levels x: clamp(x + T) as float32, in one pass through the cache.

        Guarantee: row i is the float32 nearest to the value of clamp(x + T) for copy first + i, in an
        array of its own that nothing else refers to.
        """

        def draw(piece: _Piece, scratch: Levels) -> list[int]:
            return self._levels(bits, piece.first, scratch.reshape(-1))

        return self._add(draw, x, first, copies)

    def add(self, noise: Noise, x: Levels) -> Noisy:
        """Noisy copies of x from noise that was drawn before and is used again, for another input.

        Guarantee: as for `noisy`; the noise itself stays as it is.
        """

        if noise.levels.shape[1] != x.size:
            raise ValueError(f"noise for {noise.levels.shape[1]} coordinates does not fit an input of {x.size}")

        def reuse(piece: _Piece, scratch: Levels) -> list[int]:
            np.copyto(scratch, noise.levels[piece.rows, piece.columns])
            return []

        return Noisy(self._add(reuse, x, 0, len(noise.levels)).values, noise.lost)

    def values(self, levels: Levels) -> Floats:
        """Inputs [count, …] without noise, as the model reads them: the float of each level.

        Guarantee: the floats that `noisy` gives where the noise is 0, in memory of its own.
        """
        return self.law.grid.values(levels)

    def check_memory(self, needed: int, what: str, advice: str) -> None:
        """A ValueError for what does not fit into the memory that noise is made in."""
        check_memory(needed, what, advice)

    def _add(self, draw: Callable[[_Piece, Levels], list[int]], x: Levels, first: int, copies: int) -> Noisy:
        check_room(first, copies, x.size)
        out = np.empty((copies, x.size), np.float32)
        flat = x.reshape(-1)

        def fill(piece: _Piece) -> list[int]:
            target = out[piece.rows, piece.columns]
            noise = self._scratch.noise[: target.size].reshape(target.shape)
            lost = draw(piece, noise)
            add_clamp_scale(self.law, noise, flat[piece.columns], target)
            return lost

        lost = self._run(fill, first, copies, x.size)
        return Noisy(out.reshape(copies, *x.shape), lost)

    def _run(self, fill: Callable[[_Piece], list[int]], first: int, copies: int, dimension: int) -> tuple[int, ...]:
        """Fill all pieces, in parallel; returns the lost rows."""
        pieces = list(_pieces(first, copies, dimension, self._threads))
        run = map if self._threads == 1 or len(pieces) == 1 else self._pool().map
        lost = [element for found in run(fill, pieces) for element in found]
        return tuple(sorted({element // dimension - first for element in lost}))

    def _pool(self) -> ThreadPoolExecutor:
        """The threads of this process: one that was forked has none of its parent's, and would wait for ever."""
        mine = os.getpid()
        if mine not in self._pools:
            self._pools = {mine: ThreadPoolExecutor(self._threads, "noise")}
        return self._pools[mine]

    def _levels(self, bits: Bits, first: int, out: Levels) -> list[int]:
        """Write the noise of consecutive elements into `out`; returns the elements that stay undecided."""
        table = self._tables
        words, cells = self._scratch.words[: out.size], self._scratch.cells[: out.size]
        bits.first_words(first, words)
        np.right_shift(words, CELL_BITS, out=cells, casting="unsafe")
        np.take(table.guide, cells, out=out, mode="clip")  # "clip" only skips the bounds check
        at = np.flatnonzero(out == OPEN)
        if not at.size:
            return []
        word, cell = words.take(at), cells.take(at)
        threshold, level = table.threshold.take(cell), table.below.take(cell)
        crowded = level == OPEN
        level += word > threshold
        out[at] = level
        hard = np.flatnonzero(crowded | (word == threshold))
        return self._search(bits, first, out, at[hard], word[hard]) if hard.size else []

    def _search(self, bits: Bits, first: int, out: Levels, at: npt.NDArray[np.intp], word: Words) -> list[int]:
        """The words that their cell does not settle: count the breakpoints below, or draw more bits."""
        passed = np.searchsorted(self._tables.words, word, side="right")
        out[at] = passed - self.law.reach
        tied = self._tables.words[np.maximum(passed, 1) - 1] == word
        lost = []
        for i, w in zip(at[tied], word[tied], strict=True):
            level = self._decide(bits, first + int(i), int(w))
            out[i] = OPEN if level is None else level
            if level is None:
                lost.append(first + int(i))
        return lost

    def _decide(self, bits: Bits, element: int, first_word: int) -> int | None:
        """One element whose first word equals a breakpoint's: read on, word by word."""
        return decide(self.law, lambda level: bits.later_word(level, element) if level else first_word)


def add_clamp_scale(law: Law, noise: Levels, x: Levels, out: Floats) -> None:
    """out = value of clamp(x + noise), all in integers until one last correctly rounded step.

    Overwrites `noise`. OPEN (a lost element) is clamped like any other; its copy's vote is dropped.

    Guarantee: out depends on the clamped level alone; int16 holds every sum, since K + 2(L−1) ≤ 32 767.
    """
    np.add(noise, x, out=noise)
    np.clip(noise, np.int16(law.lowest), np.int16(law.highest), out=noise)
    law.grid.write_values(noise, out)


def _pieces(first: int, copies: int, dimension: int, threads: int) -> Iterator[_Piece]:
    """Whole rows while they fit a block, else parts of one row; one piece per thread where that pays."""
    if dimension <= BLOCK:
        shares = min(threads, copies, copies * dimension // FEW)
        count = max(1, shares, -(-copies // (BLOCK // dimension)))
        for i in range(count):
            a, b = copies * i // count, copies * (i + 1) // count
            yield _Piece(slice(a, b), slice(0, dimension), (first + a) * dimension)
    else:
        for row in range(copies):
            for a in range(0, dimension, BLOCK):
                yield _Piece(slice(row, row + 1), slice(a, min(a + BLOCK, dimension)), (first + row) * dimension + a)
