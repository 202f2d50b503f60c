"""`soundsmooth certify`: a row per image while it runs, then what they say together."""

import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ..certificate import Certificate, truncated
from ..core.independence import Independence
from ..models.protocol import named
from ..noise import Law
from ..promise import Inputs, Promise, Secret, is_digest, secret
from ..report import (
    average_certified_radius,
    certified_accuracy,
    decimal_above,
    decimal_below,
    largest_radius,
    radii_that_occur,
)
from ..runs.database import is_run
from ..runs.engine import Smoothing, certify_inputs, promise_of
from ..runs.output import CERTIFY_HEADER, SUFFIXES, Output, check_new_file
from ..settings import Settings, settings
from ..smoother import Smoother
from .elsewhere import muster, votes_elsewhere
from .options import Choices
from .plain import line, say
from .shared import inputs, is_demo, progress_bar, smoother

DEMO_COPIES = 10_000
ALL_IMAGES = 1000
ROW = "{:>6}  {:>5}  {:>7}  {:>9}  {:<8}  {:>7}"


def run_certify(choices: Choices) -> None:
    """Certify, show, write."""
    if is_run(choices.path("out")):
        from .runs import certify_into_run

        return certify_into_run(choices)
    if votes_elsewhere(choices):
        raise ValueError("--engine, --address and --timeout are for a run that is kept: name it with --out run.db")
    chosen, noted = chosen_settings(choices), noted_commitment(choices)
    hidden = secret(choices.get("seed"), choices.get("nonce"))
    with Output(choices.path("out"), CERTIFY_HEADER, (*SUFFIXES, ".db")) as output:
        smooth = smoother(choices)
        images = inputs(choices, smooth.smoothing.law.grid)
        check_commitment(
            noted,
            lambda: _promised(smooth.smoothing, images, chosen, hidden),
        )
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


def print_promise(choices: Choices, out: Path | None = None) -> None:
    """The promise's text on standard output or in a file, exactly as it is hashed, and C on standard error."""
    if out is not None:
        check_new_file(out, (".txt",))
    if choices.get("seed") is None:
        raise ValueError(
            "commit needs a --seed, and certify the same one: for example 64 digits of openssl rand -hex 32"
        )
    chosen, hidden = chosen_settings(choices), secret(choices.get("seed"))
    promise = _promise(choices, chosen, hidden)
    text = promise.text.encode("ascii")  # bytes: a system's own line ends would change the hash
    if out is None:
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
    else:
        out.write_bytes(text)
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"commitment {promise.commitment}")


def _promise(choices: Choices, chosen: Settings, hidden: Secret) -> Promise:
    if votes_elsewhere(choices):
        with muster(choices, chosen, None) as (crowd, mixed):
            return crowd.run(hidden, mixed).promise
    smoothing = smoother(choices).smoothing
    images = inputs(choices, smoothing.law.grid)
    return _promised(smoothing, images, chosen, hidden)


def _promised(smoothing: Smoothing, images: Inputs, chosen: Settings, hidden: Secret) -> Promise:
    identity = smoothing.identity(images.shape, smoothing.batch_for(images.shape, chosen.n))
    return promise_of(smoothing, identity, images, chosen, hidden)


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


def chosen_settings(choices: Choices) -> Settings:
    asked = choices.only_given("n0", "n", "alpha", "bound", "noise")
    if is_demo(choices):
        asked.setdefault("n", DEMO_COPIES)
    return settings(**asked)


def show_head(console: Console, law: Law, images: Inputs, chosen: Settings, independence: Independence) -> None:
    line(
        console,
        f"{len(images.levels)} × {'×'.join(map(str, images.shape))}, σ = {_exact(law.sigma)}, n₀ = {chosen.n0}, "
        f"n = {chosen.n}, α = {_exact(chosen.alpha)}, {chosen.bound}, {chosen.noise} noise",
    )
    if independence.measured:
        again = f"{independence.rows} rows of each image are voted again, each alone, which takes seconds"
        line(
            console, f"independence is measured: {again}; graphs and torch modules can be proved (soundsmooth inspect)"
        )
    if not largest_radius(law.sigma, chosen, independence.rows):
        why = "at this α nothing can be certified, even if all copies agree"
        line(console, f"[yellow]n = {chosen.n} is too small: {why}[/]")
    line(console, f"[bold]{ROW.format('idx', 'label', 'predict', 'radius', 'correct', 'time')}[/]")


def _exact(value: Fraction) -> str:
    """A rational as a decimal if it has a short one, else as a quotient."""
    decimal = decimal_below(value, 6).rstrip("0").rstrip(".")
    return decimal if Fraction(decimal) == value else str(value)


def show_row(console: Console, record: Certificate) -> None:
    label = "?" if record.truth is None else record.truth
    answer = "abstain" if record.label is None else record.label
    correct, colour = _judgement(record)
    row = ROW.format(record.index, label, answer, truncated(record.radius, 4), correct, f"{record.seconds:.2f} s")
    line(console, f"[{colour}]{row}{''.join(f'  {note}' for note in _notes(record))}[/]")


def _notes(record: Certificate) -> Iterator[str]:
    """What looks like a mistake and would only show as a bad result."""
    nobody = record.selection.nobody + record.estimation.nobody
    if nobody:
        yield f"{nobody} votes for nobody: the scores are NaN"
    last = len(record.estimation.classes) - 1
    if record.truth is not None and not 0 <= record.truth <= last:
        yield f"the model's classes are 0 to {last}: labels must be numbered like them"


def _judgement(record: Certificate) -> tuple[str, str]:
    if record.truth is None:
        return "?", "default"
    if record.label is None:
        return "no", "yellow"
    return ("yes", "green") if record.correct else ("no", "red")


def _show_summary(console: Console, done: list[Certificate], smooth: Smoother, chosen: Settings) -> None:
    law = smooth.smoothing.law
    if all(record.truth is not None for record in done):
        table = Table(title="certified accuracy", title_justify="left")
        table.add_column("radius >")
        table.add_column("share of images")
        for radius in radii_that_occur(law.sigma, chosen):
            table.add_row(decimal_below(radius, 2), decimal_below(certified_accuracy(done, radius)))
        console.print()
        console.print(table)
        console.print(f"average certified radius {decimal_below(average_certified_radius(done))}", highlight=False)
    show_claim(console, done[0], chosen.alpha, len(done))


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
