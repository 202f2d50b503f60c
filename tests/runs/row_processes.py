"""Rows voted alone, by processes that last: for tests in which those are not what is tested."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from soundsmooth.independence.measure import Rehearsal, RowRecheck
from soundsmooth.runs import voter, worker
from soundsmooth.smoothing.classifier import Replica
from soundsmooth.smoothing.job import VotingJob

SOME = Rehearsal(seconds=0.0, classes=1000)


class _Lasting(RowRecheck):
    """Stays open for the next run of the same model."""

    def close(self) -> None:
        pass


@contextmanager
def lasting_rows_alone() -> Iterator[None]:
    """All runs in this process ask the same fresh processes; all are of one model and one shape."""
    kept: list[_Lasting] = []

    def rows_alone(job: VotingJob, replica: Replica) -> _Lasting:
        if not kept:
            kept.append(_Lasting(job, replica))
        assert job.identity == kept[0]._job.identity
        kept[0]._job = job
        return kept[0]

    with patch.object(voter, "RowRecheck", rows_alone), patch.object(worker, "rehearse", lambda *_: SOME):
        try:
            yield
        finally:
            for each in kept:
                RowRecheck.close(each)
