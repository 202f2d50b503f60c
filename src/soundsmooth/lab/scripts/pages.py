"""Tables in Markdown pages: the text between two marks is written from measurements, never typed."""

from collections.abc import Sequence
from pathlib import Path


def fill(page: Path, name: str, text: str) -> None:
    """Replace the text between `<!-- NAME begin -->` and `<!-- NAME end -->`; a ValueError if a mark is missing."""
    begin, end = _marks(name)
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{page} has no marks {begin} and {end}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def has_marks(page: Path, name: str) -> bool:
    """Whether a page has a place of this name."""
    return _marks(name)[0] in page.read_text(encoding="utf-8")


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name} begin -->", f"<!-- {name} end -->"


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def interval(ratio: Sequence[float], digits: int = 4) -> str:
    """A median with its interval."""
    middle, low, high = (f"{value:.{digits}f}" for value in ratio)
    return f"{middle} [{low}, {high}]"
