"""What an auditor brings: what was noted before the run, the model and the data, and how much is to be voted again."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from ..certification.promise import Promise, is_digest
from ..core.grid import Grid
from ..data.load import AllImages
from ..smoothing.classifier import Smoothing
from .draw import number_to_draw


@dataclass(frozen=True)
class AuditInputs:
    """What the auditor has beside the file: model and data, and what was noted before the run was handed over.

    The commitment was received before the nonce was drawn; `content` is the hash that came with the file. All may be
    missing. Then less is checked, and the audit says so.
    """

    model: Callable[[Promise], Smoothing] | None = None
    """Makes the promised classifier from the auditor's copy of the model."""
    data: Callable[[Grid], AllImages] | None = None
    """Opens the auditor's data, all of it."""
    replay: str | None = None
    beta: Fraction = Fraction(1, 1000)
    other_machine: bool = False
    """Mismatches may be honest: this machine is known to round differently."""
    commitment: str | None = None
    nonce: str | None = None
    promise: Promise | None = None
    content: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("commitment", self.commitment), ("nonce", self.nonce), ("hash", self.content)):
            if value is not None and not is_digest(value):
                raise ValueError(f"the {name} must be 64 hexadecimal digits in lower case, not {value!r}")
        if self.replay is not None:
            number_to_draw(self.replay, 1)  # what cannot be understood is refused before anything is read

    @property
    def fixed(self) -> str | None:
        """The commitment that was noted, as such or as the promise that it is the hash of."""
        return self.commitment or (None if self.promise is None else self.promise.commitment)
