"""What is shown of certificates: a row for each image, what they say together, and what may be concluded."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..certification.card import spent_text, unit_of
from ..certification.certificate import ABORTED, WRONG_CLASS, Certificate
from ..certification.promise import Inputs
from ..certification.report import decimal_above, decimal_below, largest_radius, radii_that_occur
from ..certification.settings import Settings
from ..core.decimals import exact_text, grouped, truncated
from ..core.independence import Independence
from ..noise import Law
from ..noise.law import promised_law
from ..runs.store import Store
from ..runs.stored import Failure, Progress
from ..runs.summary import average_certified_radius, certified_accuracies
from .plain import print_line, printable, say, say_named

ROW = "{:>6}  {:>5}  {:>7}  {:>9}  {:<8}  {:>7}"
#: One more column, where images stop when they are decided.
VOTES = "  {:>9}"
SHARE = "share of images"


def show_head(
    console: Console, law: Law, images: Inputs, chosen: Settings, independence: Independence, notices: Sequence[str]
) -> None:
    """What is going to be certified, and how; a warning if nothing can be. `notices` come before the table."""
    print_line(
        console,
        f"{len(images.levels)} × {'×'.join(map(str, images.shape))}, {_settings(law, chosen)}; "
        f"{escape(radii_unit(law))}",
    )
    if chosen.looks is not None:
        say(console, f"an image stops {chosen.looks.told(chosen.bound)}")
    for notice in notices:
        say(console, notice)
    if not largest_radius(law, chosen, independence.rows):
        why = "at this α nothing can be certified, even if all copies agree"
        print_line(console, f"[yellow]n = {chosen.n} is too small: {why}[/]")
    votes = "" if chosen.looks is None else VOTES.format("votes")
    print_line(console, f"[bold]{ROW.format('idx', 'label', 'predict', 'radius', 'correct', 'time')}{votes}[/]")


def show_row(console: Console, record: Certificate | Failure) -> None:
    """One image: its certificate, or why it has none."""
    if isinstance(record, Failure):
        return _show_failure(console, record)
    label = "?" if record.truth is None else record.truth
    answer = record.label if record.label is not None else "skipped" if record.skipped else "abstain"
    correct, colour = judge(record.label, record.truth)
    row = ROW.format(record.index, label, answer, truncated(record.radius, 4), correct, f"{record.seconds:.2f} s")
    votes = "" if record.looks is None else VOTES.format(grouped(record.votes))
    print_line(console, f"[{colour}]{row}{votes}{''.join(f'  {note}' for note in _notes(record))}[/]")


def _show_failure(console: Console, failure: Failure) -> None:
    label = "?" if failure.truth is None else failure.truth
    row = ROW.format(failure.index, label, "failed", "0.0000", "no", "")
    print_line(console, f"[red]{row} {escape(printable(failure.error))}[/]")


def _notes(record: Certificate) -> Iterator[str]:
    """What looks like a mistake and would only show as a bad result, or as one that another run would not have."""
    if record.aborted:
        yield f"aborted: {ABORTED}"
    nobody = record.selection.nobody + record.estimation.nobody
    if nobody:
        yield f"{nobody} votes for nobody: the scores are NaN"
    last = len(record.estimation.classes) - 1
    if record.truth is not None and not 0 <= record.truth <= last:
        yield f"the model's classes are 0 to {last}: labels must be numbered like them"


def judge(label: int | None, truth: int | None) -> tuple[str, str]:
    """Whether an answer is correct, and the colour of its row."""
    if truth is None:
        return "?", "default"
    if label is None:
        return "no", "yellow"
    return ("yes", "green") if label == truth else ("no", "red")


def show_file(console: Console, store: Store, path: Path) -> None:
    """What was certified, when, how far it is, and how: what a run's file says of itself, in a few lines."""
    about, done, terms = store.information, store.progress(), store.terms
    say_named(console, "run", str(path))
    say_named(console, "model", about.model or "not recorded")
    say_named(console, "data", about.data or "not recorded")
    say_named(console, "begun", _date(about.begun))
    if about.written is not None:
        ended = "finished" if done.finished == done.images else "last write"
        say_named(console, ended, _date(about.written.isoformat()))
    say_named(console, "settings", _settings(promised_law(terms.promise.values), terms.settings))
    if terms.settings.looks is not None:
        say_named(console, "stops", terms.settings.looks.told(terms.settings.bound))


def _date(text: str) -> str:
    """2026-11-18 05:20:11 UTC; what is no such date is shown as it is."""
    return text.replace("T", " ", 1).removesuffix("+00:00") + " UTC" if text.endswith("+00:00") else text


def _settings(law: Law, chosen: Settings) -> str:
    return (
        f"σ = {exact_text(law.parameter)}, n₀ = {chosen.n0}, n {'=' if chosen.looks is None else '≤'} {chosen.n}, "
        f"α = {exact_text(chosen.alpha)}, "
        f"{chosen.bound}, {chosen.noise} noise"
    )


def show_summary(console: Console, store: Store, verbose: bool = False, commitment: bool = False) -> None:
    """What a run says as a whole, as far as it is: results, then the claim, then details if they are asked for."""
    done, first = store.progress(), next(store.certificates(), None)  # which may be damaged: said before all else
    finding = next(store.findings(), None)
    console.print()
    say(console, _state(done))
    _show_spent(console, store, done)
    if store.labelled():
        _show_accuracies(console, store, done)
    _show_troubles(console, store, done, finding)
    if store.labelled() and done.finished:
        _show_radii(console, store, done)
    if first is not None:
        show_claim(console, first, store.terms.settings.alpha, done.finished)
    if verbose:
        _show_promise(console, store)
    if verbose or commitment or store.terms.secret.nonce:
        say(console, f"Commitment {store.terms.promise.commitment}")


