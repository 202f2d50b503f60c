"""`soundsmooth verify`: one screen that says what was checked, what was not, and what it means."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from .. import embedded
from ..certification.promise import Promise
from ..certification.report import decimal_above
from ..core.decimals import truncated
from ..core.grid import Grid
from ..core.plain_files import read_plain
from ..core.progress import Meter
from ..data.load import AllImages, open_all
from ..exact import positive, probability
from ..models.onnx_file import read_model
from ..models.registry import digest_binds
from ..smoothing.classifier import Smoothing
from ..verification import AuditInputs, Replay, Verification, audit_file
from ..verification.from_python import smoothing_of, trusted_artifact
from .meaning import meaning
from .options import BETA, Choices, To
from .plain import print_line, printable, say, screen
from .prepare import is_demo
from .screens import show_accuracy

MARKS = {True: "[green]ok         [/]", False: "[red]WRONG      [/]", None: "[yellow]not checked[/]"}
#: How many findings and certificates one screen shows; --json has all.
SHOWN = 8
MOST_OF_A_PROMISE = 1 << 20


def run_verify(choices: Choices) -> None:
    """Audit, show, and end with 0 (nothing wrong found), 1 (something refuted) or 3 (votes differ: neither)."""
    as_json, quiet = choices.get("json", False), choices.get("quiet", False)
    console = screen(quiet, stderr=as_json)  # with --json, nothing else goes to standard output
    with ExitStack() as shown:
        meters = _progress(Console(quiet=True) if as_json else console, shown)
        result = audit_file(choices.get("target"), _given(choices), partial(say, console), meters)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), ensure_ascii=False))
    else:
        show(console, result)
    if result.conclusion.code:
        raise typer.Exit(result.conclusion.code)


def _given(choices: Choices) -> AuditInputs:
    """What the agency wrote down before the certificates were issued, what it has, and how much it wants to see again.

    As for certify: without a model and data, the embedded ones are voted on.
    """
    replay = choices.get("replay")
    both = replay is not None and is_demo(choices)
    return AuditInputs(
        model=partial(_smoothing, choices) if both or choices.get("model") is not None else None,
        data=partial(_images, choices) if both or choices.get("data") is not None else None,
        replay=replay,
        beta=probability(choices.get("beta", BETA), "beta"),
        other_machine=choices.get("other_machine", False),
        commitment=_digits(choices.get("commitment")),
        nonce=_digits(choices.get("nonce")),
        promise=read_promise(choices.path("promise")),
        content=choices.get("content"),
    )


def _smoothing(choices: Choices, promise: Promise) -> Smoothing:
    model = _embedded_model(promise) if is_demo(choices) else choices.get("model")
    trusts = choices.get("trust_artifact", False)
    artifact = trusted_artifact(choices.get("target"), choices.path("artifact")) if trusts else None
    return smoothing_of(model, promise, choices.going_to(To.SMOOTHER), artifact)


def _images(choices: Choices, grid: Grid) -> AllImages:
    return open_all(choices.path("data") or embedded.IMAGES, grid=grid, **choices.going_to(To.DATA))


def _progress(console: Console, shown: ExitStack) -> Callable[[int], Callable[[int], None]]:
    """Meters of votes that are repeated, shown until the audit is over."""

    def begin(copies: int) -> Callable[[int], None]:
        meter = shown.enter_context(Meter("voting again", copies, copies, "copies", console=console))

        def advance(count: int) -> None:
            meter.finish_items(count)
            meter.advance(count)

        return advance

    return begin


def _digits(text: str | None) -> str | None:
    return None if text is None else text.strip().lower()


def read_promise(path: Path | None) -> Promise | None:
    if path is None:
        return None
    text = read_plain(path, "promise", MOST_OF_A_PROMISE)
    try:
        return Promise.of_text(text.decode("ascii"))
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r} holds no promise: it is not plain text") from None
    except ValueError as error:
        raise ValueError(f"{str(path)!r} holds no promise: {error}") from None


def _embedded_model(promise: Promise) -> Path:
    """The embedded classifier, if the run is one of it: otherwise options were forgotten, and nothing is refuted."""
    path = embedded.model_for(positive(promise.values["sigma"], "sigma"))
    if read_model(path).digest != promise.values["model"]:
        raise ValueError(
            "a replay needs the model and the data: --model M --data D (without them it is for runs of the embedded "
            "classifier, and this is none)"
        )
    return path


def show(console: Console, result: Verification) -> None:
    """One screen."""
    _show_promise(console, result)
    for check in sorted(result.checks, key=lambda check: check.passed is None):
        print_line(console, f"{MARKS[check.passed]} {check.name:<13} {escape(printable(check.text))}")
    _show_accuracy(console, result)
    if result.replay is not None:
        _show_replay(console, result.replay, result.key_bound)
    for note in result.notes:
        say(console, f"note: {note}")
    _show_findings(console, result)
    console.print()
    for heading, text in meaning(result):
        say(console, f"{heading:<11}{text}" if heading else text)


def _show_promise(console: Console, result: Verification) -> None:
    if result.promise is None:
        return
    of = result.promise.values
    say(
        console,
        f"promised: {of['input count']} images of {of['input shape'].replace(' ', '×')}, n0 = {of['n0']}, "
        f"n = {of['n']}, alpha = {of['alpha']}, sigma = {of['sigma']}, {of['bound']}, {of['noise']} noise, batches "
        f"of {of['batch']}, {of['device']}, {of['model kind']} model{_digest(result.promise)}, "
        f"independence {of['independence']}",
    )
    console.print()


def _digest(promise: Promise) -> str:
    """Which digest names a model that is Python code (docs/audit.md)."""
    if digest_binds(promise.values["model kind"]):
        return ""
    return " (second digest)" if "digest" in promise.flags else " (first digest)"


def _show_accuracy(console: Console, result: Verification) -> None:
    stated, confirmed = result.tally.accuracies(), result.confirmed_accuracies()
    if not stated:
        return
    columns = {f"as stated, of all {result.tally.promised} promised images": stated}
    if result.replay is not None and confirmed and not result.refuted:
        columns[f"confirmed for the set (error beta = {decimal_above(result.replay.beta)})"] = confirmed
    show_accuracy(console, columns)


COLUMNS = ("image", "class", "claimed", "replayed", "differ", "(i) alone", "(ii) struck", "(iii) honest")


def _show_replay(console: Console, found: Replay, key_bound: bool) -> None:
    console.print()
    columns = (Column(name, justify="right", no_wrap=True) for name in COLUMNS)
    table = Table(*columns, box=None, pad_edge=False)
    for each in found.statements[:SHOWN]:
        honest = "-" if each.honest is None else truncated(each.honest.radius, 4)
        table.add_row(
            str(each.claimed.number), str(each.claimed.label), truncated(each.claimed.radius, 4), str(each.copies),
            str(each.differ), truncated(each.alone.radius, 4), truncated(each.struck.radius, 4), honest,
        )  # fmt: skip
    console.print(table)
    if len(found.statements) > SHOWN:
        say(console, f"… and {len(found.statements) - SHOWN} more certificates (--json)")
    alpha, beta = decimal_above(found.statements[0].alone.error), decimal_above(found.beta)
    unless = "" if key_bound else ", if he did not choose the key"
    say(console, f"(i) radius from the replayed blocks alone, error {alpha}: needs no word of the issuer{unless}.")
    say(
        console,
        f"(ii) from all blocks, less b = {found.escaped} of {found.blocks} that may have escaped and t = "
        f"{found.excess} hits of each other, error {alpha} + {beta}: against any issuer{unless}.",
    )
    if found.rows is None:
        say(
            console,
            f"(iii) error {alpha}, only if the issuer was honest and had another machine, not against a forger.",
        )
    else:
        say(
            console,
            f"All for rows alone: {found.rows} were voted again. (ii) and the set suppose that the votes of a block do "
            "not depend on which others were drawn. (iii) is not stated where independence is measured.",
        )


def _show_findings(console: Console, result: Verification) -> None:
    if not result.findings:
        return
    console.print()
    for text in result.findings.texts[:SHOWN]:
        print_line(console, f"[red]wrong:[/] {escape(printable(text))}")
    if result.findings.count > SHOWN:
        say(console, f"… and {result.findings.count - SHOWN} more")
