"""What the rest of the program knows of a model: a batch of floats goes in, one vote per row comes out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.independence import ASSUMED, Demand, Independence
from ..core.machine import InputPlacement
from .model_source import ModelSource
from .options import ModelOptions

if TYPE_CHECKING:
    from ..independence.proof import ProofReport

#: The vote of a row whose scores hold a NaN, and of a lost noisy copy.
NOBODY = -1
#: The name, among what is recorded beside a certificate, of that which escapes.
OPEN_ENDS = "not in the digest"
MOST_ENDS = 4
#: What a promise's flag `digest` says of Python code: that nothing is known to escape its digest, or that something is.
#: Without the flag the digest is the first one.
CLOSED, OPEN = "2", "2-open"

#: A flag's values, or a test of them; None for a positive whole number.
FlagValues = Mapping[str, tuple[str, ...] | Callable[[str], bool] | None]


class Votes(NamedTuple):
    """One label per row (or NOBODY), and how many classes there are to vote for."""

    labels: Any
    """int64, in NumPy or on the device of the model."""
    classes: int


def no_options(promised: Mapping[str, str], flags: Mapping[str, str]) -> dict[str, Any]:
    """Of a model that is made in one way only."""
    return {}


@dataclass(frozen=True)
class ModelKind:
    """One kind of model: what its promises may say (docs/noise.md, 2.4), and how to make it again from that."""

    name: str
    flags: FlagValues
    """The flags that it may promise."""
    optional: tuple[str, ...] = ()
    """Flags that may be missing: older promises do not have them, or only some models do."""
    binding: bool = False
    """Whether the digest fixes the model: it is data. Otherwise it is Python code, assumed honest."""
    devices: tuple[str, ...] | None = ("cpu",)
    """Where it may run; None for any text."""
    software: tuple[str, ...] = ()
    """Packages whose versions are recorded beside a certificate, if they are imported."""
    elsewhere: tuple[str, ...] = ()
    """Those among them that may be imported in another process only: these are always recorded."""
    with_others: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Flags that are there exactly if another flag has a value: its name, and the value."""
    only_with: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Flags that are there only if another flag has a value."""
    options: Callable[[Mapping[str, str], Mapping[str, str]], dict[str, Any]] = no_options
    """What `ModelOptions` must say, so that a model votes as one with this promise and these flags did."""


@dataclass(frozen=True)
class Identity:
    """What is promised about the model, before the first coin is tossed."""

    kind: str
    """onnx (a graph: data, which the digest fixes), torch or callable (Python code, assumed honest)."""
    digest: str
    """SHA-256 of the model's bytes; of Python code, of what can be seen of it."""
    precision: str = "float32"
    device: str = "cpu"
    flags: Mapping[str, str] = field(default_factory=dict)
    independence: Independence = ASSUMED
    """How it is known that rows of a batch do not see each other and calls leave no trace."""
    first_digest: str | None = None
    """By what older promises name the same model, if it is Python code (docs/noise.md, 2.4)."""
    open_ends: tuple[str, ...] = ()
    """What of Python code may change without a change of the digest. Recorded beside the promise, not promised."""

    @property
    def flags_text(self) -> str:
        """The flags as a promise writes them: of the kernels, and which digest names Python code."""
        flags = dict(self.flags) | ({} if self.digest_flag is None else {"digest": self.digest_flag})
        return " ".join(f"{name}={value}" for name, value in sorted(flags.items())) or "none"

    @property
    def digest_flag(self) -> str | None:
        """The second digest, closed or open; a graph has one digest only."""
        if self.first_digest is None:
            return None
        return OPEN if self.open_ends else CLOSED

    @property
    def recorded(self) -> dict[str, str]:
        """What is recorded beside a certificate: what the digest does not fix, if that is known."""
        return {OPEN_ENDS: open_ends_text(self.open_ends)} if self.open_ends else {}


