"""`soundsmooth runs`: runs that certify keeps are looked at and exported."""

from pathlib import Path

from rich.console import Console

from ..runs.export import export
from ..runs.store import Store
from .plain import say
from .screens import show_summary


def show_run(path: Path) -> None:
    """What was promised, how far the run is, and what it says so far."""
    console = Console()
    with Store.read(path) as store:
        for name, value in store.terms.promise.values.items():
            say(console, f"{name + ':':<15}{value}")
        console.print()
        say(console, f"What follows is what the file says. Whether it is so: soundsmooth verify {path}")
        show_summary(console, store)


def export_run(path: Path, to: Path) -> None:
    """Write the certificates of a run to another file."""
    with Store.read(path) as store:
        count, done = export(store, to), store.progress()
    left = f"; {done.open} images are still to do" if done.open else ""
    say(Console(), f"{count} of {done.images} images written to {to}{left}")
