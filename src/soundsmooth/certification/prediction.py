"""The smoothed classifier's answer to one input: a record, as a certificate is one, that claims less."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .card import card, line, short
from .certify import Counts
from .fields import UPPER, counts_json


@dataclass(frozen=True)
class Prediction:
    """The smoothed classifier's answer under fresh noise, or an abstention; the key is disclosed afterwards."""

    index: int
    label: int | None
    counts: Counts
    n: int
    alpha: str
    sigma: str
    margin: int
    model: str
    """SHA-256 of the model's bytes."""
    key: str
    seconds: float
    rounded: float | None = None
    """At most so far were the floats from the grid point whose answer this is; None if they were on the grid."""
    looks: Mapping[int, str] | None = None
    """When votes were to be counted, and what each look may spend of α; None if they were counted at n alone."""

    @property
    def abstained(self) -> bool:
        return self.label is None

    @property
    def votes(self) -> int:
        """How many noisy copies have voted: n, or fewer where a look decided."""
        return self.counts.total

    def __repr__(self) -> str:
        return line("Prediction", self.index, (self._answer, f"n = {self._copies}", f"α = {short(self.alpha)}"))

    def _repr_html_(self) -> str:
        rows = (
            ("answer", self._answer),
            ("wrong with probability", f"≤ {short(self.alpha)}"),
            ("noisy copies", self._copies),
            ("σ", short(self.sigma)),
        )
        return card(f"Prediction for image {self.index}", rows)

    @property
    def _answer(self) -> str:
        return "abstained" if self.label is None else f"class {self.label}"

    @property
    def _copies(self) -> str:
        return str(self.n) if self.looks is None else f"{self.votes} of {self.n}"

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data."""
        return {
            "index": self.index,
            "label": self.label,
            "counts": counts_json(self.counts),
            "n": self.n,
            "alpha": self.alpha,
            "sigma": self.sigma,
            "margin": self.margin,
            "model": self.model,
            "key": self.key,
            "seconds": self.seconds,
            **({} if self.rounded is None else {"rounded": UPPER.write(self.rounded)}),
            **({} if self.looks is None else {"looks": {str(count): level for count, level in self.looks.items()}}),
        }
