"""What a run's file says it was fixed to when it began: promise and secret, how votes are stored, and its blocks."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from ..certification.promise import Promise, Secret, is_digest
from ..smoothing.blocks import VoteBlock, vote_rounds
from .damage import check_kinds, check_schema, types_of
from .database import MEMORY, Database
from .information import NAMES as INFORMATION
from .information import Information, read_information
from .other_terms import votes_word
from .schema import schema
from .stored import RunTerms, whole

Row = tuple[Any, ...]
NAMES = ("promise", "commitment", "seed", "nonce", "block", "votes", "begun")
VOTES = {votes_word(kept): kept for kept in (True, False)}
#: An image with more blocks would be a run that nobody can store.
MOST_BLOCKS = 1_000_000
#: The tables with rows about images: what is read of them, and in which order.
PLACED = {
    "images": ("*", "place"),
    "certificates": ("*", "place"),
    "blocks": ("*", "place, purpose, first"),
    "alone": ("*", "place, first"),
    "findings": ("place", "place"),
}


class RunHeader:
    """A run's file, and what it says the run is fixed to."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.db.close()

    @property
    def path(self) -> Path | None:
        """The run's file; None for a run in memory."""
        return None if self.db.path == MEMORY else self.db.path

    @cached_property
    def schema(self) -> str:
        """The tables that a file of its format has."""
        return schema(self.db.version)

    @property
    def _said(self) -> dict[str, str]:
        rows = list(self.db.rows("SELECT name, value FROM run"))
        held = dict(rows)
        if len(held) != len(rows):
            raise ValueError("the run says something twice")
        missing = [name for name in {**dict.fromkeys(NAMES), **held} if not isinstance(held.get(name), str)]
        if missing:
            raise ValueError(f"the run does not say what it is: {', '.join(map(str, missing))!r:.80} missing")
        unknown = sorted(str(name) for name in held.keys() - {*NAMES, *INFORMATION})
        if unknown:
            raise ValueError(f"the run says something that this version does not know: {', '.join(unknown)!r:.80}")
        return held

    @cached_property
    def promise(self) -> Promise:
        """The promise that the file states; a ValueError if it is none."""
        return Promise.of_text(self._said["promise"])

    @property
    def commitment(self) -> str:
        """The commitment that the file states."""
        return self._said["commitment"]

    @property
    def information(self) -> Information:
        """What the file says for people: no claim rests on it. A ValueError if it is malformed."""
        return read_information(self._said, self.promise.values["input count"])

    @cached_property
    def stated(self) -> RunTerms:
        """What the run says it was fixed to; a ValueError if it cannot be made sense of. Whether seed and promise fit
        each other is another matter.
        """
        held, promise = self._said, self.promise
        about = read_information(held, promise.values["input count"])  # malformed, it is no run of ours
        if not is_digest(held["seed"]) or not (held["nonce"] == "" or is_digest(held["nonce"])):
            raise ValueError("the run's seed or nonce is not 32 bytes in hexadecimal")
        if held["votes"] not in VOTES:
            raise ValueError(f"the run's votes are neither kept nor left out, but {held['votes']!r:.80}")
        secret = Secret(bytes.fromhex(held["seed"]), bytes.fromhex(held["nonce"]))
        return RunTerms(promise, secret, whole(held["block"], "block"), VOTES[held["votes"]], about.asked)

    @cached_property
    def terms(self) -> RunTerms:
        """The same for a file that does not contradict itself: with our tables, and a seed and as many images as
        promised; a ValueError otherwise.
        """
        check_schema(self.db, self.schema)
        check_kinds(self.db, self.schema, ("run",))
        try:
            terms = self.stated
            terms.settings  # noqa: B018
            images, promised = self.db.one("SELECT COUNT(*) FROM images"), terms.promise.values
            right = (terms.promise.commitment, promised["seed"], promised["input count"])
            if (self.commitment, terms.secret.digest, str(images)) != right:
                raise ValueError("commitment, seed or number of images do not fit the promise")
        except (KeyError, ValueError, TypeError, ZeroDivisionError) as error:
            raise self.damaged(error) from None
        return terms

    @cached_property
    def all_blocks(self) -> list[VoteBlock]:
        """The blocks of every image, in the order in which they are voted; a ValueError if they are too many."""
        return [block for round in self.rounds for block in round]

    @cached_property
    def rounds(self) -> list[list[VoteBlock]]:
        """The same, as they are voted from decision to decision."""
        chosen, block = self.stated.settings, self.stated.block
        if (chosen.n0 + chosen.n) // block > MOST_BLOCKS:
            raise ValueError(f"blocks of {block} copies are too small for n = {chosen.n}")
        return vote_rounds(chosen, block)

    def damaged(self, why: object) -> ValueError:
        return ValueError(f"{str(self.db.path)!r} is damaged: {why}")

    def fits(self, table: str, row: Row) -> bool:
        """Whether the values in a row, its place left out, are of the kinds that its columns declare."""
        types = types_of(self.schema, table)[1:]
        return len(row) == len(types) and all(type(value) in each for value, each in zip(row, types, strict=True))

    def placed(self, table: str) -> Iterator[Row]:
        """All rows of a table about images, as they are: the place first, in the order of places."""
        columns, order = PLACED[table]
        return self.db.rows(f"SELECT {columns} FROM {table} ORDER BY {order}")