def _show_spent(console: Console, store: Store, done: Progress) -> None:
    """Where images stop when they are decided: the votes of those that are finished, and how the others ended."""
    chosen = store.terms.settings
    if chosen.looks is None or not done.finished:
        return
    most = chosen.n0 + chosen.n
    spent = spent_text(store.copies_spent(), done.finished * most)
    say_named(console, "spent", f"{spent}; one image may spend {grouped(most)}")
    if done.skipped:
        say_named(console, "skipped", f"{images_text(done.skipped)}: {WRONG_CLASS}")
    if done.aborted:
        say_named(console, "aborted", f"{images_text(done.aborted)}: {ABORTED}")


def _show_accuracies(console: Console, store: Store, done: Progress) -> None:
    """Of the smoothed classifier so far, and a bound for all; of the base classifier, where that was counted."""
    correct, so_far = store.correct(), done.images - done.open
    of_all = decimal_below(Fraction(correct, done.images))
    text = f"{of_all} of {done.images} are right and certified"
    if done.open:
        text = f"at least {of_all} of all {done.images}, where images to do count as wrong"
    if done.open and so_far:
        text = f"{decimal_below(Fraction(correct, so_far))} of {so_far} so far; {text}"
    say_named(console, "accuracy", text)
    clean = store.information.clean
    text = "counted at the end, when every image is finished" if done.open else "not counted"
    if clean is not None:
        text = f"{decimal_below(clean)} of {done.images}, by the model itself without noise: one pass, no claim"
    say_named(console, "clean", text)


def _show_radii(console: Console, store: Store, done: Progress) -> None:
    """Certified accuracy at the usual radii, and the mean: of all images, and so far if some are still to do."""
    law, so_far = promised_law(store.terms.promise.values), done.images - done.open
    radii = radii_that_occur(law, store.terms.settings)
    of_all = dict(zip(radii, certified_accuracies(store, radii), strict=True))
    mean, grown = average_certified_radius(store), Fraction(done.images, so_far)
    columns = {SHARE: of_all}
    if done.open:
        columns = {
            f"of {so_far} done so far": {radius: share * grown for radius, share in of_all.items()},
            f"of all {done.images}, at least": of_all,
        }
    show_accuracy(console, columns)
    say(console, radii_unit(law))
    average = f"{decimal_below(mean)}" if not done.open else f"{decimal_below(mean * grown)} so far"
    least = f", at least {decimal_below(mean)} of all" if done.open else ""
    say(console, f"average certified radius {average}{least}; a wrong answer or abstention counts as 0")


def _show_promise(console: Console, store: Store) -> None:
    """The promise, line by line."""
    console.print()
    for name, value in store.terms.promise.values.items():
        say(console, f"{name + ':':<15}{value}")
    console.print()


def _state(done: Progress) -> str:
    parts = [f"{done.certified} certified", f"{done.abstained} abstained"]
    parts += [f"{done.skipped} skipped"] if done.skipped else []
    parts += [f"{done.failed} failed"] if done.failed else []
    parts += [f"{done.open} {'never finished' if done.aborted else 'to do'}"] if done.open else []
    return f"{images_text(done.images)}: {', '.join(parts)}"


def images_text(count: int) -> str:
    return f"{count} image{'s' * (count != 1)}"


def _show_troubles(console: Console, store: Store, done: Progress, finding: tuple[int, str] | None) -> None:
    if done.failed:
        first = next(store.failures())
        say(
            console,
            f"A failed image is a wrong answer; the same command tries again, on the same noise. The first is image "
            f"{first.index}, after {first.attempts} attempts: {first.error}",
        )
    if done.aborted:
        say(
            console,
            f"The run was concluded: {done.aborted} of these {done.finished} images were aborted, and certified at "
            "their last full look. It is not continued.",
        )
    if finding is not None:
        number, text = finding
        say(console, f"{done.findings} findings. The first is about image {number}: {text}")


def show_accuracy(console: Console, columns: Mapping[str, Mapping[Fraction, Fraction]]) -> None:
    """Certified accuracy: for each radius, the share of images that are correct with a larger one, truncated.

    Several columns are several answers for the same radii.
    """
    table = Table("radius >", *columns, title="certified accuracy", title_justify="left")
    for radius in next(iter(columns.values())):
        table.add_row(_radius(radius), *(decimal_below(shares[radius]) for shares in columns.values()))
    console.print()
    console.print(table)


def _radius(radius: Fraction) -> str:
    """0.50, 0.125, 1/3: exactly, with two digits at least."""
    short = decimal_below(radius, 2)
    return short if Fraction(short) == radius else exact_text(radius)


def radii_unit(law: Law) -> str:
    """What a radius is, and in which unit: on every screen that shows one."""
    return f"radii bound {law.norm}, in units of {unit_of(law.grid)}"


def show_claim(console: Console, first: Certificate, alpha: Fraction, count: int) -> None:
    """What may be concluded, for one image and for all of them, and on what it rests."""
    together = f", for any of these {count} with at most {decimal_above(min(alpha * count, Fraction(1)))}"
    key = "Verifier's nonce in the key" if first.nonce else "Self-chosen key"
    console.print()
    for each in (
        f"A false certificate is issued for one image with probability at most {decimal_above(alpha)}"
        f"{together if count > 1 else ''}.",
        f"Independence of rows and calls: {first.independence_claim}. Model: {first.trust}.",
        f"{key} (docs/audit.md).",
    ):
        say(console, each)  # a promise that was read from a file may say anything
