"""`soundsmooth break`: the gallery as a table, or as JSON lines."""

import json
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..certificate import raised, truncated
from ..gallery.entry import Entry, Options, all_certifiers, all_entries
from ..gallery.numbers import markdown, paper_numbers
from ..gallery.pictures import check_matplotlib, picture
from ..gallery.trial import Finding, Trial
from ..settings import copies

COLOURS = {Finding.REFUSED: "cyan", Finding.HOLDS: "green", Finding.ABSTAINS: "yellow"}


def run_gallery(
    names: list[str],
    against: list[str],
    n: int | None,
    data: Path | None,
    json_lines: bool,
    pictures: Path | None,
    only_list: bool,
) -> None:
    """Run the named entries (all by default) against the named certifiers (all by default)."""
    if n is not None:
        copies(n, "n")
    entries = _chosen(names, all_entries(), "entry")
    certifiers = all_certifiers() | {extra.name: extra for entry in entries.values() for extra in entry.extra}
    wanted = set(_chosen(against, certifiers, "certifier"))
    console = Console()
    if only_list:
        _list(console, entries, list(certifiers))
        return
    if pictures is not None:
        check_matplotlib()
    usual = [certifier for name, certifier in all_certifiers().items() if name in wanted]
    for entry in entries.values():
        found = (trial for trial in entry.run(usual, Options(n, data, pictures)) if trial.certifier in wanted)
        if json_lines:
            for trial in found:
                print(json.dumps(trial.to_dict(), ensure_ascii=False), flush=True)
        else:
            _show(console, entry, list(found))
        if pictures is not None:
            picture(entry.name, pictures)


def print_numbers(n: int | None) -> None:
    """The paper's numbers as the Markdown table of docs/gallery.md."""
    print(markdown(paper_numbers(n or 1_000_000)))


def _chosen(names: list[str], known: dict, what: str) -> dict:  # type: ignore[type-arg]
    for name in names:
        if name == "art" and name not in known:
            raise ValueError("art is not installed: pip install adversarial-robustness-toolbox packaging statsmodels")
        if name not in known:
            raise ValueError(f"there is no {what} {name!r}; there are {', '.join(known)}")
    return {name: known[name] for name in names} if names else known


def _show(console: Console, entry: Entry, trials: list[Trial]) -> None:
    table = Table(title=escape(f"{entry.name}: {entry.claim}"), title_justify="left", title_style="bold")
    for heading in ("certifier", "verdict", "radius", "distance", "note"):
        table.add_column(heading)
    for trial in trials:
        colour = "red" if trial.finding.bad else COLOURS[trial.finding]
        table.add_row(
            trial.certifier,
            f"[{colour}]{trial.finding}[/]",
            _number(trial.radius),
            "" if trial.distance is None else raised(trial.distance, 4),
            escape(trial.note),
        )
    console.print(table)
    console.print()


def _number(value: float | None) -> str:
    return "" if value is None else truncated(value, 4)


def _list(console: Console, entries: dict[str, Entry], certifiers: list[str]) -> None:
    for entry in entries.values():
        console.print(f"[bold]{entry.name}[/]  {escape(entry.claim)}", highlight=False, soft_wrap=True)
    console.print(f"certifiers: {', '.join(certifiers)}", highlight=False)
