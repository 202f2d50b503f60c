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
from ..certification.promise import Inputs, Promise
from ..certification.report import decimal_above
from ..core.decimals import truncated
from ..core.grid import Grid
from ..core.plain_files import read_plain
from ..core.progress import Meter
from ..exact import positive, probability
from ..models.onnx_file import read_model
from ..models.protocol import CLOSED
from ..models.registry import digest_binds
from ..noise.law import promised_law
from ..runs.data import read_npz
from ..smoothing.classifier import Smoothing
from ..verification import AuditInputs, Conclusion, Replay, Verification, audit_file
from ..verification.promised import promised_smoothing
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
        result = audit_file(choices.get("target"), _given(choices), partial(say, console), _progress(console, shown))
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
        data=partial(_inputs, choices) if both or choices.get("data") is not None else None,
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
    return promised_smoothing(model, promise, choices.going_to(To.SMOOTHER))


def _inputs(choices: Choices, grid: Grid) -> Inputs:
    return read_npz(choices.path("data") or embedded.IMAGES, grid, **choices.going_to(To.DATA))


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
    say(console, meaning(result))


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
    assert result.promise is not None
    show_accuracy(console, columns, promised_law(result.promise.values))


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


def meaning(result: Verification) -> str:
    """What the agency may conclude, in a few sentences."""
    if result.refuted:
        return "REJECTED: see what is marked wrong above. Do not rely on any certificate of this file."
    key = _key(result.key_bound)
    if result.replay is None or result.conclusion is Conclusion.CONSISTENT:
        return (
            "Nothing wrong was found, but no vote was repeated: if the counts are true, each certificate's claim "
            f"holds at its alpha. Counts can be forged so that all this passes; only a replay sees it. {key}"
            f"{_independence(result)}"
        )
    trust = ""
    if result.promise is not None and not digest_binds(result.promise.values["model kind"]):
        trust = " The model is Python code: assumed honest, and not bound by its digest."
        if result.promise.flags.get("digest") == CLOSED:
            trust = " The model is Python code, assumed honest: its digest covers what it holds, not what it may do."
    return f"{_replay_meaning(result.conclusion, result.replay)} {key}{_independence(result)}{trust}{_unit(result)}"


def _independence(result: Verification) -> str:
    """By what the independence of rows stands, after this audit."""
    if "argument" in result.independence_by:
        return (
            " Rows of a batch are independent by an argument about the graph, made again here; a witness run agrees "
            "with it, which is a test and no proof."
        )
    if result.independence_by:
        is_graph = result.promise is not None and digest_binds(result.promise.values["model kind"])
        supposed = "" if is_graph else ", which supposes that the model's code does not work against it"
        return f" The independence of rows stands by re-voting: drawn rows were voted again, each alone{supposed}."
    promised = "unknown" if result.promise is None else result.promise.values["independence"]
    return f" The independence of rows is the issuer's word ({promised}): this audit did not examine it."


def _unit(result: Verification) -> str:
    unusual = any(check.name == "unit" and not check.passed for check in result.checks)
    return " Radii are not in the unit of images with values in [0, 1]: see unit, above." if unusual else ""


def _replay_meaning(conclusion: Conclusion, found: Replay) -> str:
    count = len(found.statements)
    if conclusion is Conclusion.UNCONFIRMED and found.whole:
        return (
            f"NOT CONFIRMED: every certificate with a label was voted again, whole, and at least {found.differ} votes "
            f"differ, which another machine explains, and a forgery too; {found.smaller} of {count} have a smaller "
            "radius on this machine than was claimed. What counts is (i)."
        )
    if conclusion is Conclusion.FULL:
        return f"FULL VERIFICATION: all {count} certificates with a label were voted again, whole, and confirmed."
    together = "For the set this draw is too small to prove anything."
    if found.escaped < count:
        together = (
            f"For the set: except with probability {decimal_above(found.beta)}, at most {found.escaped} of {count} "
            f"certificates rest on counts that are too high (by more than {found.excess} hits a block)."
        )
    found_wrong = "Nothing wrong was found."
    if conclusion is Conclusion.UNCONFIRMED:
        found_wrong = "NOT CONFIRMED: votes differ, which another machine explains, and a forgery too."
    return (
        f"{found_wrong} What counts for one certificate is (i). {together} Only --replay all verifies "
        "fully, and an audit that is repeated until it pleases proves nothing."
    )


def _key(bound: bool) -> str:
    if bound:
        return "The key was fixed by your nonce: after J nonces for one product the claim holds at J alpha."
    without = "without --commitment and --nonce nothing is claimed against an issuer who tried many keys"
    return f"The issuer may have chosen the key: {without}."
