"""H_A: is this noisy copy an image of the set A plus some float? Exactly the paper's function, early-out and in bulk.

G_a(x) = 1 iff (x_i ⊖ a_i) ⊕ a_i = x_i in every coordinate i; H_A(x) = 1 iff G_a(x) = 1 for some a in A. Each coordinate
is a test that nearly all copies of a itself pass, and that others fail now and then. Which one tells most depends on
the copy: where |x_i| is tiny, its last bits are lost in x_i ⊖ a_i for nearly every a_i; where a_i is black, or x_i is
0, nothing is ever lost. So each copy is first tested where it is nearest to 0, among the coordinates that are seldom
black in A; the candidates that are left (most of them nearly black) are tested where they themselves are brightest;
and the few that are left then are tested in full.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from .certifiers import Array, values

#: The coordinates that are least often black in A, among which each copy's tests are chosen.
TELLING = 128
#: How many single tests, chosen by the copy, come first.
TESTS = 12
#: How many tests, chosen by the candidate, come next, and how many of these at a time.
BRIGHTEST, AT_ONCE = 48, 8
#: Copies, or candidates of a full test, that are handled together: what they need should fit the processor's cache.
BLOCK = 512

Indices = npt.NDArray[np.int64]
Pairs = tuple[Indices, Indices]


class RememberedImages:
    """A set A of images (as levels), remembered in one precision, in which all arithmetic is done."""

    def __init__(self, images: Array, dtype: np.dtype[Any]) -> None:
        if not len(images):
            raise ValueError("there are no images to remember")
        levels = images.reshape(len(images), -1)
        self._rows = values(levels, dtype)
        self._columns = np.ascontiguousarray(self._rows.T)
        seldom_black = np.argsort((levels == 0).sum(axis=0), kind="stable")
        self._telling = seldom_black[:TELLING]
        self._brightest = np.argsort(-levels.astype(np.int64), axis=1, kind="stable")[:, :BRIGHTEST]

    def owners(self, batch: Array) -> Indices:
        """For each copy x the first a in A, by number, with G_a(x) = 1; −1 where H_A(x) = 0."""
        flat = batch.reshape(len(batch), self._rows.shape[1])
        blocks = [self._owners(flat[i : i + BLOCK]) for i in range(0, len(flat), BLOCK)]
        return np.concatenate([np.zeros(0, np.int64), *blocks])

    def _owners(self, x: Array) -> Indices:
        copies, candidates = self._brightest_passed(x, *self._nearest_passed(x))
        passed = self._in_full(x, copies, candidates)
        owners = np.full(len(x), -1, np.int64)
        found, first = np.unique(copies[passed], return_index=True)  # pairs are in order: the first is the lowest
        owners[found] = candidates[passed][first]
        return owners

    def _nearest_passed(self, x: Array) -> Pairs:
        """The pairs of a copy and a candidate that pass where the copy is nearest to 0."""
        tests = self._where_nearest_to_zero(x)
        at, a = x[np.arange(len(x)), tests[0]][:, None], self._columns[tests[0]]
        copies, candidates = np.nonzero((at - a) + a == at)
        for test in tests[1:]:
            where = test[copies]
            at, a = x[copies, where], self._columns[where, candidates]
            passed = (at - a) + a == at
            copies, candidates = copies[passed], candidates[passed]
        return copies, candidates

    def _brightest_passed(self, x: Array, copies: Indices, candidates: Indices) -> Pairs:
        """Those that pass where the candidate is brightest."""
        for i in range(0, BRIGHTEST, AT_ONCE):
            where = self._brightest[candidates, i : i + AT_ONCE]
            at, a = x[copies[:, None], where], self._rows[candidates[:, None], where]
            passed = ((at - a) + a == at).all(axis=1)
            copies, candidates = copies[passed], candidates[passed]
        return copies, candidates

    def _where_nearest_to_zero(self, x: Array) -> Indices:
        """[tests, copies]: coordinates of each copy, those first in which it is nearest to 0, but not 0."""
        size = np.abs(x[:, self._telling].astype(np.float32))
        size[size == 0] = np.inf
        return self._telling[np.argsort(size, axis=1)[:, :TESTS]].T

    def _in_full(self, x: Array, copies: Indices, candidates: Indices) -> npt.NDArray[np.bool_]:
        """G_a(x) for pairs of a copy and a candidate."""
        passed = np.zeros(len(copies), np.bool_)
        for i in range(0, len(copies), BLOCK):
            at, a = x[copies[i : i + BLOCK]], self._rows[candidates[i : i + BLOCK]]
            passed[i : i + BLOCK] = ((at - a) + a == at).all(axis=1)
        return passed
