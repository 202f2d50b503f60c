"""The witness by itself: what it costs, and that it sees any row that any other row looks at."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from soundsmooth.independence.proof.values import Unproved, Value
from soundsmooth.independence.proof.witness import ROWS, Subject, disagreement

Array = npt.NDArray[Any]


def watched(scores: Callable[[Array], Array], fixed: bool = False, rows: int = 100) -> list[Array]:
    """All batches that a graph of one value gets, watched or not; Unproved if the witness disagrees."""
    given: list[Array] = []

    def votes(batch: Array) -> Array:
        given.append(batch)
        return scores(batch)

    def claims(size: int, values: Mapping[str, Array]) -> Mapping[str, Value]:
        return {name: Value(value.shape, 0) for name, value in values.items()}

    disagreement(Subject(lambda batch: {"scores": votes(batch)}, votes, claims, "scores"), (2, 3), rows, fixed)
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


def test_a_graph_with_state_is_found() -> None:
    calls: list[int] = []

    def counts(batch: Array) -> Array:
        calls.append(len(batch))
        return sums(batch) + np.float32(len(calls) > 12)

    with pytest.raises(Unproved, match="witness"):
        watched(counts)
