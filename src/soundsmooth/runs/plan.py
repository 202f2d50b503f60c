"""A run before its first coin is tossed: what it promises, and everything that is needed to keep the promise."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from ..certification.certificate import Certificate
from ..certification.certify import Measurement, Verdict
from ..certification.goal import looks_for
from ..certification.looks import Group, check_alpha_unproved, check_bound
from ..certification.promise import SPEC, Inputs, Promise, Secret
from ..certification.settings import Settings, usual_bound
from ..exact import BOUNDS, price_above
from ..independence.check import some
from ..independence.measure import SampledRows, sample_rows
from ..independence.notice import describe_unproved
from ..noise import Law
from ..noise.law import EUCLIDEAN
from ..smoothing.blocks import VoteBlock, block_size, vote_rounds
from ..smoothing.job import VotingJob
from ..smoothing.voting import check_labels
from .image_votes import ImageVotes
from .pools import WorkerPool
from .tasks import Image
from .worker import MIXED, ModelSurvey

#: Consecutive images that share batches, where rows are proved to be independent.
GROUP_IMAGES = 256
#: A pack of copies of several images has at most so many batches.
PACK_BATCHES = 32


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
    `continued` keeps the labels that it promised, be they classes or not, and how the model runs is not measured again.
    """
    images = some(inputs.levels)
    expected = 0 if continued else -(-len(inputs) // max(1, pool.capacity()))
    survey, labels = pool.survey(images, settings, expected), () if continued else inputs.labels
    check_labels(labels, survey.classes)
    if allow_mixed:
        survey = _on_any_device(survey)
    independence, settings = survey.identity.independence, with_looks(settings, survey, inputs)
    promise = promise_of(survey, inputs, settings, secret)
    if try_rows and survey.check:
        check_labels(labels, pool.check_rows(images, settings))
    alone = pool.rehearse_rows(images) if try_rows and independence.measured else None
    check_labels(labels, alone and alone.classes)
    notice = describe_unproved(survey.unproved, independence, settings, alone and alone.seconds)
    return RunPlan(pool, survey, inputs, settings, secret, promise, notice)


def _on_any_device(survey: ModelSurvey) -> ModelSurvey:
    """What is promised where several kinds of device may take part."""
    if survey.artifact is not None:
        raise ValueError("tuned kernels are for one kind of device: leave out --allow-mixed, or choose another compile")
    return replace(survey, identity=replace(survey.identity, device=MIXED))


def promise_of(survey: ModelSurvey, inputs: Inputs, settings: Settings, secret: Secret) -> Promise:
    """Everything that is fixed before the first coin is tossed (docs/noise.md, "Promise"), for inputs on the grid."""
    identity, law, given = survey.identity, survey.law, inputs.given(survey.law.grid)
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
            "batch": str(survey.batch),
            "precision": identity.precision,
            "device": identity.device,
            "flags": identity.flags_text,
            "independence": identity.independence.text,
            "seed": secret.digest,
            **({} if given is None else {"given": given}),
            **({} if settings.looks is None else settings.looks.lines),
        }
    )


def with_looks(settings: Settings, survey: ModelSurvey, inputs: Inputs) -> Settings:
    """The settings with the looks that answer what is asked, by a bound that holds for the model.

    Rows that are proved to be independent may share batches with those of other images. Otherwise a copy's position in
    its batch is a function of its number, each look is at whole batches, and α is at most ¼ (docs/looks.md). Without
    looks α is at most ¼ too, unless rows vote alone.
    """
    asked, proved, bound = settings.goal, survey.identity.independence.proved, settings.bound
    if asked is not None and asked.any_bound:
        bound = usual_bound(asked.radii is not None, proved)
    if not proved and not BOUNDS[bound].positions:
        raise ValueError(
            f"the bound {bound} needs rows that are proved to be independent, and these are "
            f"{survey.identity.independence.text}: leave the bound out, or choose clopper-pearson"
        )
    if settings.looks is not None:
        return settings
    if not proved and not (asked is None and survey.identity.independence.measured):
        check_alpha_unproved(settings.alpha, looks=asked is not None)
    if asked is None:
        check_bound(bound, 1, radii=False)
        return settings
    if asked.skip_wrong and all(label is None for label in inputs.labels):
        raise ValueError("to skip images whose selected class is wrong needs labels, and these images have none")
    shares = proved and asked.stops_early and settings.noise == "fresh"
    whole = None if shares else survey.batch
    looks = looks_for(asked, survey.law, settings.n, settings.alpha, bound, whole, _most_paid(survey.law, inputs))
    if shares:
        looks = replace(looks, group=group_for(survey.batch))
    return replace(settings, bound=bound, looks=looks)


