"""Counts of votes as a short text, and their sums."""

import json
from collections.abc import Iterable
from itertools import zip_longest

from ..models.protocol import NOBODY
from .certify import Counts

#: A short text can name more classes than memory holds.
MOST_CLASSES = 1_000_000
_WRITE = json.JSONEncoder(separators=(",", ":")).encode


def votes_text(counts: Counts) -> str:
    """{"classes": how many, "votes": {class: count}}; zeros are left out, and nobody's votes stand under −1."""
    votes = {label: count for label, count in enumerate(counts.classes) if count}
    if counts.nobody:
        votes = {NOBODY: counts.nobody, **votes}
    return _WRITE({"classes": len(counts.classes), "votes": votes})


def counts_of(text: str) -> Counts:
    """The counts that `votes_text` wrote; a ValueError for anything else.

    Guarantee: `votes_text` gives this very text for the result, which has at least one class.
    """
    try:
        held = json.loads(text)
        number, votes = held["classes"], {int(label): count for label, count in held["votes"].items()}
        if type(number) is not int or number > MOST_CLASSES:
            raise ValueError("so many classes no model has")
        if any(type(count) is not int or count < 1 for count in votes.values()):
            raise ValueError("a count is no positive integer")
        if not number > 0 or not all(NOBODY <= label < number for label in votes):
            raise ValueError("there is no such class")
        counts = Counts(tuple(votes.get(label, 0) for label in range(number)), votes.get(NOBODY, 0))
        if votes_text(counts) != text:
            raise ValueError("they are not written as they should be")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"these are no votes: {text[:80]!r} ({error})") from None
    return counts


def added(counts: Iterable[Counts]) -> Counts:
    """Their sum. Where one has fewer classes than another, nobody of it voted for the others."""
    found = list(counts)
    classes = zip_longest(*(each.classes for each in found), fillvalue=0)
    return Counts(tuple(map(sum, classes)), sum(each.nobody for each in found))
