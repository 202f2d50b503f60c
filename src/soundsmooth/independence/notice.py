"""What a user is told, before the first vote, of a model whose rows are not proved to be independent."""

import math
from fractions import Fraction
from typing import NamedTuple

from ..certification.report import decimal_above
from ..certification.settings import Settings
from ..core.independence import Independence
from ..exact import clopper_pearson_above
from ..models import Model
from .proof.advice import advice_for

INSPECT = "soundsmooth inspect tells more (docs/independence.md)"


class MissingProof(NamedTuple):
    """A model that was inspected in vain."""

    reason: str
    """Why there is no proof."""
    unmeasured: str | None = None
    """Why its rows cannot be measured either, if that is so."""


def unproved(model: Model) -> MissingProof | None:
    """What is to be said of a model that is ready; None if it is proved, or was never to be."""
    report = model.report
    return None if report is None or report.proved else MissingProof(report.reason, model.unmeasured)


def describe_unproved(
    found: MissingProof | None, independence: Independence, settings: Settings, row: float | None
) -> str | None:
    """Whether independence is measured or only checked, why it is not proved, what would give a proof, and what that
    costs, if a row alone takes `row` seconds; None if there is nothing to say.
    """
    if independence.rows is not None:
        price = _price(independence.rows, settings, row)
        return f"independence is measured{_why(found)}: {price}{_way_out(found)}"
    if found is None:
        return None
    return f"independence is only checked{_why(found)}{_why_unmeasured(found)}{_way_out(found)}"


def _price(rows: int, settings: Settings, row: float | None) -> str:
    """How many rows, about how long, and what it takes from p if no row is lost: an upper bound, raised."""
    time = "" if row is None else f", about {_seconds(expected_different(rows, settings.n) * row)} an image"
    lower = decimal_above(Fraction(clopper_pearson_above(0, rows, settings.alpha / 2)), 4)
    return f"{rows} rows of each image are voted again, each alone{time}; it lowers p by about {lower}"


def expected_different(drawn: int, copies: int) -> float:
    """How many different copies are expected among so many that are drawn with repetition: each is voted once."""
    return -copies * math.expm1(drawn * math.log1p(-1 / copies)) if copies > 1 else copies


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def _why(found: MissingProof | None) -> str:
    return "" if found is None else f", not proved ({found.reason})"


def _why_unmeasured(found: MissingProof) -> str:
    return "" if found.unmeasured is None else f" and not measured ({found.unmeasured})"


def _way_out(found: MissingProof | None) -> str:
    """What would give a proof."""
    if found is None:
        return ""
    advice = advice_for(found.reason)
    return f". For a proof: {INSPECT}" if advice is None else f". For a proof: {advice}; {INSPECT}"