def _most_paid(law: Law, inputs: Inputs) -> Fraction:
    """The most that a radius may have to pay for rounding to the grid; 0 if all images are on it."""
    if not inputs.rounded:
        return Fraction(0)
    tolerance, size = law.grid.tolerance, inputs.levels[0].size
    return Fraction(price_above(tolerance**2 * size, tolerance, size))


def group_for(batch: int) -> Group:
    """Enough images to fill batches from the first look on, and so long packs that what pads their ends is little."""
    return Group(GROUP_IMAGES, PACK_BATCHES * batch)


@dataclass(frozen=True)
class RunPlan:
    """What was promised, who votes, and everything else that is needed to keep the promise."""

    pool: WorkerPool
    survey: ModelSurvey
    """What the first worker has found of the model, with the promised identity."""
    inputs: Inputs
    settings: Settings
    secret: Secret
    promise: Promise
    notice: str | None = None
    """What the user is to be told of the rows' independence before the first vote."""

    @cached_property
    def job(self) -> VotingJob:
        """What a worker has to know."""
        survey, key = self.survey, self.secret.key(self.promise)
        return VotingJob(survey.identity, self.settings, self.inputs.shape, survey.batch, key, survey.artifact)

    def sampled_rows(self, place: int, votes: ImageVotes) -> SampledRows | None:
        """The rows of an image that vote again, alone, among all copies that have voted; None if none were promised."""
        if not self.survey.identity.independence.measured:
            return None
        return sample_rows(self.secret, self.promise, self.inputs.indices[place], votes.estimation.total)

    def image(self, place: int) -> Image:
        """What a worker sees of the image at a place."""
        return Image(self.inputs.indices[place], self.inputs.levels[place])

    def paid(self, place: int) -> float | None:
        """What the radius at a place is less by, because floats were rounded to the grid; None if none were."""
        return self.inputs.paid(place, self.survey.law.grid)

    def coin(self, place: int) -> str | None:
        """The bits that the bound of the image at a place is given; None unless the bound is randomized."""
        if not BOUNDS[self.settings.bound].coin:
            return None
        return self.secret.coin(self.promise, self.inputs.indices[place])

    def block_size(self, kept: bool) -> int:
        """How many copies vote together in a run that is `kept` in a file, or in memory."""
        looks, on_gpu = self.settings.looks, self.survey.identity.device != "cpu"
        if looks is not None and looks.group is not None:
            return looks.group.copies
        return block_size(self.settings, self.survey.batch, self.inputs.levels[0].size, kept, on_gpu)

    def rounds(self, kept: bool) -> list[list[VoteBlock]]:
        """All blocks of an image, as they are voted from decision to decision."""
        return vote_rounds(self.settings, self.block_size(kept))

    @cached_property
    def group(self) -> int:
        """How many consecutive images go through the run together."""
        return len(self.inputs) if self.settings.noise == "batchwise" else self.sharing

    @cached_property
    def sharing(self) -> int:
        """How many consecutive images share batches."""
        looks = self.settings.looks
        return 1 if looks is None or looks.group is None else looks.group.images

    def certificate(
        self,
        place: int,
        found: Verdict,
        votes: ImageVotes,
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
            selection=votes.selection,
            estimation=votes.estimation,
            looks=votes.looks,
            promise=self.promise,
            seed=self.secret.seed.hex(),
            nonce=self.secret.nonce.hex(),
            environment={**environment, **self.inputs.recorded},
            seconds=seconds,
            measured=measured,
            paid=self.paid(place),
            coin=self.coin(place),
        )
