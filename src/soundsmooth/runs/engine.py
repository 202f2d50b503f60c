"""One process that certifies many inputs: promise first, then toss the coins, then issue the records."""

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..certificate import Certificate, Prediction
from ..certify import Counts, Progress, Tally, Verdict, Voting, blocks, certify, predict, verdict, votes_of
from ..exact import Rational, probability
from ..grid import Levels
from ..machine import check_memory, environment
from ..models import Identity, Model
from ..noise import Law, Purpose, Sampler
from ..noise.keystream import check_room
from ..noise.sources import FreshNoise, SharedNoise, check_shared_memory
from ..promise import SPEC, Inputs, Promise, Secret
from ..settings import Settings, copies

#: Large enough for the kernels, and no filling up at the usual n₀ = 100.
CPU_BATCH = 100
GPU_BATCH = 1000
#: What one element of a batch costs in our own hands: its value, and the model's copy of it.
BYTES_PER_ELEMENT = 4 + 4


@dataclass(frozen=True)
class Smoothing:
    """A smoothed classifier: the base classifier, the sampler of its noise, the fixed size of its batches."""

    model: Model
    sampler: Sampler
    batch: int

    @classmethod
    def of(cls, model: Model, sampler: Sampler, batch: int | None) -> "Smoothing":
        if batch is not None and batch < 1:
            raise ValueError(f"the batch size must be at least 1, not {batch}")
        if model.batch is not None and batch not in (None, model.batch):
            raise ValueError(f"the model's batch axis is fixed at {model.batch}; leave the batch size out")
        default = CPU_BATCH if model.identity().device == "cpu" else GPU_BATCH
        return cls(model, sampler, model.batch or batch or default)

    @property
    def law(self) -> Law:
        return self.sampler.law

    def check(self, shape: tuple[int, ...], dimension: int, n: int) -> None:
        """Refuse, before the first draw, what cannot work."""
        if self.model.shape is not None and self.model.shape != shape:
            raise ValueError(
                f"the model takes inputs of shape {list(self.model.shape)}, but the image has {list(shape)}"
                f"{_way_out(self.model.shape, shape)}"
            )
        if dimension == 0:
            raise ValueError(f"the image has no pixels: its shape is {list(shape)}")
        check_room(0, n + self.batch, dimension)
        check_memory(BYTES_PER_ELEMENT * self.batch * dimension, f"a batch of {self.batch}", "lower the batch size")


def _way_out(wanted: tuple[int, ...], given: tuple[int, ...]) -> str:
    if len(given) == 3 and wanted == (given[2], given[0], given[1]):
        return "; the data is channels-last: try --layout nhwc-to-nchw"
    if len(given) == 3 and wanted == (given[1], given[2], given[0]):
        return "; the data is channels-first: try --layout nchw-to-nhwc"
    if given[1:] == wanted:
        return f"; certify takes one image, and this looks like a batch of {given[0]}"
    return ""


def promise_of(smoothing: Smoothing, identity: Identity, inputs: Inputs, settings: Settings, secret: Secret) -> Promise:
    """Everything that is fixed before the first coin is tossed (docs/noise.md, "Promise")."""
    law = smoothing.law
    return Promise(
        {
            "spec": SPEC,
            "model kind": identity.kind,
            "model": identity.digest,
            "inputs": inputs.digest(),
            "input count": str(len(inputs.indices)),
            "input shape": _words(inputs.shape),
            "grid": f"levels={law.grid.levels} q={law.grid.q} offset={law.grid.offset}",
            "margin": str(law.margin),
            "sigma": str(law.sigma),
            "n0": str(settings.n0),
            "n": str(settings.n),
            "alpha": str(settings.alpha),
            "bound": settings.bound,
            "noise": settings.noise,
            "batch": str(smoothing.batch),
            "precision": identity.precision,
            "device": identity.device,
            "flags": _words(f"{name}={value}" for name, value in sorted(identity.flags.items())) or "none",
            "independence": identity.independence,
            "seed": secret.digest,
        }
    )


