"""Independence, measured: rows of the real batches are voted again, alone (docs/independence.md, "Measured")."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..certificate import Certificate
from ..certify import Measurement, ModelChangedError, Progress, Voting, sample_under_noise, verdict
from ..grid import Levels
from ..models.alone import Alone
from ..models.protocol import rows_again
from ..noise import SHARED_STREAM, Purpose, Sampler
from ..noise.sources import FreshNoise, Source
from ..settings import Settings
from .blocks import BlockVotes, Casting, block_size, vote_blocks

if TYPE_CHECKING:
    from .engine import Run, Worker


def check_measurable(settings: Settings) -> None:
    """Refuse, before the first draw, what a measurement does not go with."""
    if settings.bound != "clopper-pearson":
        raise ValueError(f'measured independence goes with bound="clopper-pearson", not with {settings.bound!r}')
    if settings.noise == "batchwise":
        raise ValueError('measured independence goes with noise="fresh" or "shared", not with "batchwise"')


def certify_measured(run: "Run", worker: "Worker", places: Iterable[int], progress: Progress) -> Iterator[Certificate]:
    """Input by input: the votes first, then some of them again.

    Guarantee: each certificate is for the classifier that sees one row at a time in a process of its own, and false
    with probability at most α over the key and the choice of the rows, whatever the model does with its batches.
    """
    with Alone(worker.model.recipe()) as alone:
        noise, sampler = run.noise(worker), Sampler(run.smoothing.law, 1)
        alone.try_out(run.smoothing.law.grid.values(run.inputs.levels[0]))
        for place in places:
            start, x, settings = time.perf_counter(), run.inputs.levels[place], run.settings
            voting = run.voting(worker)
            counts0 = sample_under_noise(voting, noise(place), x, Purpose.SELECTION, settings.n0, progress)
            votes = _votes(voting, noise(place), x, settings, progress)
            run.check_model(worker, worker.model.changes())
            hits, source = votes.labels == counts0.top, _source(run, sampler, place)
            again = measure(alone, source, x, hits, counts0.top, _rows(run, place))
            found = verdict(counts0, votes.counts, run.smoothing.law.sigma, settings, again)
            yield run.record(place, found, counts0, votes.counts, time.perf_counter() - start, again)


def measure(
    alone: Alone, noise: Source, x: Levels, hits: npt.NDArray[np.bool_], label: int, rows: Sequence[int]
) -> Measurement:
    """Vote the rows again and count those that were hits in their batch and are none alone.

    A row that was no hit cannot be lost, and one that was drawn twice is voted once and counts twice.
    """
    doubtful = sorted({row for row in rows if hits[row]})
    copies = (noise.noisy(Purpose.ESTIMATION, x, row, 1, sure=True) for row in doubtful)
    votes = alone.votes(values for noisy in copies for values in noisy.values)
    lost = {row for row, vote in zip(doubtful, votes, strict=True) if vote != label}
    return Measurement(len(rows), sum(row in lost for row in rows))


def _votes(voting: Voting, noise: Source, x: Levels, settings: Settings, progress: Progress) -> BlockVotes:
    """Who voted for whom, copy by copy, of the copies for estimation."""
    batch = voting.batch_for(settings.n)
    size = block_size(settings, batch, x.size)
    parts = []
    for block in vote_blocks(settings, size):
        if block.purpose == Purpose.ESTIMATION:
            parts.append(Casting(voting, noise, x, block, batch).votes())
            progress(block.count)
    classes = {part.classes for part in parts}
    if len(classes) > 1:
        raise ModelChangedError(f"the model's number of classes changes between batches: {sorted(classes)}")
    return BlockVotes(np.concatenate([part.labels for part in parts]), *classes)


def _rows(run: "Run", place: int) -> list[int]:
    count = rows_again(run.identity.independence)
    assert count is not None
    return run.secret.rows(run.promise, run.inputs.indices[place], count, run.settings.n)


def _source(run: "Run", sampler: Sampler, place: int) -> Source:
    """The run's noise, made on the CPU row by row: it is the same wherever it is made."""
    stream = run.inputs.indices[place] if run.settings.noise == "fresh" else SHARED_STREAM
    return FreshNoise(sampler, run.secret.key(run.promise), stream)
