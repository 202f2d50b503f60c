"""`soundsmooth runs`: runs that certify keeps in a file are looked at and exported."""

from fractions import Fraction
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..noise import promised_law
from ..report import decimal_below, radii_that_occur
from ..runs.export import export
from ..runs.reader import RunReader
from ..runs.stored import Failure, Progress
from ..runs.summary import average_certified_radius, certified_accuracies
from .certify import ROW, show_claim
from .plain import line, say, shown

#: Some images failed: the others are certified, and the run can be continued.
SOME_FAILED = 1


def show_failure(console: Console, failure: Failure) -> None:
    label = "?" if failure.truth is None else failure.truth
    row = ROW.format(failure.index, label, "failed", "0.0000", "no", "")
    line(console, f"[red]{row} {escape(shown(failure.error))}[/]")


def show_run(path: Path) -> None:
    """What was promised, how far the run is, and what it says so far."""
    console = Console()
    with RunReader.read(path) as store:
        for name, value in store.terms.promise.values.items():
            say(console, f"{name + ':':<15}{value}")
        console.print()
        say(console, f"What follows is what the file says. Whether it is so: soundsmooth verify {path}")
        show_summary(console, store)


def show_summary(console: Console, store: RunReader) -> None:
    done, first = store.progress(), next(store.certificates(), None)  # which may be damaged: said before all else
    finding = next(store.findings(), None)
    console.print()
    say(console, _state(done))
    _show_troubles(console, store, done, finding)
    settings, law = store.terms.settings, promised_law(store.terms.promise.values)
    if store.labelled() and done.finished:
        _show_accuracy(console, store, radii_that_occur(law, settings))
    if first is None:
        say(console, f"Commitment {store.terms.promise.commitment}")
    else:
        show_claim(console, first, settings.alpha, done.finished)


def _state(done: Progress) -> str:
    parts = [f"{done.certified} certified", f"{done.abstained} abstained"]
    parts += [f"{done.failed} failed"] if done.failed else []
    parts += [f"{done.open} to do"] if done.open else []
    return f"{done.images} images: {', '.join(parts)}"


def _show_troubles(console: Console, store: RunReader, done: Progress, finding: tuple[int, str] | None) -> None:
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


def _show_accuracy(console: Console, store: RunReader, radii: list[Fraction]) -> None:
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
    with RunReader.read(path) as store:
        count, done = export(store, to), store.progress()
    left = f"; {done.open} images are still to do" if done.open else ""
    say(Console(), f"{count} of {done.images} images written to {to}{left}")
