"""`soundsmooth certify`: a row per image while it runs, then what they say together."""

import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import typer
from rich import get_console
from rich.console import Console

from ..certificate import Certificate
from ..core.decimals import truncated
from ..core.independence import Independence
from ..noise import Law
from ..progress import progress_bar
from ..promise import Inputs, Promise, Secret, is_digest, secret
from ..report import decimal_above, decimal_below, largest_radius
from ..runs.database import is_run
from ..runs.output import CERTIFY_HEADER, SUFFIXES, Output, check_new_file
from ..runs.plan import RunPlan, plan_run
from ..runs.run import begun_terms, finish_run, run_secret, start_run
from ..runs.store import Store
from ..runs.stored import Failure
from ..settings import Settings, settings
from .elsewhere import pool_and_images, votes_elsewhere
from .options import Choices
from .plain import line, say
from .shared import is_demo

DEMO_COPIES = 10_000
ALL_IMAGES = 1000
ROW = "{:>6}  {:>5}  {:>7}  {:>9}  {:<8}  {:>7}"


def run_certify(choices: Choices) -> None:
    """Begin a run or continue it, in a file or in memory; it ends when every image has a certificate or has failed."""
    out = choices.path("out")
    kept = out if is_run(out) else None
    if kept is None and votes_elsewhere(choices):
        raise ValueError("--engine, --address and --timeout are for a run that is kept: name it with --out run.db")
    chosen, begun = chosen_settings(choices), begun_terms(kept)
    hidden = run_secret(begun, choices.get("seed"), choices.get("nonce"))  # wrong ones before the model is loaded
    noted = noted_commitment(choices, seeded=begun is not None)
    output = Output(None if kept else out, CERTIFY_HEADER, (*SUFFIXES, ".db"))
    with output, pool_and_images(choices, begun) as (pool, images):
        plan, store = start_run(
            pool,
            images,
            chosen,
            hidden,
            kept,
            votes=not choices.get("no_votes", False),
            allow_mixed=bool(choices.get("allow_mixed")),
            commitment=noted,
            may_take_over=begun is None and choices.get("seed") is None,
        )
        with store:
            _finish(plan, store, output)
            _show_end(choices, store, output)


def _finish(plan: RunPlan, store: Store, output: Output) -> None:
    """Certify, with a row on the screen and a record in the file for each image as soon as it is finished."""
    from .runs import show_failure

    bar = progress_bar()
    task = bar.add_task("certifying", total=len(plan.inputs.levels) * (plan.settings.n0 + plan.settings.n))

    def show(record: Certificate | Failure) -> None:
        if isinstance(record, Failure):
            show_failure(bar.console, record)
        else:
            output.certificate(record)
            show_row(bar.console, record)

    with bar:
        show_head(bar.console, plan.law, plan.inputs, plan.settings, plan.identity.independence)
        _show_before(bar.console, store)
        bar.advance(task, store.copies_voted())
        try:
            finish_run(plan, store, show, partial(bar.advance, task))
        except KeyboardInterrupt:
            bar.stop()
            say(bar.console, f"stopped: {_so_far(store, output)}")
            raise typer.Exit(130) from None


def _so_far(store: Store, output: Output) -> str:
    done = store.progress()
    count = f"{done.finished} of {done.images} images are finished"
    if store.path is not None:
        return f"{count}; the same command continues"
    where = f", written to {output.path}" if output.path and done.finished else ""
    return f"{count}{where}; this cannot be continued, a run with --out run.db can"


def _show_before(console: Console, store: Store) -> None:
    before = store.progress()
    if before.finished or store.copies_voted():
        say(console, f"continued: {before.finished} of {before.images} images are finished")


def _show_end(choices: Choices, store: Store, output: Output) -> None:
    from .runs import SOME_FAILED, show_summary

    console, done = get_console(), store.progress()
    show_summary(console, store)
    if store.path is not None or output.path is not None:
        console.print()
        say(console, f"kept in {store.path}" if store.path is not None else f"written to {output.path}")
    if is_demo(choices) and done.finished and done.images < ALL_IMAGES and store.path is None:
        _show_next(console, list(store.certificates()), store.terms.settings)
    if done.failed:
        raise typer.Exit(SOME_FAILED)


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
    with pool_and_images(choices, None) as (pool, images):
        return plan_run(pool, images, chosen, hidden, bool(choices.get("allow_mixed"))).promise


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
        f"{len(images.levels)} × {'×'.join(map(str, images.shape))}, σ = {_exact(law.parameter)}, n₀ = {chosen.n0}, "
        f"n = {chosen.n}, α = {_exact(chosen.alpha)}, {chosen.bound}, {chosen.noise} noise",
    )
    if independence.measured:
        again = f"{independence.rows} rows of each image are voted again, each alone, which takes seconds"
        line(
            console, f"independence is measured: {again}; graphs and torch modules can be proved (soundsmooth inspect)"
        )
    if not largest_radius(law, chosen, independence.rows):
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
