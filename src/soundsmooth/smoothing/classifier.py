"""The smoothed classifier: the law of its noise, the replicas of the model that vote, and the size of their batches."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

from ..certification.certify import ModelChangedError
from ..certification.settings import Settings
from ..core.grid import Levels
from ..core.integers import integer
from ..core.layouts import try_layout
from ..models import Identity, Model
from ..noise import Law, Purpose
from ..noise.gpu import AnySampler, sampler_at
from ..noise.keystream import check_room
from ..noise.sources import check_shared_memory
from .voting import sample_batch

#: Large enough for the kernels, and no filling up at the usual n₀ = 100.
CPU_BATCH = 100
#: On a GPU the batch is the largest that fits, up to these limits of inputs and elements. Beyond them nothing is
#: gained, and where a layer's output has more than 2³¹ elements, cuDNN falls back to slower kernels.
GPU_BATCH, GPU_ELEMENTS = 10_000, 1 << 28
#: The cost of one element of a batch in our own hands: its value, and the model's copy of it.
BYTES_PER_ELEMENT = 4 + 4
#: With looks, the limit of inputs in a batch on a GPU.
LOOKS_BATCH = 3200
#: Batches that are so many times smaller may be faster on a GPU: what they compute stays in the cache.
SMALLER = (2, 4, 10)
#: With looks, or on a CPU: each look is at whole batches, too. What a CPU computes of few rows lies in memory that the
#: process keeps; larger pieces come from the system each time, page by page.
HALVED = (2, 4)
#: A run with looks is expected to cast this share of the votes that it may cast.
SHARE_WITH_LOOKS = Fraction(1, 8)
MOST_REPLICAS = 256


@dataclass(frozen=True)
class Replica:
    """A copy of the model, and a sampler that makes noise where that copy reads it."""

    model: Model
    sampler: AnySampler


@dataclass(frozen=True)
class Smoothing:
    """A smoothed classifier: the law of its noise, who votes, and the size of the batches (None: to be chosen)."""

    law: Law
    replicas: tuple[Replica, ...]
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
        if not 1 <= integer(workers, "workers") <= MOST_REPLICAS:
            raise ValueError(f"workers must be between 1 and {MOST_REPLICAS}, not {workers}")
        models = [model, *(model.replica(number) for number in range(1, workers))]
        made = [sampler_at(law, each.placement, threads) for each in models]
        pairs = tuple(Replica(each, sampler) for each, (sampler, _) in zip(models, made, strict=True))
        return cls(law, pairs, model.batch or batch, made[0][1])

    @property
    def model(self) -> Model:
        return self.replicas[0].model

    def batch_for(self, shape: tuple[int, ...], n: int, stops_early: bool = False) -> int:
        """The batch size, chosen once if it was not given: the largest that fits on a GPU, a small one on a CPU.

        For a run that stops early it is smaller: a look at few copies must not cost many.
        """
        if self.batch is not None:
            return self.batch
        if self.model.tuned_batch is not None:
            return self.model.tuned_batch
        on_cpu = self.model.placement is None
        at: tuple[object, ...] = (shape,) if on_cpu else (shape, n, stops_early)
        if at not in self._chosen:
            largest = self._batch_for_looks if stops_early else self._largest_batch
            self._chosen[at] = self.model.largest_batch(shape, CPU_BATCH) if on_cpu else largest(shape, n)
        return self._chosen[at]

    def _largest_batch(self, shape: tuple[int, ...], n: int) -> int:
        """The largest batch that fits on the GPU, or a little less: so that the last of n copies fill a batch too."""
        most = min(n, GPU_BATCH, max(1, GPU_ELEMENTS // max(1, prod(shape))))
        batches = -(-n // self.model.largest_batch(shape, most))
        return -(-n // batches)

    def _batch_for_looks(self, shape: tuple[int, ...], n: int) -> int:
        """100·2^j copies, as many as fit up to a limit: the default looks are then whole batches, or share one."""
        most = self.model.largest_batch(shape, min(LOOKS_BATCH, max(1, GPU_ELEMENTS // max(1, prod(shape)))))
        return max((CPU_BATCH << j for j in range(16) if CPU_BATCH << j <= most), default=most)

    def identity(self, shape: tuple[int, ...], batch: int, settings: Settings) -> Identity:
        """What is promised of the model, after it got ready for the batches in which copies for estimation vote."""
        return self.prepared(shape, voting_batch(self.model, batch, settings))

    def prepared(self, shape: tuple[int, ...], batch: int) -> Identity:
        """What the model is, after it got ready for batches of this size of inputs of this shape."""
        for replica in self.replicas:
            replica.model.prepare(shape, batch)
        return self.model.identity()

    def survey(self, x: Levels, settings: Settings, images: int) -> Identity:
        """The identity to promise; what cannot work is rejected before any draw.

        What was left open is chosen now: how the model runs, and in batches of which size. So many images like this one
        are expected; for none, nothing is timed.
        """
        self.check(x.shape, x.size, max(settings.n, settings.n0))
        if settings.noise == "shared":
            check_shared_memory(self.replicas[0].sampler, settings.n0 + settings.n, x.size)
        first = voting_batch(self.model, self.batch_of(x.shape, settings), settings)
        self.model.settle(x.shape, self._other_batches(first, settings), images * expected_copies(settings))
        for replica in self.replicas[1:]:
            replica.model.run_as(self.model.flags().get("compile", "none"), self.model.artifact)
        return self.identity(x.shape, self.batch_of(x.shape, settings), settings)

    def _other_batches(self, first: int, settings: Settings) -> list[int]:
        """The sizes that may be tried, the usual one first: with them, too, the last of n copies fill a batch."""
        if self.batch is not None or self.model.batch is not None:
            return [first]
        on_cpu = self.model.placement is None
        if on_cpu or settings.stops_early:
            sizes = [first // parts for parts in HALVED]
        else:
            batches = -(-settings.n // first)
            sizes = [-(-settings.n // (parts * batches)) for parts in SMALLER]
        least = 1 if on_cpu else CPU_BATCH
        return [*dict.fromkeys([first, *(size for size in sizes if size >= least)])]

    def batch_of(self, shape: tuple[int, ...], settings: Settings) -> int:
        """The batch size for a run with these settings."""
        return self.batch_for(shape, settings.n, settings.stops_early)

    def check(self, shape: tuple[int, ...], dimension: int, n: int) -> None:
        """Reject, before the first draw, what cannot work."""
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
        self.replicas[0].sampler.check_memory(needed, f"a batch of {batch}", "lower the batch size")


def voting_batch(model: Model, batch: int, settings: Settings, purpose: Purpose = Purpose.ESTIMATION) -> int:
    """The rows of the batches in which copies for a purpose vote, where batches of a size are promised.

    Guarantee: what is proved is proved for those of estimation, also where all copies are fewer than the promised size.
    """
    if settings.shares_batches:
        return batch
    return sample_batch(model, batch, settings.n0 if purpose == Purpose.SELECTION else settings.n)


def expected_copies(settings: Settings) -> int:
    """About how many copies of an image will vote. Nothing but speed depends on it."""
    copies = settings.n0 + settings.n
    return int(copies * SHARE_WITH_LOOKS) if settings.stops_early else copies


def check_unchanged(model: Model, identity: Identity, changed: Callable[[], bool], asked: str) -> None:
    """A ModelChangedError unless the promised model is the one that voted, as far as can be seen from outside it."""
    if changed() or model.identity() != identity:
        raise ModelChangedError(f"the model changed while it was {asked}; a base classifier must keep no state")


def _way_out(wanted: tuple[int, ...], given: tuple[int, ...]) -> str:
    if wanted == (1, *given):
        return "; the channel's axis is missing: x[:, None] for a data set, image[None] for one image"
    if len(given) == 3 and sorted(wanted) == sorted(given):
        few = given.index(min(given))  # the channels: there are fewer of them than rows and columns
        if few == 2 and wanted == (given[2], given[0], given[1]):
            return f"; the data is channels-last: {try_layout('nhwc-to-nchw')}"
        if few == 0 and wanted == (given[1], given[2], given[0]):
            return f"; the data is channels-first: {try_layout('nchw-to-nhwc')}"
        return "; the axes are in another order: is the layout right (--layout)?"
    if len(wanted) == len(given) == 3 and wanted[0] == given[0] and wanted[1] == wanted[2]:
        side = wanted[1]
        return f"; --resize {side} --crop {side}, or ss.load(…, resize={side}, crop={side}), bring image files to it"
    if given[1:] == wanted:
        return f"; certify takes one image, and this looks like a batch of {given[0]}"
    return ""
