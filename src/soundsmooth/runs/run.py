"""A run for its users: certify into it, open it, look at its certificates, export them."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ..certification.certificate import Certificate
from ..certification.promise import Inputs, Promise, Secret, secret
from ..certification.settings import Settings
from ..exact import Rational, rational
from ..smoothing.classifier import Smoothing
from .artifact_file import keep_artifact
from .conclusion import conclude
from .database import is_run
from .export import export
from .pipeline import Advance, certify_into, open_store
from .plan import RunPlan, plan_run
from .pools import LocalPool, WorkerPool
from .reader import terms_at
from .store import Store
from .stored import Failure, Progress, RunTerms
from .summary import average_certified_radius, certified_accuracies

if TYPE_CHECKING:
    from rich.console import Console

    from ..core.progress import Meter

OnResult = Callable[[Certificate | Failure], None]


class Run:
    """A run as it is now: iterating yields its certificates, in the order of the promised images.

    Images that failed, or are not finished, have no certificate: they are wrong answers in every count.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._store.close()

    @property
    def path(self) -> Path | None:
        """The run's file; None for a run in memory."""
        return self._store.path

    @property
    def promise(self) -> Promise:
        return self._store.terms.promise

    @property
    def commitment(self) -> str:
        """C: the SHA-256 of the promise."""
        return self.promise.commitment

    @property
    def progress(self) -> Progress:
        """How many images are certified, abstained, failed, open."""
        return self._store.progress()

    @property
    def failures(self) -> list[Failure]:
        """The images on which the model failed, and why."""
        return list(self._store.failures())

    @property
    def votes(self) -> int:
        """How many noisy copies have voted so far."""
        return self._store.copies_voted()

    def __len__(self) -> int:
        """The number of certificates, abstentions included."""
        return self.progress.finished

    def __iter__(self) -> Iterator[Certificate]:
        return self._store.certificates()

    def __getitem__(self, index: int) -> Certificate:
        """The certificate of the image with that number in the data set."""
        for certificate in self:
            if certificate.index == index:
                return certificate
        raise KeyError(f"image {index} has no certificate in this run")

    def accuracy(self, radii: Sequence[Rational]) -> list[Fraction]:
        """For each radius, the share of all promised images that are correct with a larger one, compared exactly."""
        if not self._store.labelled():
            raise ValueError("certified accuracy needs labels: give them to certify_all")
        return certified_accuracies(self._store, [rational(radius, "radius") for radius in radii])

    @property
    def clean_accuracy(self) -> Fraction | None:
        """The share of all images that the model itself gets right, without noise; None if it was not counted.

        It is counted after the last vote, in one pass. No claim rests on it.
        """
        return self._store.information.clean

    @property
    def average_radius(self) -> Fraction:
        """The mean of the radii, exactly; a wrong answer or an abstention counts as 0."""
        return average_certified_radius(self._store)

    def export(self, to: str | Path) -> int:
        """Write the certificates to a new .tsv, .csv, .jsonl or .parquet file; returns how many records it has."""
        return export(self._store, Path(to))

    def __repr__(self) -> str:
        done = self.progress
        where = "in memory" if self.path is None else str(self.path)
        return f"<Run {where}: {done.finished} of {done.images} images finished, {done.failed} failed>"


def open_run(path: str | Path) -> Run:
    """A run's file to look at as it is now, finished or not. It may be written to meanwhile, and is not touched."""
    return Run(Store.read(Path(path)))


def conclude_run(path: str | Path) -> Run:
    """End a run that was interrupted: each unfinished image that has a full look is certified there, as `aborted`.

    A false certificate is issued with probability at most α, as ever. Images without a full look stay unfinished. The
    run is not continued afterwards; to conclude it again changes nothing.
    """
    with Store.reopen(Path(path)) as store:
        conclude(store)
    return open_run(path)


