"""`soundsmooth certify --out run.db`, and `soundsmooth runs`: runs that can be interrupted, looked at and exported."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Bar
from rich.table import Table

from ..certificate import Certificate
from ..promise import Inputs, Secret, secret
from ..report import decimal_below, radii_that_occur
from ..runs.engine import Run, Smoothing, run_of
from ..runs.export import export
from ..runs.resume import Engine, certify_into, open_store
from ..runs.store import Failure, Progress, Store, terms_at
from ..runs.summary import average_certified_radius, certified_accuracies, labelled
from ..settings import Settings
from .certify import ROW, check_commitment, chosen_settings, noted_commitment, show_claim, show_head, show_row
from .elsewhere import muster, votes_elsewhere
from .options import Choices
from .plain import line, say, shown
from .shared import inputs, progress_bar, smoother

#: Some images failed: the others are certified, and the run can be continued.
SOME_FAILED = 1


def certify_into_run(choices: Choices) -> None:
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
                _certify(issued, store, bar)
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


def _certify(issued: Iterator[Certificate | Failure], store: Store, bar: Bar) -> None:
    try:
        for record in issued:
            if isinstance(record, Failure):
                _show_failure(bar.console, record)
            else:
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


def _show_failure(console: Console, failure: Failure) -> None:
    label = "?" if failure.truth is None else failure.truth
    row = ROW.format(failure.index, label, "failed", "0.0000", "no", "")
    line(console, f"[red]{row} {escape(shown(failure.error))}[/]")


def show_run(path: Path) -> None:
    """What was promised, how far the run is, and what it says so far."""
    console = Console()
    with Store.read(path) as store:
        for name, value in store.terms.promise.values.items():
            say(console, f"{name + ':':<15}{value}")
        console.print()
        say(console, f"What follows is what the file says. Whether it is so: soundsmooth verify {path}")
        show_summary(console, store)


def show_summary(console: Console, store: Store) -> None:
    done, first = store.progress(), next(store.certificates(), None)  # which may be damaged: said before all else
    finding = next(store.findings(), None)
    console.print()
    say(console, _state(done))
    _show_troubles(console, store, done, finding)
    settings, sigma = store.terms.settings, Fraction(store.terms.promise.values["sigma"])
    if labelled(store) and done.finished:
        _show_accuracy(console, store, radii_that_occur(sigma, settings))
    if first is None:
        say(console, f"Commitment {store.terms.promise.commitment}")
    else:
        show_claim(console, first, settings.alpha, done.finished)


def _state(done: Progress) -> str:
    parts = [f"{done.certified} certified", f"{done.abstained} abstained"]
    parts += [f"{done.failed} failed"] if done.failed else []
    parts += [f"{done.open} to do"] if done.open else []
    return f"{done.images} images: {', '.join(parts)}"


def _show_troubles(console: Console, store: Store, done: Progress, finding: tuple[int, str] | None) -> None:
    if done.failed:
        first = next(store.failures())
        say(
            console,
            f"A failed image is a wrong answer; the same command tries again, on the same noise. The first is image "
            f"{first.index}, after {first.attempts} attempts: {first.error}",
        )
    if finding is not None:
        number, text = finding
        say(console, f"{done.findings} findings. The first is about image {number}: {text}")


def _show_accuracy(console: Console, store: Store, radii: list[Fraction]) -> None:
    table = Table(title="certified accuracy", title_justify="left")
    table.add_column("radius >")
    table.add_column("share of images")
    for radius, share in zip(radii, certified_accuracies(store, radii), strict=True):
        table.add_row(decimal_below(radius, 2), decimal_below(share))
    console.print()
    console.print(table)
    say(console, f"average certified radius {decimal_below(average_certified_radius(store))}")
    if store.progress().open:
        say(console, "Images that are still to do count as wrong answers.")


def export_run(path: Path, to: Path) -> None:
    """Write the certificates of a run to another file."""
    with Store.read(path) as store:
        count, done = export(store, to), store.progress()
    left = f"; {done.open} images are still to do" if done.open else ""
    say(Console(), f"{count} of {done.images} images written to {to}{left}")