def certify_inputs(
    smoothing: Smoothing, inputs: Inputs, settings: Settings, secret: Secret, progress: Progress = lambda _: None
) -> Iterator[Certificate]:
    """A certificate for every input, in order.

    Guarantee: each one is false with probability at most α over the key, whatever the noise mode.
    """
    dimension = inputs.levels[0].size
    smoothing.check(inputs.shape, dimension, max(settings.n, settings.n0))
    identity = smoothing.model.identity()
    promise = promise_of(smoothing, identity, inputs, settings, secret)
    run = _Run(smoothing, identity, inputs, settings, secret, promise, environment())
    if settings.noise == "batchwise":
        return run.batchwise(progress)
    if settings.noise == "shared":
        check_shared_memory(settings.n0 + settings.n, dimension)
    return run.one_by_one(progress)


@dataclass(frozen=True)
class _Run:
    smoothing: Smoothing
    identity: Identity
    inputs: Inputs
    settings: Settings
    secret: Secret
    promise: Promise
    environment: Mapping[str, str]

    def one_by_one(self, progress: Progress) -> Iterator[Certificate]:
        """Input by input: fresh noise for each, or the shared noise kept in memory."""
        key, sampler = self.secret.key(self.promise), self.smoothing.sampler
        shared = SharedNoise(sampler, key)
        for place, (index, x) in enumerate(zip(self.inputs.indices, self.inputs.levels, strict=True)):
            start = time.perf_counter()
            noise = shared if self.settings.noise == "shared" else FreshNoise(sampler, key, index)
            found, counts0, counts = certify(self._voting, noise, x, self.smoothing.law.sigma, self.settings, progress)
            self._check_model()
            yield self._record(place, found, counts0, counts, time.perf_counter() - start)

    def batchwise(self, progress: Progress) -> Iterator[Certificate]:
        """Batch by batch: each batch of noise meets every input before the next one is made (Appendix A.1)."""
        start = time.perf_counter()
        noise = SharedNoise(self.smoothing.sampler, self.secret.key(self.promise), keep=1)
        counts0 = self._all_votes(noise, Purpose.SELECTION, self.settings.n0, progress)
        counts = self._all_votes(noise, Purpose.ESTIMATION, self.settings.n, progress)
        self._check_model()
        seconds = (time.perf_counter() - start) / len(counts)
        for place, (selection, estimation) in enumerate(zip(counts0, counts, strict=True)):
            found = verdict(selection, estimation, self.smoothing.law.sigma, self.settings)
            yield self._record(place, found, selection, estimation, seconds)

    def _all_votes(self, noise: SharedNoise, purpose: Purpose, n: int, progress: Progress) -> list[Counts]:
        tallies = [Tally() for _ in self.inputs.levels]
        for block in blocks(n, self.smoothing.batch, self.inputs.levels[0].size):
            for tally, x in zip(tallies, self.inputs.levels, strict=True):
                tally.add(votes_of(self._voting, noise.noisy(purpose, x, block.first, block.copies)), block.keep)
                progress(block.keep)
        return [tally.counts() for tally in tallies]

    @property
    def _voting(self) -> Voting:
        return Voting(self.smoothing.model, self.smoothing.batch, self.identity.flags)

    def _check_model(self) -> None:
        """What was promised is what voted, as far as can be seen from outside the model."""
        if self.smoothing.model.identity() != self.identity:
            raise ValueError("the model changed while it was certified; a base classifier must keep no state")

    def _record(self, place: int, found: Verdict, counts0: Counts, counts: Counts, seconds: float) -> Certificate:
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
        )


def predict_input(smoothing: Smoothing, index: int, x: Levels, n: int, alpha: Rational) -> Prediction:
    """One prediction under a key of its own, from the operating system and disclosed with the answer."""
    level = probability(alpha, "alpha")
    smoothing.check(x.shape, x.size, copies(n, "n"))
    start = time.perf_counter()
    key = secrets.token_bytes(32)
    identity = smoothing.model.identity()
    voting = Voting(smoothing.model, smoothing.batch, identity.flags)
    label, counts = predict(voting, FreshNoise(smoothing.sampler, key, index), x, n, level)
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
