"""A run before its first coin is tossed: what it promises, and everything that is needed to keep the promise."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ..certification.certificate import Certificate
from ..certification.certify import Counts, Measurement, Verdict
from ..certification.promise import SPEC, Inputs, Promise, Secret
from ..certification.settings import Settings
from ..independence.check import some
from ..independence.notice import describe_unproved
from ..models import Identity
from ..noise import Law, Purpose
from ..noise.law import EUCLIDEAN
from ..smoothing.blocks import VoteBlock, block_size, vote_blocks
from ..smoothing.job import VotingJob
from ..smoothing.voting import check_labels
from .pools import WorkerPool
from .tasks import Image
from .worker import MIXED, ModelSurvey, WorkerKind


def plan_run(
    pool: WorkerPool,
    inputs: Inputs,
    settings: Settings,
    secret: Secret,
    allow_mixed: bool = False,
    try_rows: bool = True,
    continued: bool = False,
) -> "RunPlan":
    """The promise is made; what cannot work is rejected before the first draw.

    With `allow_mixed` the promise says `device: mixed`: a certificate is then about the mixture of the kinds of device
    that took part, which its environment names (docs/scale.md). If it is not to `try_rows`, a model whose independence
    would be checked or measured is promised without trying that: for a commitment, before anything runs. A run that is
    `continued` keeps the labels that it promised, be they classes or not.
    """
    images = some(inputs.levels)
    found, labels = pool.survey(images, settings), () if continued else inputs.labels
    check_labels(labels, found.classes)
    identity = replace(found.identity, device=MIXED) if allow_mixed else found.identity
    promise = promise_of(found, identity, inputs, settings, secret)
    if try_rows and found.check:
        check_labels(labels, pool.check_rows(images, settings))
    alone = pool.rehearse_rows(images) if try_rows and identity.independence.measured else None
    check_labels(labels, alone and alone.classes)
    notice = describe_unproved(found.unproved, identity.independence, settings, alone and alone.seconds)
    return RunPlan(
        pool, identity, found.law, found.batch, found.kind, inputs, settings, secret, promise, found.environment, notice
    )


def promise_of(found: ModelSurvey, identity: Identity, inputs: Inputs, settings: Settings, secret: Secret) -> Promise:
    """Everything that is fixed before the first coin is tossed (docs/noise.md, "Promise"), for inputs on the grid."""
    law, given = found.law, inputs.given(found.law.grid)
    if given is not None and law.norm != EUCLIDEAN:
        raise ValueError(f"the image is not on the grid, and radii in {law.norm} do not pay for that: give levels")
    for image in inputs.levels:
        law.grid.check_levels(image)
    return Promise(
        {
            "spec": SPEC,
            "model kind": identity.kind,
            "model": identity.digest,
            "inputs": inputs.digest(),
            "input count": str(len(inputs.indices)),
            "input shape": " ".join(map(str, inputs.shape)),
            **law.lines,
            "n0": str(settings.n0),
            "n": str(settings.n),
            "alpha": str(settings.alpha),
            "bound": settings.bound,
            "noise": settings.noise,
            "batch": str(found.batch),
            "precision": identity.precision,
            "device": identity.device,
            "flags": identity.flags_text,
            "independence": identity.independence.text,
            "seed": secret.digest,
            **({} if given is None else {"given": given.text}),
        }
    )


@dataclass(frozen=True)
class RunPlan:
    """What was promised, who votes, and everything else that is needed to keep the promise."""

    pool: WorkerPool
    identity: Identity
    law: Law
    batch: int
    kind: WorkerKind
    """The kind that the first worker had: all must have it, unless the promise says `mixed`."""
    inputs: Inputs
    settings: Settings
    secret: Secret
    promise: Promise
    environment: Mapping[str, str]
    notice: str | None = None
    """What the user is to be told of the rows' independence before the first vote."""

    @cached_property
    def job(self) -> VotingJob:
        """What a worker has to know."""
        key = self.secret.key(self.promise)
        return VotingJob(self.identity, self.settings, self.inputs.shape, self.batch, key)

    def image(self, place: int) -> Image:
        """What a worker sees of the image at a place."""
        return Image(self.inputs.indices[place], self.inputs.levels[place])

    def paid(self, place: int) -> float | None:
        """What the radius at a place is less by, because floats were rounded to the grid; None if none were."""
        return self.inputs.paid(place, self.law.grid)

    def block_size(self, kept: bool) -> int:
        """How many copies vote together in a run that is `kept` in a file, or in memory."""
        on_gpu = self.identity.device != "cpu"
        return block_size(self.settings, self.batch, self.inputs.levels[0].size, kept, on_gpu)

    def blocks(self, kept: bool) -> list[VoteBlock]:
        """All blocks of an image, in the order in which they are voted."""
        return vote_blocks(self.settings, self.block_size(kept))

    def certificate(
        self,
        place: int,
        found: Verdict,
        counts: Mapping[Purpose, Counts],
        measured: Measurement | None,
        environment: Mapping[str, str],
        seconds: float,
    ) -> Certificate:
        return Certificate(
            index=self.inputs.indices[place],
            label=found.label,
            radius=found.radius,
            p_lower=found.p_lower,
            p_upper=found.p_upper,
            truth=self.inputs.labels[place],
            selection=counts[Purpose.SELECTION],
            estimation=counts[Purpose.ESTIMATION],
            promise=self.promise,
            seed=self.secret.seed.hex(),
            nonce=self.secret.nonce.hex(),
            environment={**environment, **self.inputs.recorded},
            seconds=seconds,
            measured=measured,
            paid=self.paid(place),
        )
