"""The witness by itself: what it costs, and that it sees any row that any other row looks at."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from soundsmooth.independence.proof.values import Unproved, Value
from soundsmooth.independence.proof.witness import LOOKED_AT, ROWS, Part, Subject, disagreement

Array = npt.NDArray[Any]


def watched(scores: Callable[[Array], Array], fixed: bool = False, rows: int = 100) -> list[Array]:
    """All batches that a graph of one value gets, watched or not; Unproved if the witness disagrees."""
    given: list[Array] = []

    def votes(batch: Array) -> Array:
        given.append(batch)
        return scores(batch)

    def values(batch: Array, parts: Mapping[str, Part]) -> Mapping[str, Array]:
        return {"scores": parts["scores"](votes(batch))}

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


def two_values(
    inner: Callable[[Array], Array],
    rows: int = 500,
    votes: Callable[[Array], Array] = sums,
    claim: Value | None = None,
) -> list[Array]:
    """The parts that are kept of a value that does not vote, of a graph for one batch size."""
    kept: list[Array] = []

    def values(batch: Array, parts: Mapping[str, Part]) -> Mapping[str, Array]:
        kept.append(parts["inner"](inner(batch)))
        return {"inner": kept[-1], "scores": parts["scores"](sums(batch))}

    claims = {"inner": claim or Value((rows, 1), 0), "scores": Value((rows, 1), 0)}
    disagreement(Subject(lambda size: claims, values, votes, "scores"), (2, 3), rows, fixed=True)
    return kept


def test_few_rows_of_a_large_batch_are_kept() -> None:
    """A graph for batches of 500 has 500 rows of every value."""
    assert {part.shape[1] for part in two_values(sums)} == {LOOKED_AT} == {8}


@pytest.mark.parametrize("distance", [1, 2, -1])
def test_a_row_of_a_large_batch_that_sees_another_is_found(distance: int) -> None:
    for rows in range(27, 400):
        with pytest.raises(Unproved, match="other rows"):
            watched(lambda batch: sums(batch) + np.roll(sums(batch), distance, axis=0), fixed=True, rows=rows)


@pytest.mark.parametrize("window", [range(128, 256), range(400, 401), range(8, 500, 16)])
def test_places_of_a_large_batch_that_have_other_scores_are_found(window: range) -> None:
    def placed(batch: Array) -> Array:
        found = sums(batch)
        found[list(window)] += 1000
        return found

    with pytest.raises(Unproved, match="its position"):
        watched(placed, fixed=True, rows=500)


def test_in_values_that_do_not_vote_many_mistakes_are_found() -> None:
    """All rows see others, or one half of the places is another than the other."""
    with pytest.raises(Unproved, match="other rows"):
        two_values(lambda batch: sums(batch) + sums(batch).sum(dtype=np.float32))
    with pytest.raises(Unproved, match="its position"):
        two_values(lambda batch: sums(batch) + np.float32(1000) * (np.arange(len(batch))[:, None] < 250))


def test_a_vote_that_nobody_watches_is_compared_in_every_row() -> None:
    def votes(batch: Array) -> Array:
        found = sums(batch)
        found[77] += 1
        return found

    with pytest.raises(Unproved, match="while it is watched"):
        two_values(sums, votes=votes)


def test_constants_are_those_that_the_argument_has_read() -> None:
    read = np.arange(4, dtype=np.float32)
    claim = Value((4,), None, entries=read)
    two_values(lambda batch: read, claim=claim)
    for wrong, why in ((read + 1, "other entries"), (read[:3], "shape")):
        with pytest.raises(Unproved, match=why):
            two_values(lambda batch, wrong=wrong: wrong, claim=claim)
    calls: list[int] = []
    with pytest.raises(Unproved, match="changed with the batch"):
        two_values(lambda batch: calls.append(1) or read + len(calls), claim=Value((4,), None))


def test_a_graph_with_state_is_found() -> None:
    calls: list[int] = []

    def counts(batch: Array) -> Array:
        calls.append(len(batch))
        return sums(batch) + np.float32(len(calls) > 12)

    with pytest.raises(Unproved, match="witness"):
        watched(counts)