class Model(ABC):
    """A base classifier F. It must be one fixed function of each row, or draw fresh randomness per row.

    An adapter says which sources it accepts and how it makes a model of one, what the model is, and how it votes. The
    rest has defaults, for a model that is made once, on the CPU, and never changes.
    """

    kind: ClassVar[ModelKind]
    """What is known of all such models."""
    batch: int | None = None
    """The only batch size that the model can run, if it is fixed."""
    shape: tuple[int, ...] | None = None
    """The input shape it declares, batch axis left out, if it declares one."""
    classes: int | None = None
    """How many classes it votes for, as soon as it has told. No vote rests on it."""
    demand: Demand = "auto"
    """How its rows' independence was to be made sure of; "auto" leaves that to the model."""
    remarks: tuple[str, ...] = ()
    """What its owner should know of how it runs, a sentence or two each."""
    report: "ProofReport | None" = None
    """What an inspection found, if there was one."""
    unmeasured: str | None = None
    """Why its rows cannot be voted alone, if they would have been measured otherwise."""
    slower: str | None = None
    """That what votes takes longer than what was given, and why, if that was seen."""
    chosen: str | None = None
    """How it runs, and what that gains, if that was chosen by measuring."""
    artifact: bytes | None = None
    """Its kernels, if they were chosen by timing."""
    tuned_batch: int | None = None
    """The batch size for which they were chosen."""

    @classmethod
    @abstractmethod
    def accepts(cls, source: object, options: ModelOptions) -> bool:
        """Whether it makes models of such a source. Nothing is imported for the answer."""

    @classmethod
    @abstractmethod
    def of(cls, source: ModelSource, options: ModelOptions) -> "Model":
        """The model; a ValueError for options that mean nothing to it."""

    @classmethod
    def sendable(cls, source: Any, options: dict[str, Any]) -> object:
        """The source in a form that can be sent to another machine; `options` get what only this one knows."""
        return source

    @property
    def placement(self) -> InputPlacement | None:
        """Where it reads its batches; None for float32 in NumPy."""
        return None

    @abstractmethod
    def identity(self) -> Identity:
        """What the model is now; changes when the model does."""

    def prepare(self, shape: tuple[int, ...], batch: int) -> None:
        """Get ready for batches of inputs of this shape, before the identity is promised: prove what can be proved."""
        return

    def settle(self, shape: tuple[int, ...], batches: Sequence[int], copies: int) -> None:
        """Choose by measuring how to run, where that was left open, for a run of so many copies in batches of the first
        of these sizes, or of another one. Before `prepare` and the promise, which fixes what is chosen.
        """
        return

    def run_as(self, compilation: str, artifact: bytes | None) -> None:
        """Run in the way that was promised, with these kernels if it is `tuned`. Before `prepare`."""
        return

    def changes(self) -> Callable[[], bool]:
        """Look, after every input, whether `identity` has changed since the beginning; the answer may come later."""
        return _never

    def replica(self, number: int) -> "Model":
        """The same model for another thread, on another GPU if it lives on one; a ValueError if that cannot be."""
        raise ValueError("a Python function may not be thread-safe; leave out workers")

    def largest_batch(self, shape: tuple[int, ...], wanted: int) -> int:
        """The largest batch that fits into memory and is not slower for its size, at most `wanted`."""
        return wanted

    def flags(self) -> Mapping[str, str]:
        """What else decides which kernels run; cheap, and asserted with every batch."""
        return {}

    def recipe(self) -> bytes:
        """How a fresh process makes the same model: a `ModelRecipe`, frozen before the model's first vote, and the same
        bytes ever after. A ValueError if there is no way.
        """
        raise ValueError(f"a {self.kind.name} model cannot be made again in another process")

    @abstractmethod
    def vote(self, values: Any) -> Votes:
        """One vote per row of a batch that belongs to the model: it may write into it and keep it."""


def _never() -> bool:
    return False


def open_ends_text(open_ends: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(open_ends) - MOST_ENDS
    return "; ".join([*open_ends[:MOST_ENDS], *([f"and {more} more"] if more > 0 else [])])


def vote_tolerance(precision: str, count: int) -> float:
    """How many of `count` repeated votes may differ: rounding breaks near ties, in lower precision more of them."""
    return max(1, (0.005 if precision == "float32" else 0.02) * count)


def votes(scores: npt.NDArray[Any], rows: int) -> Votes:
    """The fixed rule: the highest score wins, ties fall to the lowest class, a NaN votes for nobody.

    ±inf are ordered like any number. A single score per row is a logit: above 0 it is a vote for class 1, else for
    class 0. So it is as if class 0 had the score 0. The rule is part of F.
    """
    classes = check_scores(scores.shape, scores.dtype.kind, rows)
    if is_one_logit(scores.shape):
        labels = (scores.reshape(rows) > 0).astype(np.int64)
    else:
        labels = np.argmax(scores, axis=1).astype(np.int64)
    if scores.dtype.kind == "f" and np.isnan(scores.max()):  # the maximum passes a NaN on, wherever it is
        labels[np.isnan(scores.reshape(rows, -1)).any(axis=1)] = NOBODY
    return Votes(labels, classes)


def declared_classes(sizes: Sequence[object]) -> int | None:
    """How many classes scores are for, by the shape [batch, classes] that a model declares for them; None if it leaves
    that open.
    """
    if len(sizes) == 1 or (len(sizes) == 2 and sizes[1] == 1):
        return 2
    last = sizes[1] if len(sizes) == 2 else None
    return last if isinstance(last, int) and last > 1 else None


def is_one_logit(shape: tuple[object, ...]) -> bool:
    """Whether scores of this shape have one number per row."""
    return len(shape) == 1 or shape[1:] == (1,)


def check_scores(shape: tuple[int, ...], kind: str, rows: int) -> int:
    """How many classes the scores are for; a ValueError unless they are [batch, classes], or one logit per row, of real
    numbers. `kind` is NumPy's letter: f for floats, i and u for integers.
    """
    one = is_one_logit(shape)
    if len(shape) not in (1, 2) or shape[0] != rows or (not one and shape[1] < 2):
        raise ValueError(
            f"the model's output has shape {list(shape)} for a batch of {rows}; it must be [batch, classes] = "
            f"[{rows}, at least 2] with one score per class, or [{rows}, 1] with one logit per row"
        )
    if kind not in tuple("fiu"):
        raise ValueError("the model's output must be real numbers (scores), one per class")
    if one and kind != "f":
        raise ValueError(
            f"the model's output is one integer per row, of shape {list(shape)}: these are labels, it seems, and it "
            "must be scores, [batch, classes]"
        )
    return 2 if one else shape[1]
