"""One process that certifies many inputs: promise first, then toss the coins, then issue the records."""

import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod
from queue import Empty, SimpleQueue
from threading import Event

from ..certificate import Certificate, Prediction
from ..certify import (
    Counts,
    Measurement,
    ModelChangedError,
    Poll,
    Progress,
    Sure,
    Verdict,
    Voting,
    blocks,
    cast,
    poll,
    predict,
    verdict,
)
from ..exact import Rational, probability
from ..grid import Levels
from ..integers import integer
from ..machine import environment
from ..models import Identity, Model
from ..noise import Law, Purpose
from ..noise.gpu import AnySampler, sampler_at
from ..noise.keystream import check_room
from ..noise.sources import FreshNoise, SharedNoise, Source, check_shared_memory
from ..promise import SPEC, Inputs, Promise, Secret
from ..settings import Settings, copies
from .checked import check_first, check_rows
from .measured import certify_measured, check_measurable
from .side_by_side import side_by_side

#: Large enough for the kernels, and no filling up at the usual n₀ = 100.
CPU_BATCH = 100
#: On a GPU the batch is the largest that fits, but no larger than so many inputs or elements: beyond it nothing is
#: gained, and where a layer's output has more than 2³¹ elements, cuDNN falls back to slower kernels.
GPU_BATCH, GPU_ELEMENTS = 10_000, 1 << 28
#: What one element of a batch costs in our own hands: its value, and the model's copy of it.
BYTES_PER_ELEMENT = 4 + 4
MOST_WORKERS = 256


@dataclass(frozen=True)
class Worker:
    """A copy of the model, and a sampler that makes noise where that copy reads it."""

    model: Model
    sampler: AnySampler


