"""What a run's file says of itself for people: what was certified, when, and how the model does without noise.

This is the issuer's word. Nothing of it is promised, `verify` only checks its form, and no claim rests on it.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from ..certification.goal import GoalOptions, read_options, written_options

MODEL, DATA, WRITTEN, CLEAN, ASKED = "model file", "data file", "written", "clean", "asked"
#: The rows of the table `run` that may be missing: older runs have none of them.
NAMES = (MODEL, DATA, WRITTEN, CLEAN, ASKED)
MOST_CHARACTERS = 1000
_SHARE = re.compile("(0|[1-9][0-9]{0,17}) of ([1-9][0-9]{0,17})")


class Information(NamedTuple):
    """What is known; None for what is not."""

    begun: str
    """As the file says it."""
    model: str | None
    """The model's file, or what it was called in Python."""
    data: str | None
    written: datetime | None
    """When votes or certificates were last stored."""
    clean: Fraction | None
    """The share of all promised images that the model itself gets right, without noise."""
    asked: GoalOptions | None
    """The options that say when to stop, as they were given. What follows from them is promised."""


def read_information(held: Mapping[str, str], images: str) -> Information:
    """What the rows of the table `run` say, for a run of so many images; a ValueError for what is malformed."""
    for name in (MODEL, DATA):
        if len(held.get(name, "")) > MOST_CHARACTERS:
            raise ValueError(f"the run's {name} is too long to be a name")
    written, clean, asked = held.get(WRITTEN), held.get(CLEAN), held.get(ASKED)
    return Information(
        held.get("begun", ""),
        held.get(MODEL),
        held.get(DATA),
        None if written is None else _time(written),
        None if clean is None else _share(clean, images),
        None if asked is None else read_options(asked),
    )


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ValueError(f"the run's last writing has no date, but {text!r:.80}")
    return found


def _share(text: str, images: str) -> Fraction:
    found = _SHARE.fullmatch(text)
    if found is None or found[2] != images or int(found[1]) > int(found[2]):
        raise ValueError(f"the run's clean accuracy is no share of {images} images: {text!r:.80}")
    return Fraction(int(found[1]), int(found[2]))


def names_of(model: object, data: object) -> dict[str, str]:
    """The rows that name what is certified, as the user gave it: a path, or the name of an object's type."""
    return {MODEL: _name(model), DATA: _name(data)}


def note_of(asked: GoalOptions) -> dict[str, str]:
    """The row that says what was asked; none for nothing, and none for what is too long to be read."""
    text = written_options(asked)
    return {ASKED: text} if 0 < len(text) <= MOST_CHARACTERS else {}


def _name(given: object) -> str:
    """One that every file can hold: a path may have bytes that are no text."""
    named = given if hasattr(given, "__qualname__") and hasattr(given, "__module__") else type(given)  # no generator
    text = str(given) if isinstance(given, str | Path) else f"{named.__module__}.{named.__qualname__}"
    return text.encode("utf-8", "backslashreplace").decode()[:MOST_CHARACTERS]