def start_run(
    pool: WorkerPool,
    inputs: Inputs,
    settings: Settings,
    hidden: Secret,
    out: Path | None = None,
    *,
    begun: RunTerms | None = None,
    votes: bool = True,
    allow_mixed: bool = False,
    commitment: str | None = None,
    may_take_over: bool = False,
    names: Mapping[str, str] | None = None,
    artifact: Path | None = None,
) -> tuple[RunPlan, Store]:
    """Promise a run and make its store, in a file or in memory; or continue the one in the file, which has `begun`.

    Tuned kernels are kept in the `artifact`'s file before anything is promised.

    With a `commitment`, another promise is rejected. If it `may_take_over`, and another process has begun the run a
    moment ago with a seed of its own, that seed is ours too. A new run notes the `names` of model and data.
    """
    plan = plan_run(pool, inputs, settings, hidden, allow_mixed, continued=begun is not None)
    if commitment is not None and plan.promise.commitment != commitment:
        raise ValueError(
            f"the promise is not the one committed to: its commitment is {plan.promise.commitment}; compare "
            "`soundsmooth commit` with the promise that was sent"
        )
    if plan.survey.artifact is not None and artifact is not None:
        keep_artifact(artifact, plan.survey.artifact)
    try:
        return plan, open_store(out, plan, votes, names)
    except ValueError:
        begun = terms_at(out) if may_take_over else None
        if begun is None:
            raise
    plan = plan_run(pool, inputs, settings, begun.secret, allow_mixed, continued=True)
    return plan, open_store(out, plan, votes, names)


def run_secret(begun: RunTerms | None, seed: str | bytes | None, nonce: str | bytes | None) -> Secret:
    """The given secret; the seed of the run that has begun, if none is given."""
    if begun is None or seed is not None:
        return secret(seed, nonce)
    return begun.secret if nonce is None else secret(begun.secret.seed, nonce)


def finish_run(plan: RunPlan, store: Store, on_result: OnResult = lambda _: None, meter: "Meter | None" = None) -> Run:
    """Certify until every image is finished or has failed; the meter shows how far it is."""
    advance: Advance = _unmetered if meter is None else meter.advance
    with closing(certify_into(store, plan, advance)) as issued:
        for record in issued:
            if meter is not None:
                meter.finish_items(right=record.correct, spent=record.votes if isinstance(record, Certificate) else 0)
            on_result(record)
    return Run(store)


def _unmetered(_: int) -> None:
    pass


def meter_of(plan: RunPlan, store: Store, console: "Console | None" = None) -> "Meter":
    """A meter over the noisy copies of a run and its images, from where it stands."""
    from ..core.progress import Meter

    copies, done = plan.settings.n0 + plan.settings.n, store.progress()
    right = store.correct() if store.labelled() else None
    spent = None if plan.settings.looks is None else store.copies_spent()
    return Meter("certifying", done.images * copies, done.images, start=store.copies_voted(), finished=done.finished,
                 right=right, spent=spent, console=console)  # fmt: skip


@contextmanager
def in_order(indices: Sequence[int], use: OnResult) -> Iterator[OnResult]:
    """Hand records on in the order of the images: each when all before it are there, and at the end what is left."""
    waiting, following = dict[int, Certificate | Failure](), deque(indices)

    def take(record: Certificate | Failure) -> None:
        waiting[record.index] = record
        while following and following[0] in waiting:
            use(waiting.pop(following.popleft()))

    try:
        yield take
    finally:
        for index in following:  # finished, though something before it is not
            if isinstance(record := waiting.get(index), Certificate):
                use(record)


def certify_inputs(smoothing: Smoothing, inputs: Inputs, settings: Settings, hidden: Secret) -> Run:
    """A run in memory, voted on in this process."""
    plan, store = start_run(LocalPool(smoothing), inputs, settings, hidden)
    return finish_run(plan, store)


def check_run_path(out: str | Path | None) -> Path | None:
    """The path of a run; a ValueError for a name that is none."""
    path = None if out is None else Path(out)
    if path is not None and not is_run(path):
        raise ValueError(f"a run is kept in a .db file, not in {str(path)!r}; Run.export writes other formats")
    return path
