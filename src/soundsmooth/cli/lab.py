"""`soundsmooth lab`: false certificates of other procedures, and measurements. No certificate needs them."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .options import AS_AN_INTEGER

app = typer.Typer(help="False certificates of other procedures, and measurements.", no_args_is_help=True)
bench = typer.Typer(help="Measure, side by side with common practice.", no_args_is_help=True)
app.add_typer(bench, name="bench")


@app.command("break")
def break_(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help="Entries of the gallery; all of them.")
    ] = None,
    against: Annotated[list[str] | None, typer.Option(help="Only this certifier; may be repeated.")] = None,
    n: Annotated[
        int | None, typer.Option("--n", help="Noisy copies; each entry has its own default.", **AS_AN_INTEGER)
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Images: an .npz, a folder with test.npz or CIFAR-10's python batches, or cifar10."),
    ] = None,
    json_lines: Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")] = False,
    pictures: Annotated[Path | None, typer.Option(help="A folder for one picture per entry that has one.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Only list entries and certifiers.")] = False,
    numbers: Annotated[bool, typer.Option("--numbers", help="Only the paper's numbers, found again.")] = False,
) -> None:
    """Run the gallery: every known way in which a smoothing certificate has been false, against each certifier."""
    from .gallery import print_numbers, run_gallery

    if numbers:
        print_numbers(n)
        return
    run_gallery(names or [], against or [], n, data, json_lines, pictures, list_)


@app.command()
def overlap(
    precision: Annotated[
        list[str] | None, typer.Option(help="half, single or double; may be repeated. All three by default.")
    ] = None,
    n: Annotated[
        int, typer.Option("--n", help="Draws per pair of levels, in single and double precision.", **AS_AN_INTEGER)
    ] = 1_000_000,
    plot: Annotated[Path | None, typer.Option(help="A .png file for a plot (needs matplotlib).")] = None,
    json_lines: Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")] = False,
) -> None:
    """How far the noise around neighbouring levels overlaps in floats: the paper's section 4.2, in three precisions."""
    from .overlap import run_overlap

    run_overlap(precision or [], n, plot, json_lines)


@bench.command("cpu")
def bench_cpu() -> None:
    """Exact noise against torch.randn, sound against standard certification, proved bounds; ends with JSON."""
    from ..lab.bench.cpu import run_cpu

    run_cpu(Console())


@bench.command("gpu")
def bench_gpu(
    out: Annotated[Path | None, typer.Option(help="Write the results here, as JSON.", show_default=False)] = None,
    rounds: Annotated[int, typer.Option(help="How often each comparison is repeated.", min=3)] = 5,
    network: Annotated[str | None, typer.Option(help="Only resnet110 or resnet50.", show_default=False)] = None,
) -> None:
    """Noise alone and whole certifications on a GPU, against the forward passes alone and against common practice."""
    from .bench import run_gpu

    run_gpu(Console(), out, rounds, network)
