"""`soundsmooth runs`: runs that certify keeps are looked at, exported and concluded."""

from pathlib import Path

from rich.console import Console

from ..runs.conclusion import conclude
from ..runs.export import export
from ..runs.store import Store
from .plain import say
from .screens import show_file, show_row, show_summary


def show_run(path: Path, verbose: bool = False) -> None:
    """How far the run is and what it says so far; if it is to be verbose, what was promised too."""
    console = Console()
    with Store.read(path) as store:
        show_file(console, store, path)
        show_summary(console, store, verbose)
    console.print()
    more = "" if verbose else " (what was promised: --verbose)"
    say(console, f"This is what the file says{more}. Whether it is so: soundsmooth verify {path}")


def export_run(path: Path, to: Path) -> None:
    """Write the certificates of a run to another file."""
    with Store.read(path) as store:
        count, done = export(store, to), store.progress()
    left = f"; {done.open} images are still to do" if done.open else ""
    say(Console(), f"{count} of {done.images} images written to {to}{left}")


def conclude_run(path: Path) -> None:
    """Certify unfinished images at their last full look, and say which."""
    console = Console()
    with Store.reopen(path) as store:
        issued = conclude(store)
        for record in issued:
            show_row(console, record)
        say(console, f"{len(issued)} images were certified at their last full look")
        show_summary(console, store)
