"""`soundsmooth certify`: a row per image while it runs, then what they say together."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress

from ..certificate import Certificate
from ..models.protocol import named
from ..promise import Inputs, Promise, Secret, is_digest, secret
from ..report import average_certified_radius, certified_accuracy, radii_that_occur
from ..runs.database import is_run
from ..runs.engine import Run, Smoothing, certify_inputs, run_of
from ..runs.output import CERTIFY_HEADER, SUFFIXES, Output
from ..runs.resume import Engine, certify_into, open_store
from ..runs.store import Failure, Store, terms_at
from ..settings import Settings
from ..smoother import Smoother
from .choices import Choices
from .elsewhere import muster, votes_elsewhere
from .plain import say
from .screens import SHARE, show_accuracy, show_claim, show_head, show_row, show_summary
from .shared import chosen_settings, inputs, is_demo, progress_bar, promised, smoother

ALL_IMAGES = 1000
#: Some images failed: the others are certified, and the run can be continued.
SOME_FAILED = 1


def run_certify(choices: Choices) -> None:
    """Certify, show, write."""
    if is_run(choices.path("out")):
        return _certify_into_run(choices)
    if votes_elsewhere(choices):
        raise ValueError("--engine, --address and --timeout are for a run that is kept: name it with --out run.db")
    chosen, noted = chosen_settings(choices), noted_commitment(choices)
    hidden = secret(choices.get("seed"), choices.get("nonce"))
    with Output(choices.path("out"), CERTIFY_HEADER, (*SUFFIXES, ".db")) as output:
        smooth = smoother(choices)
        images = inputs(choices, smooth.smoothing.law.grid)
        check_commitment(noted, lambda: promised(smooth.smoothing, images, chosen, hidden))
        bar = progress_bar()
        task = bar.add_task("certifying", total=len(images.levels) * (chosen.n0 + chosen.n))
        records = certify_inputs(smooth.smoothing, images, chosen, hidden, lambda done: bar.advance(task, done))
        with bar:  # from here on something is shown
            identity = smooth.smoothing.identity(images.shape, smooth.smoothing.batch_for(images.shape, chosen.n))
            show_head(bar.console, smooth.smoothing.law, images, chosen, identity.independence)
            done = _certify(records, len(images.levels), output, bar)
    _show_summary(bar.console, done, smooth, chosen)
    if choices.path("out"):
        bar.console.print()
        say(bar.console, f"written to {choices.path('out')}")
    if is_demo(choices) and len(done) < ALL_IMAGES:
        _show_next(bar.console, done, chosen)


def _certify(records: Iterator[Certificate], count: int, output: Output, bar: Progress) -> list[Certificate]:
    """Certify all images, with a row and a record for each as soon as it is finished."""
    done: list[Certificate] = []
    try:
        for record in records:
            output.certificate(record)
            show_row(bar.console, record)
            done.append(record)
    except KeyboardInterrupt:
        bar.stop()
        left = "; this cannot be continued, a run with --out run.db can" if output.path else ""
        say(bar.console, f"stopped: {_so_far(done, count, output)}{left}")
        raise typer.Exit(130) from None
    except (ValueError, ArithmeticError, MemoryError, OSError):  # main says them in one line as they are
        raise
    except Exception as error:  # the model's: it is somebody else's code
        raise ValueError(
            f"the model failed: {named(error)}; {_so_far(done, count, output)}. "
            "With --out run.db such an image fails alone, and the others go on"
        ) from error
    return done


def _so_far(done: list[Certificate], count: int, output: Output) -> str:
    where = f", written to {output.path}" if output.path and done else ""
    return f"{len(done)} of {count} images are certified{where}"


def noted_commitment(choices: Choices, seeded: bool = False) -> str | None:
    """The commitment that was given, before any model is loaded; `seeded`: a run that has begun holds the seed."""
    expected: str | None = choices.get("commitment")
    if expected is None:
        return None
    if not seeded and choices.get("seed") is None:
        raise ValueError("--commitment needs the --seed that was committed to: a new one makes another promise")
    noted = expected.strip().lower()
    if not is_digest(noted):
        raise ValueError(f"the commitment must be 64 hexadecimal digits, not {expected!r}")
    return noted


def check_commitment(noted: str | None, made: Callable[[], Promise]) -> None:
    """Refuse to toss a coin under another promise than the one that was committed to."""
    if noted is None:
        return
    promise = made()
    if promise.commitment != noted:
        raise ValueError(
            f"the promise is not the one committed to: its commitment is {promise.commitment}; compare "
            "`soundsmooth commit` with the promise that was sent"
        )


def _show_next(console: Console, done: list[Certificate], chosen: Settings) -> None:
    """The command for the full run, which may be interrupted, and how long it would take at the speed just seen."""
    copies = 100_000
    seconds = sum(record.seconds for record in done) / len(done) / (chosen.n0 + chosen.n) * (100 + copies) * ALL_IMAGES
    console.print(
        f"\nAll {ALL_IMAGES} embedded images with {copies} copies each (about {seconds / 3600:.1f} h at this speed):",
        highlight=False,
    )
    command = f"soundsmooth certify --limit {ALL_IMAGES} --n {copies} --out fashion.db"
    console.print(f"  {command}", highlight=False, soft_wrap=True)


def _show_summary(console: Console, done: list[Certificate], smooth: Smoother, chosen: Settings) -> None:
    law = smooth.smoothing.law
    if all(record.truth is not None for record in done):
        shares = {radius: certified_accuracy(done, radius) for radius in radii_that_occur(law.sigma, chosen)}
        show_accuracy(console, {SHARE: shares}, average_certified_radius(done))
    show_claim(console, done[0], chosen.alpha, len(done))


def _certify_into_run(choices: Choices) -> None:
    """Begin a run or continue it; it ends when every image has a certificate or has failed."""
    path = choices.path("out")
    assert path is not None
    chosen = chosen_settings(choices)
    _secret(choices, path)  # what is wrong with file, seed or commitment is said before the model is loaded
    noted_commitment(choices, seeded=terms_at(path) is not None)
    if votes_elsewhere(choices):
        with muster(choices, chosen, terms_at(path)) as (crowd, mixed):
            store, run = _open(choices, path, lambda hidden: crowd.run(hidden, mixed))
            return _finish(path, store, run, crowd.engine(run, choices.get("timeout")))
    smooth = smoother(choices)
    images = inputs(choices, smooth.smoothing.law.grid)
    store, run = _open(choices, path, lambda hidden: _run_here(path, smooth.smoothing, images, chosen, hidden))
    return _finish(path, store, run)


def _finish(path: Path, store: Store, run: Run, engine: Engine | None = None) -> None:
    with store:
        bar = progress_bar()
        task = bar.add_task("certifying", total=len(run.inputs.levels) * (run.settings.n0 + run.settings.n))
        with bar:
            show_head(bar.console, run.smoothing.law, run.inputs, run.settings, run.promise.independence)
            _show_before(bar.console, store)
            bar.advance(task, store.copies_voted())
            issued = certify_into(store, run, lambda done: bar.advance(task, done), engine=engine)
            with closing(issued):
                _show_issued(issued, store, bar)
        show_summary(bar.console, store)
        bar.console.print()
        say(bar.console, f"kept in {path}")
        if store.progress().failed:
            raise typer.Exit(SOME_FAILED)


def _run_here(path: Path, smoothing: Smoothing, images: Inputs, chosen: Settings, hidden: Secret) -> Run:
    begun = terms_at(path)
    if begun is not None and smoothing.batch is None and smoothing.model.place is not None:
        # What fits on a GPU is found by trying; a run that has begun keeps what was found then.
        smoothing = replace(smoothing, batch=int(begun.promise.values["batch"]))
    return run_of(smoothing, images, chosen, hidden)


def _open(choices: Choices, path: Path, run_with: Callable[[Secret], Run], again: bool = True) -> tuple[Store, Run]:
    begun = terms_at(path)
    run = run_with(_secret(choices, path))
    check_commitment(noted_commitment(choices, seeded=begun is not None), lambda: run.promise)
    try:
        return open_store(path, run, votes=not choices.get("no_votes", False)), run
    except ValueError:
        # Another process may have begun the run a moment ago, with a seed of its own, which is then ours too.
        if again and begun is None and choices.get("seed") is None:
            return _open(choices, path, run_with, again=False)
        raise


def _secret(choices: Choices, path: Path) -> Secret:
    """What was given; the seed of the run that is there already, if none was."""
    seed, nonce = choices.get("seed"), choices.get("nonce")
    begun = terms_at(path) if seed is None else None
    if begun is None:
        return secret(seed, nonce)
    return begun.secret if nonce is None else secret(begun.secret.seed, nonce)


def _show_issued(issued: Iterator[Certificate | Failure], store: Store, bar: Progress) -> None:
    try:
        for record in issued:
            show_row(bar.console, record)
    except KeyboardInterrupt:
        bar.stop()
        done = store.progress()
        say(bar.console, f"stopped: {done.finished} of {done.images} images are finished; the same command continues")
        raise typer.Exit(130) from None


def _show_before(console: Console, store: Store) -> None:
    before = store.progress()
    if before.finished or store.copies_voted():
        say(console, f"continued: {before.finished} of {before.images} images are finished")
