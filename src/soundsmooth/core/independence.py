"""How it is known that rows of a batch do not see each other and calls leave no trace: proved, measured, checked or
assumed (docs/independence.md). What a user asks for is one of these, or "auto".
"""

import re
from dataclasses import dataclass
from typing import Literal, SupportsIndex, get_args

from .integers import integer

#: Best first: by a proof on the graph that runs, by voting rows again alone, by permuted and split batches, not at all.
Kind = Literal["proved", "measured", "checked", "assumed"]
#: The number of rows that are voted again if none is given: at α = 0.001 it lowers p by 0.0076.
AGAIN = 1000
MOST_AGAIN = 1_000_000
_MEASURED = re.compile("measured m=([1-9][0-9]{0,6})")


@dataclass(frozen=True)
class Independence:
    """One of the four kinds; if it is measured, with the number of rows of each input that are voted again, alone."""

    kind: Kind
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"independence is one of {', '.join(get_args(Kind))}, not {self.kind!r}")
        if not self.measured and self.rows is not None:
            raise ValueError(f"{self.kind} independence has no rows that are voted again")
        if self.measured and (type(self.rows) is not int or not 1 <= self.rows <= MOST_AGAIN):
            raise ValueError(f"measured independence votes 1 to {MOST_AGAIN} rows again, not {self.rows!r}")

    @property
    def proved(self) -> bool:
        return self.kind == "proved"

    @property
    def measured(self) -> bool:
        return self.kind == "measured"

    @property
    def checked(self) -> bool:
        return self.kind == "checked"

    @property
    def text(self) -> str:
        """As a promise writes it: "proved", "measured m=1000"."""
        return self.kind if self.rows is None else f"{self.kind} m={self.rows}"

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of_text(cls, text: str) -> "Independence":
        """The independence that a promise writes as this text; a ValueError if none has it."""
        for known in (PROVED, CHECKED, ASSUMED):
            if text == known.text:
                return known
        found = _MEASURED.fullmatch(text)
        if found is None:
            raise ValueError(f"the promised independence is not one that this version makes: {text!r:.80}")
        return cls("measured", int(found[1]))


PROVED, CHECKED, ASSUMED = Independence("proved"), Independence("checked"), Independence("assumed")

#: What a user asks for; "auto" takes the best that the model allows.
Demand = Independence | Literal["auto"]
#: The same in words.
DemandName = Literal["auto", Kind]


def parse_demand(independence: str | Independence, again: SupportsIndex | None = None) -> Demand:
    """The demand that a user's words make; `again` is the number of rows to vote again if it is "measured"."""
    if again is not None and independence != "measured":
        raise ValueError("again, the number of rows to vote again, goes with measured independence")
    if isinstance(independence, Independence):
        return independence
    if independence == "auto":
        return "auto"
    if independence == "measured":
        return measured(again)
    for known in (PROVED, CHECKED, ASSUMED):
        if independence == known.kind:
            return known
    *names, last = (f'"{name}"' for name in get_args(DemandName))
    raise ValueError(f"independence must be {', '.join(names)} or {last}, not {independence!r}")


def measured(again: SupportsIndex | None = None) -> Independence:
    """Measured independence with this number of rows; a ValueError that names `again` for an impossible one."""
    rows = AGAIN if again is None else integer(again, "again")
    if not 1 <= rows <= MOST_AGAIN:
        raise ValueError(f"again must be an integer between 1 and {MOST_AGAIN}, not {again!r}")
    return Independence("measured", rows)


def check_independence(demand: Demand, what: str) -> None:
    """A ValueError if a proof is demanded of what cannot be proved."""
    if demand == PROVED:
        raise ValueError(
            f"independence cannot be proved for {what}: that its rows do not see each other and that it keeps no "
            "memory can only be checked (independence checked, which can be evaded) or measured"
        )


def unproved_independence(demand: Demand, otherwise: Independence = CHECKED) -> Independence:
    """What a promise says of a model for which there is no proof, after this demand; "auto" leaves it to the model."""
    return otherwise if demand == "auto" else demand
