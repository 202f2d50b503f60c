"""The certificate: a frozen record of what was promised, what was counted and what follows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from .certify import Counts
from .promise import Promise

FORMAT = "soundsmooth certificate 1"


@dataclass(frozen=True)
class Certificate:
    """For every δ with ‖δ‖₂ < radius the smoothed classifier answers `label` at x + δ, except with probability α.

    The probability is over the key. What it rests on is in the record: that the model's rows are independent
    (`independence`), that Python models are honest, and who chose the key (`key`). An abstention (`abstained`)
    claims nothing.
    """

    index: int
    """The input's number in its data set; 0 for a lone one."""
    label: int | None
    radius: float
    p_lower: float
    p_upper: float | None
    truth: int | None
    """The true label, if it was promised."""
    selection: Counts
    estimation: Counts
    promise: Promise
    seed: str
    nonce: str
    environment: Mapping[str, str]
    seconds: float

    @property
    def abstained(self) -> bool:
        return self.label is None

    @property
    def correct(self) -> bool:
        """The label is the promised true one. An abstention is a wrong answer."""
        return self.label is not None and self.label == self.truth

    @property
    def commitment(self) -> str:
        return self.promise.commitment

    @property
    def key(self) -> str:
        """Who had a say in the key."""
        return "verifier's nonce" if self.nonce else "self-chosen"

    @property
    def independence(self) -> str:
        return self.promise.values["independence"]

    def __str__(self) -> str:
        alpha, origin = self.promise.values["alpha"], f"key: {self.key}, independence: {self.independence}"
        if self.label is None:
            return f"abstained (p ≥ {truncated(self.p_lower)}; {origin})"
        return (
            f"class {self.label} for every ‖δ‖₂ < {truncated(self.radius)} "
            f"(p ≥ {truncated(self.p_lower)}, α = {alpha}; {origin})"
        )

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data; bounds as hexadecimal floats, exact, and as decimals that err the safe way."""
        return {
            "format": FORMAT,
            "index": self.index,
            "label": self.label,
            "radius": _below(self.radius),
            "p_lower": _below(self.p_lower),
            "p_upper": None if self.p_upper is None else _above(self.p_upper),
            "truth": self.truth,
            "selection": _counts(self.selection),
            "estimation": _counts(self.estimation),
            "promise": dict(self.promise.values),
            "commitment": self.commitment,
            "seed": self.seed,
            "nonce": self.nonce,
            "key": self.key,
            "environment": dict(self.environment),
            "seconds": self.seconds,
        }

    def to_json(self) -> str:
        """One line of JSON, which `from_json` turns back into an equal record."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """The record that was written; a ValueError if it is none or does not fit its own commitment."""
        try:
            data = json.loads(text)
            certificate = cls._from_dict(data)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise ValueError(f"this is not a {FORMAT}: {error!r}") from error
        if certificate.commitment != data["commitment"]:
            raise ValueError("the certificate's commitment is not the SHA-256 of its promise")
        return certificate

    @classmethod
    def _from_dict(cls, data: Mapping[str, Any]) -> "Certificate":
        if data["format"] != FORMAT:
            raise ValueError(f"this is not a {FORMAT}, but {data['format']!r}")
        return cls(
            index=data["index"],
            label=data["label"],
            radius=float.fromhex(data["radius"]["hex"]),
            p_lower=float.fromhex(data["p_lower"]["hex"]),
            p_upper=None if data["p_upper"] is None else float.fromhex(data["p_upper"]["hex"]),
            truth=data["truth"],
            selection=Counts(tuple(data["selection"]["classes"]), data["selection"]["nobody"]),
            estimation=Counts(tuple(data["estimation"]["classes"]), data["estimation"]["nobody"]),
            promise=Promise(data["promise"]),
            seed=data["seed"],
            nonce=data["nonce"],
            environment=data["environment"],
            seconds=data["seconds"],
        )


@dataclass(frozen=True)
class Prediction:
    """The smoothed classifier's answer under fresh noise, or an abstention; the key is disclosed afterwards."""

    index: int
    label: int | None
    counts: Counts
    n: int
    alpha: str
    sigma: str
    key: str
    seconds: float

    @property
    def abstained(self) -> bool:
        return self.label is None

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data."""
        return {
            "index": self.index,
            "label": self.label,
            "counts": _counts(self.counts),
            "n": self.n,
            "alpha": self.alpha,
            "sigma": self.sigma,
            "key": self.key,
            "seconds": self.seconds,
        }


def truncated(value: float, digits: int = 6) -> str:
    """A decimal that is at most the value: what is printed never claims more than what was proved."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR))


def raised(value: float, digits: int = 6) -> str:
    """A decimal that is at least the value, for upper bounds."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING))


def _below(value: float) -> dict[str, str]:
    return {"hex": value.hex(), "decimal": truncated(value, 9)}


def _above(value: float) -> dict[str, str]:
    return {"hex": value.hex(), "decimal": raised(value, 9)}


def _counts(counts: Counts) -> dict[str, Any]:
    return {"classes": list(counts.classes), "nobody": counts.nobody}
