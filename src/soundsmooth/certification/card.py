"""How a certificate or a prediction looks in Python: one line, and a small card in a notebook."""

import re
from collections.abc import Iterable
from fractions import Fraction
from html import escape

from ..core.decimals import exact_text, grouped, truncated
from ..core.grid import IMAGES, Grid

_NUMBER = re.compile("[0-9]{1,20}(/[1-9][0-9]{0,19})?")
#: A notebook has styles of its own for tables: stripes, centred cells, gaps between them. These take their place, and
#: leave its colours, so that the card is legible on a dark page too.
_BOX = (
    "display:inline-block;box-sizing:border-box;max-width:100%;padding:6px 12px;border:1px solid #888;border-radius:6px"
)
_TABLE = "border:0;border-collapse:collapse;margin:4px 0 0;color:inherit"
_ROW = "background:none"
_CELL = "text-align:left;vertical-align:top;border:0"
_NAME = f"{_CELL};padding:2px 12px 2px 0;font-weight:normal;opacity:0.7;white-space:nowrap"
_VALUE = f"{_CELL};padding:2px 0"


def unit_of(grid: Grid) -> str:
    """What radii are multiples of: "in units of …"."""
    return "the [0, 1] range" if grid == IMAGES else f"value 1 on the grid {grid.text}"


def short(number: str) -> str:
    """An exact number of a record as people write it: 1/1000 is 0.001. What is no number stays as it is."""
    return exact_text(Fraction(number)) if _NUMBER.fullmatch(number) else number


def spent_text(spent: int, most: int) -> str:
    """8 120 of 100 100 votes, 12.3 times fewer: never more times than it is."""
    times = truncated(Fraction(most, spent), 1) if spent else ""
    fewer = f", {times} times fewer" if times not in ("", "1.0") else ""
    return f"{grouped(spent)} of {grouped(most)} votes{fewer}"


def line(kind: str, index: int, parts: Iterable[str]) -> str:
    """<Certificate image 3: class 7, ‖δ‖₂ < 0.4713, α = 0.001>."""
    return f"<{kind} image {index}: {', '.join(parts)}>"


def card(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A small table in HTML. Every text in it is escaped: a record from elsewhere may say anything."""
    cells = "".join(
        f'<tr style="{_ROW}"><th style="{_NAME}">{escape(str(name))}</th>'
        f'<td style="{_VALUE}">{escape(str(value))}</td></tr>'
        for name, value in rows
    )
    return f'<div style="{_BOX}"><b>{escape(title)}</b><table style="{_TABLE}">{cells}</table></div>'
