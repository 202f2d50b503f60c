"""`soundsmooth certify`: a row per image while it runs, then what they say together."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import typer
from rich.console import Console

from ..certification.certificate import Certificate
from ..certification.promise import is_digest
from ..runs.conclusion import why_not_concluded
from ..runs.database import is_run
from ..runs.information import names_of
from ..runs.other_terms import OtherTermsError, how_to_continue
from ..runs.output import CERTIFY_HEADER, SUFFIXES, Output
from ..runs.plan import RunPlan
from ..runs.reader import terms_at
from ..runs.run import finish_run, in_order, meter_of, run_secret, start_run
from ..runs.store import Store
from ..runs.stored import Failure, RunTerms
from .options import Choices, as_written, dashed
from .plain import say, screen
from .prepare import artifact_file, chosen_settings, engine_name, is_demo, named_files, pool_and_images
from .screens import show_head, show_row, show_summary

ALL_IMAGES = 1000
#: Copies of each image in the command for the full run.
ALL_COPIES = 100_000
#: Some images failed: the others are certified, and the run can be continued.
SOME_FAILED = 1


def run_certify(choices: Choices) -> None:
    """Begin a run or continue it, in a file or in memory; it ends when every image has a certificate or has failed."""
    out = choices.path("out")
    kept = out if is_run(out) else None
    if kept is None and engine_name(choices) != "local":
        raise ValueError("--engine, --address and --timeout are for a run that is kept: name it with --out run.db")
    chosen, begun = chosen_settings(choices), terms_at(kept)
    hidden = run_secret(begun, choices.get("seed"), choices.get("nonce"))  # wrong ones before the model is loaded
    noted, unseeded = noted_commitment(choices, begun), begun is None and choices.get("seed") is None
    votes, mixed = not choices.get("no_votes"), bool(choices.get("allow_mixed"))
    console, names = screen(choices.get("quiet", False)), names_of(*named_files(choices))
    output = Output(None if kept else out, CERTIFY_HEADER, (*SUFFIXES, ".db"))
    with output, pool_and_images(choices, begun) as (pool, images), advised():
        plan, store = start_run(
            pool, images, chosen, hidden, kept, begun=begun, votes=votes, allow_mixed=mixed, commitment=noted,
            may_take_over=unseeded, names=names, artifact=artifact_file(choices),
        )  # fmt: skip
        with store:
            _finish(console, plan, store, output)
            _show_end(console, choices, store, output)


def _finish(console: Console, plan: RunPlan, store: Store, output: Output) -> None:
    """Certify, with a row on the screen and a record in the file for each image as soon as it is finished.

    Without a run's file the rows and records have the order of the images, however many workers there are.
    """

    def show(record: Certificate | Failure) -> None:
        if isinstance(record, Certificate):
            output.certificate(record)
        elif store.path is None:
            raise ValueError(
                f"the model failed: {record.error}; {_so_far(store, output)}. "
                "With --out run.db such an image fails alone, and the others go on"
            )
        show_row(console, record)

    notices = [each for each in (plan.notice, plan.survey.slower, plan.survey.chosen) if each is not None]
    show_head(console, plan.survey.law, plan.inputs, plan.settings, plan.survey.identity.independence, notices)
    _show_before(console, store)
    ordered = nullcontext(show) if store.path is not None else in_order(plan.inputs.indices, show)
    try:
        with meter_of(plan, store, console) as meter, ordered as on_result:
            finish_run(plan, store, on_result, meter)
    except KeyboardInterrupt:
        say(console, f"stopped: {_so_far(store, output)}{_left(store, output)}")
        raise typer.Exit(130) from None


def _so_far(store: Store, output: Output) -> str:
    done = store.progress()
    where = f", written to {output.path}" if output.path and done.finished else ""
    return f"{done.finished} of {done.images} images are {'certified' if store.path is None else 'finished'}{where}"


def _left(store: Store, output: Output) -> str:
    """How a run that was stopped can be continued."""
    if store.path is not None:
        can_end = why_not_concluded(store.terms) is None
        ends = f", or soundsmooth runs conclude {store.path} ends it as it is" if can_end else ""
        return f"; the same command continues{ends}"
    return "; this cannot be continued, a run with --out run.db can" if output.path else ""


def _show_before(console: Console, store: Store) -> None:
    before = store.progress()
    if before.finished or store.copies_voted():
        say(console, f"continued: {before.finished} of {before.images} images are finished")


def _show_end(console: Console, choices: Choices, store: Store, output: Output) -> None:
    """What the run says, where it is, and what to do next."""
    done, verbose = store.progress(), choices.get("verbose", False)
    show_summary(console, store, verbose, verbose or choices.get("commitment") is not None)
    if store.path or output.path:
        console.print()
        say(console, f"kept in {store.path}" if store.path else f"written to {output.path}")
    if is_demo(choices) and done.finished and done.images < ALL_IMAGES and store.path is None:
        _show_next(console, store)
    if done.failed:
        raise typer.Exit(SOME_FAILED)


def _show_next(console: Console, store: Store) -> None:
    """The command for the full run, which may be interrupted, and how long it would take at the speed just seen."""
    seconds = sum(record.seconds for record in store.certificates())
    hours = seconds / store.copies_voted() * (100 + ALL_COPIES) * ALL_IMAGES / 3600
    asked = store.terms.asked
    each, about = ("up to ", "at most") if asked else ("", "about")
    time = f"{about} {hours:.1f} h at this speed"
    console.print(f"\nAll {ALL_IMAGES} embedded images with {each}{ALL_COPIES} copies each ({time}):", highlight=False)
    stops = "".join(f" {as_written(name, value)}" for name, value in asked.items() if name != "looks")
    command = f"soundsmooth certify --limit {ALL_IMAGES} --n {ALL_COPIES}{stops} --out fashion.db"
    console.print(f"  {command}", highlight=False, soft_wrap=True)


@contextmanager
def advised() -> Iterator[None]:
    """Where a run was begun with other options, say which to add, as they are written on the command line."""
    try:
        yield
    except OtherTermsError as error:
        raise ValueError(error.said + how_to_continue(error.begun_with, as_written, dashed)) from None


def noted_commitment(choices: Choices, begun: RunTerms | None) -> str | None:
    """The commitment that was given. A run that has begun holds the seed; a new one needs it."""
    expected: str | None = choices.get("commitment")
    if expected is None:
        return None
    if begun is None and choices.get("seed") is None:
        raise ValueError("--commitment needs the --seed that was committed to: a new one makes another promise")
    noted = expected.strip().lower()
    if not is_digest(noted):
        raise ValueError(f"the commitment must be 64 hexadecimal digits, not {expected!r}")
    return noted
