"""The witness by itself: what it costs, and that it sees any row that any other row looks at."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from soundsmooth.independence.proof.values import Unproved, Value
from soundsmooth.independence.proof.witness import LOOKED_AT, ROWS, Part, Subject, disagreement

Array = npt.NDArray[Any]


def watched(
    scores: Callable[[Array], Array], fixed: bool = False, rows: int = 100, kept: list[Array] | None = None
) -> list[Array]:
    """All batches that a graph of one value gets, watched or not; Unproved if the witness disagrees."""
    given, kept = list[Array](), [] if kept is None else kept

    def votes(batch: Array) -> Array:
        given.append(batch)
        return scores(batch)

    def values(batch: Array, parts: Mapping[str, Part]) -> Mapping[str, Array]:
        kept.append(parts["scores"](votes(batch)))
        return {"scores": kept[-1]}

    def claims(size: int) -> Mapping[str, Value]:
        return {"scores": Value(sums(np.zeros((size, 2, 3), np.float32)).shape, 0)}

    disagreement(Subject(claims, values, votes, "scores"), (2, 3), rows, fixed)
    return given


def sums(batch: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.nansum(batch, axis=(1, 2), keepdims=True)[:, 0], np.float32)


def test_it_takes_at_most_forty_passes_of_a_row() -> None:
    given = watched(sums)
    assert sum(map(len, given)) == 39
    assert {len(batch) for batch in given} == {1, ROWS, 5}


def test_other_rows_are_replaced_by_all_kinds_of_numbers() -> None:
    together = np.concatenate(watched(sums)).ravel()
    sizes = np.abs(together[np.isfinite(together)])
    assert np.isnan(together).any()
    assert np.isinf(together).any()
    assert (sizes > 1e29).any()
    assert ((sizes > 0) & (sizes < np.finfo(np.float32).tiny)).any()


@pytest.mark.parametrize("rows", [ROWS, 2, 4, 9, 26])
def test_any_row_that_sees_any_other_is_found(rows: int) -> None:
    """Only row `one` looks, only at row `other`, and only at batches of this size."""
    for one in range(rows):
        for other in set(range(rows)) - {one}:

            def spies(batch: Array, one: int = one, other: int = other) -> Array:
                found = sums(batch)
                if len(batch) == rows:
                    found[one] += batch[other, 0, 0]
                return found

            with pytest.raises(Unproved, match="other rows"):
                watched(spies, fixed=rows != ROWS, rows=rows)


def test_few_rows_of_a_large_batch_are_kept() -> None:
    """A graph for batches of 500 has 500 rows of every value. The first and the last are among those that are kept."""
    kept: list[Array] = []
    given = watched(sums, fixed=True, rows=500, kept=kept)
    assert {len(batch) for batch in given} == {500}
    assert {part.shape[1] for part in kept} == {LOOKED_AT}
    np.testing.assert_array_equal(kept[0].ravel()[[0, -1]], sums(given[0])[[0, -1]].ravel())


@pytest.mark.parametrize("wrong", ["sees the row before", "sees its position"])
def test_a_large_batch_whose_rows_see_others_is_found(wrong: str) -> None:
    def spies(batch: Array) -> Array:
        found = sums(batch)
        return found + (np.roll(found, 1, axis=0) if wrong == "sees the row before" else np.arange(len(batch))[:, None])

    with pytest.raises(Unproved, match="other rows" if wrong == "sees the row before" else "its position"):
        watched(spies, fixed=True, rows=500)


def test_a_graph_with_state_is_found() -> None:
    calls: list[int] = []

    def counts(batch: Array) -> Array:
        calls.append(len(batch))
        return sums(batch) + np.float32(len(calls) > 12)

    with pytest.raises(Unproved, match="witness"):
        watched(counts)
