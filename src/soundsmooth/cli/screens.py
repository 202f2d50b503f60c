"""What is shown of certificates: a row for each image, what they say together, and what may be concluded."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..certification.certificate import Certificate
from ..certification.promise import Inputs
from ..certification.report import decimal_above, decimal_below, largest_radius, radii_that_occur
from ..certification.settings import Settings
from ..core.decimals import truncated
from ..core.independence import Independence
from ..noise import Law
from ..noise.law import promised_law
from ..runs.store import Store
from ..runs.stored import Failure, Progress
from ..runs.summary import average_certified_radius, certified_accuracies
from .plain import print_line, printable, say

ROW = "{:>6}  {:>5}  {:>7}  {:>9}  {:<8}  {:>7}"
SHARE = "share of images"


def show_head(
    console: Console, law: Law, images: Inputs, chosen: Settings, independence: Independence, notice: str | None
) -> None:
    """What is going to be certified, and how; a warning if nothing can be. `notice` is about the rows' independence."""
    print_line(
        console,
        f"{len(images.levels)} × {'×'.join(map(str, images.shape))}, σ = {_exact(law.parameter)}, n₀ = {chosen.n0}, "
        f"n = {chosen.n}, α = {_exact(chosen.alpha)}, {chosen.bound}, {chosen.noise} noise",
    )
    if notice is not None:
        say(console, notice)
    if not largest_radius(law, chosen, independence.rows):
        why = "at this α nothing can be certified, even if all copies agree"
        print_line(console, f"[yellow]n = {chosen.n} is too small: {why}[/]")
    print_line(console, f"[bold]{ROW.format('idx', 'label', 'predict', 'radius', 'correct', 'time')}[/]")


def _exact(value: Fraction) -> str:
    """A rational as a decimal if it has a short one, else as a quotient."""
    decimal = decimal_below(value, 6).rstrip("0").rstrip(".")
    return decimal if Fraction(decimal) == value else str(value)


def show_row(console: Console, record: Certificate | Failure) -> None:
    """One image: its certificate, or why it has none."""
    if isinstance(record, Failure):
        return _show_failure(console, record)
    label = "?" if record.truth is None else record.truth
    answer = "abstain" if record.label is None else record.label
    correct, colour = judge(record.label, record.truth)
    row = ROW.format(record.index, label, answer, truncated(record.radius, 4), correct, f"{record.seconds:.2f} s")
    print_line(console, f"[{colour}]{row}{''.join(f'  {note}' for note in _notes(record))}[/]")


def _show_failure(console: Console, failure: Failure) -> None:
    label = "?" if failure.truth is None else failure.truth
    row = ROW.format(failure.index, label, "failed", "0.0000", "no", "")
    print_line(console, f"[red]{row} {escape(printable(failure.error))}[/]")


def _notes(record: Certificate) -> Iterator[str]:
    """What looks like a mistake and would only show as a bad result."""
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


def show_summary(console: Console, store: Store) -> None:
    """What a run says as a whole, as far as it is."""
    done, first = store.progress(), next(store.certificates(), None)  # which may be damaged: said before all else
    finding = next(store.findings(), None)
    console.print()
    say(console, _state(done))
    _show_troubles(console, store, done, finding)
    settings, law = store.terms.settings, promised_law(store.terms.promise.values)
    if store.labelled() and done.finished:
        radii = radii_that_occur(law, settings)
        shares = dict(zip(radii, certified_accuracies(store, radii), strict=True))
        show_accuracy(console, {SHARE: shares}, average_certified_radius(store))
        if done.open:
            say(console, "Images that are still to do count as wrong answers.")
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


def show_accuracy(
    console: Console, columns: Mapping[str, Mapping[Fraction, Fraction]], average: Fraction | None = None
) -> None:
    """Certified accuracy: for each radius, the share of all images that are correct with a larger one, truncated.

    Several columns are several answers for the same radii.
    """
    table = Table("radius >", *columns, title="certified accuracy", title_justify="left")
    for radius in next(iter(columns.values())):
        table.add_row(decimal_below(radius, 2), *(decimal_below(shares[radius]) for shares in columns.values()))
    console.print()
    console.print(table)
    if average is not None:
        say(console, f"average certified radius {decimal_below(average)}")


def show_claim(console: Console, first: Certificate, alpha: Fraction, count: int) -> None:
    """What may be concluded, for one image and for all of them, and on what it rests."""
    warning = "" if first.nonce else " (no claim against an issuer who tries many seeds; see --nonce)"
    together = f", for any of these {count} with at most {decimal_above(min(alpha * count, Fraction(1)))}"
    lines = (
        f"A false certificate is issued for one image with probability at most {decimal_above(alpha)}"
        f"{together if count > 1 else ''}.",
        f"Independence of rows and calls: {first.independence_claim}. Model: {first.trust}. Key: {first.key}{warning}.",
        f"Commitment {first.commitment}",
    )
    console.print()
    for each in lines:
        say(console, each)  # a promise that was read from a file may say anything
