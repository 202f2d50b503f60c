"""`soundsmooth break`: the gallery as a table, or as JSON lines."""

import json
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..certification.settings import copies
from ..core.decimals import raised, truncated
from ..lab.gallery.entry import Entry, all_certifiers, all_entries
from ..lab.gallery.numbers import markdown, paper_numbers
from ..lab.gallery.options import Options
from ..lab.gallery.pictures import check_matplotlib, picture
from ..lab.gallery.trial import Finding, Trial
from .plain import print_line, say

COLUMNS = (
    "radius: of the certified ball. distance: from its centre to the other point that was tried. Both are ‖δ‖₂, in "
    "units of the [0, 1] range."
)
VERDICTS = {
    Finding.FALSE_POINT: "the certified ball holds a point, at that distance, whose other class is itself established.",
    Finding.FALSE_RATE: "certificates are false more often than alpha allows.",
    Finding.FALSE_NUMBER: "a number is larger than the one that is proved.",
    Finding.VOID: "the classifier breaks the theorem's assumptions, and got a certificate all the same.",
    Finding.REFUSED: "the certifier declined.",
    Finding.HOLDS: "no contradiction. If radius > distance, the other point was not given another class; "
    "otherwise it lies outside of the ball. This is no proof.",
    Finding.ABSTAINS: "the certifier claims nothing.",
}
#: By what their names begin with.
CERTIFIERS = {
    "standard": "common practice: noise added in floats (of that precision, or by that library).",
    "paper-code": "the paper's published code: exact noise on the grid, added in floats.",
    "guard-band": "the paper's section 4.3: rounded to the grid; a copy near a rounding boundary votes against.",
    "art": "the Adversarial Robustness Toolbox.",
    "naive-measured": "exact noise, with a first attempt at measuring independence.",
    "naive-audit": "an auditor who votes again on images that stopped, and bounds p at full level.",
    "fixed-levels": "measured independence with looks, where each look has the levels of a fixed n.",
    "filtered": "exact noise and our bound, from those votes alone that a filter keeps.",
    "ours": "this package.",
}
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
    entries = _choose(names, all_entries(), "entry")
    certifiers = all_certifiers() | {extra.name: extra for entry in entries.values() for extra in entry.extra}
    wanted, console = set(_choose(against, certifiers, "certifier")), Console()
    if only_list:
        _list(console, entries, list(certifiers))
        return
    if pictures is not None:
        check_matplotlib()
    options = Options(n, data, pictures)
    shown = [trial for entry in entries.values() for trial in _run(console, entry, wanted, options, json_lines)]
    if not json_lines:
        if len({trial.entry for trial in shown}) > 1:
            _show_together(console, shown)
        _show_legend(console, shown)


def _run(console: Console, entry: Entry, wanted: set[str], options: Options, json_lines: bool) -> list[Trial]:
    """The trials of one entry, shown as a table, or as JSON lines while they are found."""
    usual = [certifier for name, certifier in all_certifiers().items() if name in wanted]
    trials = []
    for trial in entry.run(usual, options):
        if trial.certifier in wanted:
            trials.append(trial)
            if json_lines:
                print(json.dumps(trial.to_dict(), ensure_ascii=False), flush=True)
    if not json_lines:
        _show(console, entry, trials)
    if options.pictures is not None:
        picture(entry.name, options.pictures)
    return trials


def print_numbers(n: int | None) -> None:
    """The paper's numbers as the Markdown table of docs/gallery.md."""
    print(markdown(paper_numbers(n or 1_000_000)))


def _choose(names: list[str], known: dict, what: str) -> dict:  # type: ignore[type-arg]
    for name in names:
        if name == "art" and name not in known:
            raise ValueError("art is not installed: pip install adversarial-robustness-toolbox packaging statsmodels")
        if name not in known:
            raise ValueError(f"there is no {what} {name!r}; there are {', '.join(known)}")
    return {name: known[name] for name in names} if names else known


def _show(console: Console, entry: Entry, trials: list[Trial]) -> None:
    table = _table(f"{entry.name}: {entry.claim}", "certifier", "verdict", "radius", "distance", "note")
    for trial in trials:
        colour = "red" if trial.finding.bad else COLOURS[trial.finding]
        table.add_row(
            trial.certifier,
            f"[{colour}]{trial.finding}[/]",
            "" if trial.radius is None else truncated(trial.radius, 4),
            "" if trial.distance is None else raised(trial.distance, 4),
            escape(trial.note),
        )
    console.print(table)
    console.print()


def _show_together(console: Console, trials: list[Trial]) -> None:
    """For each certifier, ours last, how many entries it fell for, and which."""
    table = _table("together", "certifier", "fell for", "entries")
    for name in sorted(dict.fromkeys(trial.certifier for trial in trials), key=lambda name: name == "ours"):
        tried = dict.fromkeys(trial.entry for trial in trials if trial.certifier == name)
        fell = dict.fromkeys(trial.entry for trial in trials if trial.certifier == name and trial.finding.bad)
        colour = "red" if fell else "green"
        table.add_row(name, f"[{colour}]{len(fell)} of {len(tried)}[/]", ", ".join(fell))
    console.print(table)


def _show_legend(console: Console, trials: list[Trial]) -> None:
    """What the columns, verdicts and certifiers are, as far as they occur."""
    say(console, COLUMNS)
    for finding in dict.fromkeys(trial.finding for trial in trials):
        say(console, f"{finding}: {VERDICTS[finding]}")
    names = dict.fromkeys(trial.certifier for trial in trials)
    for first, text in CERTIFIERS.items():
        found = [name for name in names if name.startswith(first)]
        if found:
            say(console, f"{', '.join(found)}: {text}")


def _table(title: str, *headings: str) -> Table:
    return Table(*headings, title=escape(title), title_justify="left", title_style="bold")


def _list(console: Console, entries: dict[str, Entry], certifiers: list[str]) -> None:
    for entry in entries.values():
        print_line(console, f"[bold]{entry.name}[/]  {escape(entry.claim)}")
    console.print(f"certifiers: {', '.join(certifiers)}", highlight=False)