@dataclass(frozen=True)
class Smoothing:
    """A smoothed classifier: the law of its noise, who votes, and the size of the batches (None: to be chosen)."""

    law: Law
    workers: tuple[Worker, ...]
    batch: int | None
    made: str
    """Where the noise is made, and why there."""
    _chosen: dict[tuple[object, ...], int] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls, model: Model, law: Law, batch: int | None = None, threads: int | None = None, workers: int = 1
    ) -> "Smoothing":
        if batch is not None:
            batch = integer(batch, "the batch size")
            if batch < 1:
                raise ValueError(f"the batch size must be at least 1, not {batch}")
        if model.batch is not None and batch not in (None, model.batch):
            raise ValueError(f"the model's batch axis is fixed at {model.batch}; leave the batch size out")
        if not 1 <= integer(workers, "workers") <= MOST_WORKERS:
            raise ValueError(f"workers must be between 1 and {MOST_WORKERS}, not {workers}")
        models = [model, *(model.replica(number) for number in range(1, workers))]
        made = [sampler_at(law, each.place, threads) for each in models]
        pairs = tuple(Worker(each, sampler) for each, (sampler, _) in zip(models, made, strict=True))
        return cls(law, pairs, model.batch or batch, made[0][1])

    @property
    def model(self) -> Model:
        return self.workers[0].model

    def batch_for(self, shape: tuple[int, ...], n: int) -> int:
        """The batch size, chosen once if it was not given: the largest that fits on a GPU, a small one on a CPU."""
        if self.batch is not None:
            return self.batch
        at = (shape, n)
        if at not in self._chosen:
            self._chosen[at] = CPU_BATCH if self.model.place is None else self._largest_batch(shape, n)
        return self._chosen[at]

    def _largest_batch(self, shape: tuple[int, ...], n: int) -> int:
        """The largest batch that fits on the GPU, or a little less: so that the last of n copies fill a batch too."""
        most = min(n, GPU_BATCH, max(1, GPU_ELEMENTS // max(1, prod(shape))))
        batches = -(-n // self.model.largest_batch(shape, most))
        return -(-n // batches)

    def identity(self, shape: tuple[int, ...], batch: int) -> Identity:
        """What is promised of the model, after it got ready for batches of this size of inputs of this shape."""
        for worker in self.workers:
            worker.model.prepare(shape, batch)
        return self.model.identity()

    def check(self, shape: tuple[int, ...], dimension: int, n: int) -> None:
        """Refuse, before the first draw, what cannot work."""
        if self.model.shape is not None and self.model.shape != shape:
            raise ValueError(
                f"the model takes inputs of shape {list(self.model.shape)}, but the image has {list(shape)}"
                f"{_way_out(self.model.shape, shape)}"
            )
        if dimension == 0:
            raise ValueError(f"the image has no pixels: its shape is {list(shape)}")
        batch = self.batch_for(shape, n)
        check_room(0, n + batch, dimension)
        needed = BYTES_PER_ELEMENT * batch * dimension
        self.workers[0].sampler.check_memory(needed, f"a batch of {batch}", "lower the batch size")

    def voting(self, worker: Worker, shape: tuple[int, ...], n: int, identity: Identity) -> Voting:
        return Voting(worker.model, self.batch_for(shape, n), identity.flags)


def _way_out(wanted: tuple[int, ...], given: tuple[int, ...]) -> str:
    if wanted == (1, *given):
        return "; the channel's axis is missing: x[:, None] for a data set, image[None] for one image"
    if len(given) == 3 and sorted(wanted) == sorted(given):
        few = given.index(min(given))  # the channels: there are fewer of them than rows and columns
        if few == 2 and wanted == (given[2], given[0], given[1]):
            return "; the data is channels-last: try --layout nhwc-to-nchw"
        if few == 0 and wanted == (given[1], given[2], given[0]):
            return "; the data is channels-first: try --layout nchw-to-nhwc"
        return "; the axes are in another order: is --layout right?"
    if given[1:] == wanted:
        return f"; certify takes one image, and this looks like a batch of {given[0]}"
    return ""


def promise_of(smoothing: Smoothing, identity: Identity, inputs: Inputs, settings: Settings, secret: Secret) -> Promise:
    """Everything that is fixed before the first coin is tossed (docs/noise.md, "Promise"), for inputs on the grid."""
    law = smoothing.law
    for image in inputs.levels:
        law.grid.check_levels(image)
    return Promise(
        {
            "spec": SPEC,
            "model kind": identity.kind,
            "model": identity.digest,
            "inputs": inputs.digest(),
            "input count": str(len(inputs.indices)),
            "input shape": _words(inputs.shape),
            "grid": law.grid.text,
            "margin": str(law.margin),
            "sigma": str(law.sigma),
            "n0": str(settings.n0),
            "n": str(settings.n),
            "alpha": str(settings.alpha),
            "bound": settings.bound,
            "noise": settings.noise,
            "batch": str(smoothing.batch_for(inputs.shape, settings.n)),
            "precision": identity.precision,
            "device": identity.device,
            "flags": identity.flags_text,
            "independence": identity.independence.text,
            "seed": secret.digest,
        }
    )


def certify_inputs(
    smoothing: Smoothing, inputs: Inputs, settings: Settings, secret: Secret, progress: Progress = lambda _: None
) -> Iterator[Certificate]:
    """A certificate for every input, in order.

    Guarantee: each one is false with probability at most α over the key, whatever the noise mode.
    """
    run = run_of(smoothing, inputs, settings, secret)
    if settings.noise == "batchwise":
        return run.batchwise(progress)
    if len(smoothing.workers) == 1:
        places = range(len(inputs.levels))
        return run.one_by_one(smoothing.workers[0], places, progress)
    return run.side_by_side(progress)


def run_of(smoothing: Smoothing, inputs: Inputs, settings: Settings, secret: Secret) -> "Run":
    """The promise is made; what cannot work is refused before the first draw."""
    identity = surveyed(smoothing, inputs.levels[0], settings)
    promise = promise_of(smoothing, identity, inputs, settings, secret)
    recorded = environment(("onnxruntime",) if identity.kind == "onnx" else ()) | {"noise made on": smoothing.made}
    recorded |= identity.recorded
    if check_first(smoothing.model, identity):
        worker, batch = smoothing.workers[0], smoothing.batch_for(inputs.shape, settings.n)
        check_rows(worker.model, worker.sampler, inputs.levels, min(batch, settings.n))
    return Run(smoothing, identity, inputs, settings, secret, promise, recorded)


def surveyed(smoothing: Smoothing, x: Levels, settings: Settings) -> Identity:
    """What is to be promised of the model, for inputs like this one; what cannot work is refused."""
    smoothing.check(x.shape, x.size, max(settings.n, settings.n0))
    if settings.noise == "shared":
        check_shared_memory(smoothing.workers[0].sampler, settings.n0 + settings.n, x.size)
    identity = smoothing.identity(x.shape, smoothing.batch_for(x.shape, settings.n))
    if identity.independence.measured:
        check_measurable(settings)
    return identity


@dataclass(frozen=True)
class Duty:
    """What a voter has to know of a run: the key but not the seed, and neither labels nor other inputs."""

    identity: Identity
    settings: Settings
    shape: tuple[int, ...]
    batch: int
    key: bytes = field(repr=False)

    def noise(self, worker: Worker, keep: int | None = None) -> Callable[[int], Source]:
        """The noise for the input of a number: its own, or one for all, of which the last `keep` batches are kept."""
        if self.settings.noise == "fresh":
            return lambda index: FreshNoise(worker.sampler, self.key, index)
        shared = SharedNoise(worker.sampler, self.key, keep)
        return lambda index: shared

    def voting(self, worker: Worker) -> Voting:
        return Voting(worker.model, self.batch, self.identity.flags)

    def check_model(self, worker: Worker, changed: Callable[[], bool]) -> None:
        """What was promised is what voted, as far as can be seen from outside the model."""
        _check_same(worker.model, self.identity, changed, "certified")


def _check_same(model: Model, identity: Identity, changed: Callable[[], bool], asked: str) -> None:
    if changed() or model.identity() != identity:
        raise ModelChangedError(f"the model changed while it was {asked}; a base classifier must keep no state")


@dataclass(frozen=True)
class _Begun:
    """An input whose votes are being cast."""

    place: int
    selection: Poll
    estimation: Poll
    changed: Callable[[], bool]
    start: float


@dataclass(frozen=True)
class Run:
    """What was promised, and everything that is needed to keep it."""

    smoothing: Smoothing
    identity: Identity
    inputs: Inputs
    settings: Settings
    secret: Secret
    promise: Promise
    environment: Mapping[str, str]

    def one_by_one(self, worker: Worker, places: Iterable[int], progress: Progress) -> Iterator[Certificate]:
        """Input by input: fresh noise for each, or the shared noise kept in memory.

        A GPU gets the next input's work before the last one's counts are asked for, so that it never waits.
        """
        if self.identity.independence.measured:
            yield from certify_measured(self, worker, places, progress)
            return
        noise = self.noise(worker)
        ahead = 0 if worker.model.place is None else 1
        begun: deque[_Begun] = deque()
        finished = time.perf_counter()
        for place in places:
            try:
                begun.append(self._begin(worker, noise(place), place, progress))
            except Exception:
                for each in begun:  # what was voted on before is not lost
                    yield self._finish(worker, each, finished)
                raise
            if len(begun) > ahead:
                yield self._finish(worker, begun.popleft(), finished)
                finished = time.perf_counter()
        for each in begun:
            yield self._finish(worker, each, finished)
            finished = time.perf_counter()

    def _begin(self, worker: Worker, noise: Source, place: int, progress: Progress) -> _Begun:
        start, x = time.perf_counter(), self.inputs.levels[place]
        voting = self.voting(worker)
        # The order is free, since noise has addresses; an idle GPU is sooner busy with a large batch.
        estimation = poll(voting, noise, x, Purpose.ESTIMATION, self.settings.n, progress)
        selection = poll(voting, noise, x, Purpose.SELECTION, self.settings.n0, progress)
        return _Begun(place, selection, estimation, worker.model.changes(), start)

    def _finish(self, worker: Worker, begun: _Begun, last: float) -> Certificate:
        counts0, counts = begun.selection.counts(), begun.estimation.counts()
        self.check_model(worker, begun.changed)
        if begun.selection.repeated or begun.estimation.repeated:  # after the look
            self.check_model(worker, worker.model.changes())
        found = verdict(counts0, counts, self.smoothing.law.sigma, self.settings)
        return self.record(begun.place, found, counts0, counts, time.perf_counter() - max(begun.start, last))

    def side_by_side(self, progress: Progress) -> Iterator[Certificate]:
        """All workers at once, each taking the next input; the certificates come in the order of the inputs."""
        waiting: SimpleQueue[int] = SimpleQueue()
        for place in range(len(self.inputs.levels)):
            waiting.put(place)
        stop = Event()

        def work(worker: Worker, send: Callable[[Certificate], None]) -> None:
            for record in self.one_by_one(worker, _until(waiting, stop), progress):
                send(record)

        with closing(side_by_side([partial(work, worker) for worker in self.smoothing.workers], stop)) as records:
            yield from self._in_order(records)

    def _in_order(self, records: Iterator[Certificate]) -> Iterator[Certificate]:
        order = {index: place for place, index in enumerate(self.inputs.indices)}
        ready: dict[int, Certificate] = {}
        following = 0
        try:
            for record in records:
                ready[order[record.index]] = record
                while following in ready:
                    yield ready.pop(following)
                    following += 1
        except GeneratorExit:  # nobody listens any more
            raise
        except BaseException:
            yield from (ready[place] for place in sorted(ready))  # finished, though not the next in order
            raise

    def batchwise(self, progress: Progress) -> Iterator[Certificate]:
        """Batch by batch: each batch of noise meets every input before the next one is made (Appendix A.1)."""
        start, worker = time.perf_counter(), self.smoothing.workers[0]
        noise = self.noise(worker, keep=1)(0)
        counts0 = self._all_votes(worker, noise, Purpose.SELECTION, self.settings.n0, progress)
        counts = self._all_votes(worker, noise, Purpose.ESTIMATION, self.settings.n, progress)
        self.check_model(worker, worker.model.changes())
        seconds = (time.perf_counter() - start) / len(counts)
        for place, (selection, estimation) in enumerate(zip(counts0, counts, strict=True)):
            found = verdict(selection, estimation, self.smoothing.law.sigma, self.settings)
            yield self.record(place, found, selection, estimation, seconds)

    def _all_votes(self, worker: Worker, noise: Source, purpose: Purpose, n: int, progress: Progress) -> list[Counts]:
        voting = self.voting(worker)
        batch = voting.batch_for(n)
        polls = [Poll(lambda x=x: poll(voting, Sure(noise), x, purpose, n)) for x in self.inputs.levels]  # type: ignore[misc]
        for block in blocks(n, batch, self.inputs.levels[0].size):
            copies = range(block.first, block.first + block.keep)
            for so_far, x in zip(polls, self.inputs.levels, strict=True):
                for votes, doubt in cast(voting, noise, x, purpose, copies, batch):
                    so_far.add(votes, doubt)
                progress(block.keep)
        return [so_far.close().counts() for so_far in polls]

    @cached_property
    def duty(self) -> Duty:
        batch = self.smoothing.batch_for(self.inputs.shape, self.settings.n)
        return Duty(self.identity, self.settings, self.inputs.shape, batch, self.secret.key(self.promise))

    def noise(self, worker: Worker, keep: int | None = None) -> Callable[[int], Source]:
        """The noise for the input at a place: its own, or one for all, of which the last `keep` batches are kept."""
        noise = self.duty.noise(worker, keep)
        return lambda place: noise(self.inputs.indices[place])

    def voting(self, worker: Worker) -> Voting:
        return self.duty.voting(worker)

    def check_model(self, worker: Worker, changed: Callable[[], bool]) -> None:
        self.duty.check_model(worker, changed)

    def record(
        self,
        place: int,
        found: Verdict,
        counts0: Counts,
        counts: Counts,
        seconds: float,
        measured: Measurement | None = None,
    ) -> Certificate:
        return Certificate(
            index=self.inputs.indices[place],
            label=found.label,
            radius=found.radius,
            p_lower=found.p_lower,
            p_upper=found.p_upper,
            truth=self.inputs.labels[place],
            selection=counts0,
            estimation=counts,
            promise=self.promise,
            seed=self.secret.seed.hex(),
            nonce=self.secret.nonce.hex(),
            environment=self.environment,
            seconds=seconds,
            measured=measured,
        )


def _until(waiting: "SimpleQueue[int]", stop: Event) -> Iterator[int]:
    """What is waiting, one after the other, until there is nothing left or somebody says stop."""
    while not stop.is_set():
        try:
            yield waiting.get_nowait()
        except Empty:
            return


def predict_input(smoothing: Smoothing, index: int, x: Levels, n: int, alpha: Rational) -> Prediction:
    """One prediction under a key of its own, from the operating system and disclosed with the answer.

    Guarantee: that of `certify.predict`, for a model that is seen to be the same after it as before.
    """
    n, level = copies(n, "n"), probability(alpha, "alpha")
    smoothing.law.grid.check_levels(x)
    smoothing.check(x.shape, x.size, n)
    start = time.perf_counter()
    key = secrets.token_bytes(32)
    identity = smoothing.identity(x.shape, smoothing.batch_for(x.shape, n))
    worker = smoothing.workers[0]
    voting = smoothing.voting(worker, x.shape, n, identity)
    label, counts = predict(voting, FreshNoise(worker.sampler, key, index), x, n, level)
    _check_same(worker.model, identity, worker.model.changes(), "asked")
    return Prediction(
        index=index,
        label=label,
        counts=counts,
        n=n,
        alpha=str(level),
        sigma=str(smoothing.law.sigma),
        margin=smoothing.law.margin,
        model=identity.digest,
        key=key.hex(),
        seconds=time.perf_counter() - start,
    )


def _words(parts: Iterable[object]) -> str:
    return " ".join(str(part) for part in parts)
