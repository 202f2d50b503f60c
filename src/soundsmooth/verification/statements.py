"""What a replay proves: of each certificate, and of all together (docs/audit.md)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from ..audit import Confirmed, Urn, detection
from ..certification.report import count_above
from ..core.decimals import truncated


class Claimed(NamedTuple):
    """A certificate with a label: something that a replay can confirm or refuse."""

    place: int
    number: int
    """Of the image, in its data set."""
    label: int
    truth: int | None
    radius: float
    p_lower: float
    copies: int
    """How many copies for estimation it rests on: with looks, those up to the look at which the image stopped."""
    paid: float | None = None
    """What the radius is less by, if floats were rounded to the grid."""


@dataclass(frozen=True)
class Statement:
    """What the replay proves of one certificate, each part at an error of its own."""

    claimed: Claimed
    copies: int
    differ: int
    failed: int
    selected: bool
    alone: Confirmed
    """(i) from the replayed blocks alone."""
    struck: Confirmed
    """(ii) from all blocks, less those that may have escaped."""
    honest: Confirmed | None
    """(iii) for an honest issuer with another machine; None where bitmaps were left out or independence is measured."""
    refuted: bool
    """The replayed votes prove that p is below the claimed p_lower."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "index": self.claimed.number,
            "label": self.claimed.label,
            "claimed": truncated(self.claimed.radius),
            "replayed copies": self.copies,
            "votes that differ, at least": self.differ,
            "blocks that failed": self.failed,
            "selection confirmed": self.selected,
            "refuted": self.refuted,
            "(i) replayed blocks alone": _confirmed_dict(self.alone),
            "(ii) struck out": _confirmed_dict(self.struck),
            "(iii) honest issuer only": None if self.honest is None else _confirmed_dict(self.honest),
        }


@dataclass(frozen=True)
class Replay:
    """What the replay proves of each certificate and of all together."""

    blocks: int
    drawn: int
    beta: Fraction
    escaped: int
    """b: more bad blocks than this escape with probability below β."""
    excess: int
    """t: the most false hits that were seen in one block."""
    differ: int
    failed: int
    rows: int | None
    """How many rows were voted alone; None if independence was not promised to be measured."""
    same_machine: bool
    statements: tuple[Statement, ...]
    set_radii: tuple[float, ...]
    """For each certificate a radius; all but b of them hold, at α each, except with probability β."""
    places: Urn | None = None
    """Where looks were promised: how many places there are for blocks, and how many were drawn; None for the blocks
    themselves."""

    @property
    def urn(self) -> Urn:
        """What was drawn from."""
        return self.places or Urn(self.blocks, self.drawn)

    @property
    def whole(self) -> bool:
        """Whether every block was drawn, whatever the draw: it was known before it."""
        return self.urn.whole

    @property
    def full(self) -> bool:
        """Whether every block was voted again, every vote is the stored one, and every radius is confirmed."""
        return self.whole and not (self.differ or self.failed or self.smaller)

    @property
    def smaller(self) -> int:
        """How many certificates would have a smaller radius, had they been issued from the replayed blocks alone."""
        return sum(each.alone.radius < each.claimed.radius for each in self.statements)

    def share_above(self, radius: Fraction, promised: int) -> Fraction:
        """A lower bound on the share of promised images whose correct certificates survive the audit of the set."""
        found = zip(self.statements, self.set_radii, strict=True)
        (hits,) = count_above((proved for s, proved in found if s.claimed.label == s.claimed.truth), [radius])
        return Fraction(max(0, hits - self.escaped), promised)

    def to_dict(self) -> dict[str, Any]:
        return {
            "blocks": self.blocks,
            "drawn": self.drawn,
            **({} if self.places is None else {"places": self.places.places, "places drawn": self.places.drawn}),
            "every block drawn": self.whole,
            "full": self.full,
            "beta": str(self.beta),
            "bad blocks that may have escaped": self.escaped,
            "largest excess in a block": self.excess,
            "one bad block is met with probability": str(_meeting_one(self.urn)),
            "votes that differ, at least": self.differ,
            "blocks that failed": self.failed,
            "rows voted alone": self.rows,
            "same kind of machine": self.same_machine,
            "what counts": counts_rule(self.whole),
            "certificates": [statement.to_dict() for statement in self.statements],
        }


def counts_rule(whole: bool) -> str:
    """Which statement counts. It is fixed before the draw, by the number of blocks alone."""
    if whole:
        return "(i), which is then the whole certificate, voted again"
    return "(i) for one certificate, at alpha; for the set: all but b of N, at beta and alpha each"


def _meeting_one(urn: Urn) -> Fraction:
    """The probability that a draw meets a certain block."""
    return detection(urn.places, min(1, urn.places), urn.drawn)


def _confirmed_dict(found: Confirmed) -> dict[str, str]:
    return {"p_lower": truncated(found.p_lower), "radius": truncated(found.radius), "error": str(found.error)}
