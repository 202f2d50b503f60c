"""The command line. Thin: it reads options, calls the rooms, and shows what comes back."""

import io
import signal
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ..core.limits import thread_count
from . import lab
from .options import AS_AN_INTEGER, Choices, takes_options
from .plain import print_line, printable

app = typer.Typer(
    help="Randomized smoothing certificates that are true on the computer that issues them.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # commands inherit it
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

runs = typer.Typer(
    help="Look at runs that certify keeps in a .db file, export them, and end them.", no_args_is_help=True
)
app.add_typer(runs, name="runs")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from .. import __version__

        typer.echo(f"soundsmooth {__version__}")
        raise typer.Exit


@app.command()
@takes_options("certify")
def certify(choices: Choices) -> None:
    """Certify a classifier on a data set: a proved radius for every image, or an abstention.

    Without arguments: a small embedded classifier on 20 embedded images.
    """
    from .certify import run_certify

    run_certify(choices)


@app.command()
@takes_options("commit")
def commit(choices: Choices) -> None:
    """Print the promise and its commitment C, and toss no coin.

    Give C to the verifier, who then draws a nonce; then run certify with the same options, this seed and that nonce.
    """
    from .commit import print_promise

    print_promise(choices)


@app.command()
@takes_options("verify")
def verify(choices: Choices) -> None:
    """Check somebody else's certificates: arithmetic, commitment and key, and, with --replay, the votes.

    Ends with 0 if nothing wrong was found, with 1 if something was refuted, with 2 if it could not be read.
    """
    from .verify import run_verify

    run_verify(choices)


@app.command()
@takes_options("predict")
def predict(choices: Choices) -> None:
    """The smoothed classifier's own answers, under fresh randomness; it abstains rather than guess."""
    from .predict import run_predict

    run_predict(choices)


@app.command("inspect")
def inspect_(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="An .onnx file, or package.module:factory.")],
    shape: Annotated[str | None, typer.Option(help="The shape of one input, for a torch module: 3,32,32.")] = None,
    batch_size: Annotated[int, typer.Option(help="The batch size to prove it for.", **AS_AN_INTEGER)] = 100,
    weights: Annotated[Path | None, typer.Option(help="A file of weights for package.module:factory.")] = None,
    output: Annotated[str | None, typer.Option(help="The output that votes, of a model with several.")] = None,
    trusted: Annotated[
        bool, typer.Option(help="Look at an .onnx file in this process, not in a confined one.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Prove that every output row of a model is the same function of its own input row; exit 1 if it cannot be."""
    from .inspect import run_inspect

    raise typer.Exit(run_inspect(model, shape, batch_size, weights, output, json_, trusted))


@app.command()
def noise(
    key: Annotated[str, typer.Option(help="64 hexadecimal digits.")],
    sigma: Annotated[str, typer.Option(help="0.25, 1/4 …")],
    shape: Annotated[str, typer.Option(help="Copies, then the input's shape: 8,3,32,32.")],
    out: Annotated[Path, typer.Option(help="An .npy file for the noise T, int16, before the input is added.")],
    k: Annotated[str, typer.Option("--k", help="Noise beyond k + 1 is clamped.")] = "6",
    stream: Annotated[int, typer.Option(help="The image's index; 2^64 - 1 for shared noise.", **AS_AN_INTEGER)] = 0,
    purpose: Annotated[str, typer.Option(help="selection, estimation or prediction.")] = "estimation",
    first: Annotated[int, typer.Option(help="The number of the first copy.", **AS_AN_INTEGER)] = 0,
    levels: Annotated[int, typer.Option(help="Levels of the grid.", **AS_AN_INTEGER)] = 256,
    q: Annotated[int, typer.Option("--q", help="Levels per unit of value.", **AS_AN_INTEGER)] = 255,
    threads: Annotated[
        int | None, typer.Option(help="The noise does not depend on it.", callback=thread_count, **AS_AN_INTEGER)
    ] = None,
) -> None:
    """Write raw noise under a given key, so that an outsider can check it against docs/noise.md."""
    from .noise import write_noise

    write_noise(key, sigma, k, shape, stream, purpose, first, levels, q, threads, out)


RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A .db file that certify wrote.")]


@runs.command("show")
def runs_show(
    run: RunArgument,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also what was promised, line by line.")] = False,
) -> None:
    """How far the run is, and what it says so far."""
    from .runs import show_run

    show_run(run, verbose)


@runs.command("export")
def runs_export(
    run: RunArgument,
    to: Annotated[Path, typer.Option(help="A new .tsv, .jsonl, .csv or .parquet file.")],
) -> None:
    """Write the run's certificates to another file. Radii are truncated, never rounded."""
    from .runs import export_run

    export_run(run, to)


@runs.command("conclude")
def runs_conclude(run: RunArgument) -> None:
    """End an interrupted run for good: images with a full look are certified there, and marked as aborted."""
    from .runs import conclude_run

    conclude_run(run)


app.command("break")(lab.break_)  # it is what people try first
app.command(hidden=True)(lab.overlap)
app.add_typer(lab.app, name="lab")
app.add_typer(lab.bench, name="bench", hidden=True)


def main() -> None:
    """Run the command line: 0 when all went well, 2 with one line of explanation for bad input."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without our letters gets question marks, not a crash
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what schedulers send ends a run as Ctrl-C does
    console = Console(stderr=True)
    warnings.showwarning = lambda message, *_, **__: _say_after("[yellow]warning:[/] ", str(message), console)
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except (typer.Abort, KeyboardInterrupt):
        code, text = 130, "stopped"
    except (ValueError, ArithmeticError, MemoryError, OSError) as error:
        code, text = 2, str(error) or "not enough memory; lower the batch size"
    except Exception as error:
        if not hasattr(error, "format_message"):  # what typer says of options that it does not understand
            raise
        code, text = 2, error.format_message()
        if not text:  # without a command: the help has been shown
            sys.exit(code)
    _say_after("[red]error:[/] " if code == 2 else "", text, console)
    sys.exit(code)


def _say_after(ours: str, text: str, console: Console) -> None:
    """A text, perhaps a model's, on one line after a word of ours: only ours is markup."""
    print_line(console, f"{ours}{escape(printable(' '.join(text.split())))}")
