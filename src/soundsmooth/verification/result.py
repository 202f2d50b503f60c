"""What an audit has found: what was checked, what was not, what is wrong, and what it means."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any

from ..audit import ClaimReport
from ..certification.looks import Looks
from ..certification.promise import Promise
from ..certification.report import RADII, count_above, tabled_radii
from .statements import Replay

#: So many findings are kept in words; all are counted.
KEPT = 100


@dataclass(frozen=True)
class Check:
    """One thing that can be checked. `passed` is None if it was not."""

    name: str
    passed: bool | None
    text: str


@dataclass
class Findings:
    """What is wrong. One finding is enough to refuse a run."""

    count: int = 0
    texts: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self.count += 1
        if len(self.texts) < KEPT:
            self.texts.append(text)

    def add_all(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.add(text)

    def __bool__(self) -> bool:
        return self.count > 0


def _no_radii() -> "array[float]":
    return array("d")


@dataclass
class CertificateTally:
    """Counted one certificate at a time; the denominator is the promised number of images."""

    promised: int = 0
    certified: int = 0
    abstained: int = 0
    failed: int = 0
    aborted: int = 0
    """Of those that are certified or abstained: ended from outside, at their last full look."""
    refused: int = 0
    """Records in a file of certificates that count for nothing."""
    accepted: int = 0
    """Certificates and abstentions whose arithmetic is accepted."""
    loose: int = 0
    """Accepted ones that claim less than their counts allow: sound, but not what this program issues."""
    unlabelled: int = 0
    """Certificates for images without a promised label."""
    correct: "array[float]" = field(default_factory=_no_radii)
    """The radii of those with the promised label."""
    radii: tuple[Fraction, ...] = RADII
    """Where accuracy is said."""

    def expect(self, promise: Promise) -> None:
        """As many images as are promised, at the radii that are asked for; the promise can be read."""
        self.promised = int(promise.values["input count"])
        self.radii = tabled_radii(Looks.of_lines(promise.values))

    @property
    def finished(self) -> int:
        return self.certified + self.abstained

    @property
    def open(self) -> int:
        """Promised images with neither a certificate nor a failure."""
        return max(0, self.promised - self.finished - self.failed)

    def add(self, label: int | None, truth: int | None, radius: float, aborted: bool, report: ClaimReport) -> None:
        self.certified += label is not None
        self.abstained += label is None
        self.aborted += aborted
        self.accepted += report.accepted
        self.loose += report.accepted and not report.tight
        self.unlabelled += truth is None
        if label is not None and label == truth:
            self.correct.append(radius)

    @property
    def above(self) -> dict[Fraction, int]:
        """For each radius, how many are correct with a larger one."""
        return dict(zip(self.radii, count_above(self.correct, self.radii), strict=True))

    def accuracies(self) -> dict[Fraction, Fraction]:
        """The share of all promised images that are correct with a larger radius, as stated."""
        if self.unlabelled or not self.promised:
            return {}
        return {r: Fraction(count, self.promised) for r, count in self.above.items() if r == self.radii[0] or count}

    def to_dict(self) -> dict[str, Any]:
        return {
            "promised": self.promised,
            "certified": self.certified,
            "abstained": self.abstained,
            "failed": self.failed,
            **({"aborted": self.aborted} if self.aborted else {}),
            "refused": self.refused,
            "open": self.open,
            "accepted": self.accepted,
            "loose": self.loose,
            "accuracy": {str(radius): str(share) for radius, share in self.accuracies().items()},
        }


class Conclusion(Enum):
    """How an audit ends. Exit code, JSON and prose are made of it, and of nothing else: so they agree."""

    REFUTED = "refuted"
    """Something is wrong."""
    UNCONFIRMED = "not confirmed"
    """Nothing is refuted, but what was voted again is not what is stored, on another machine than was promised."""
    CONSISTENT = "consistent"
    """Nothing wrong was found, and no vote was repeated."""
    PARTLY = "partly replayed"
    """Nothing wrong was found, and some blocks were voted again."""
    FULL = "fully verified"
    """Every block was voted again, no vote differs, every radius is confirmed, and nothing else is wrong."""

    @property
    def code(self) -> int:
        """The command's exit code. (2 is for what cannot be read.)"""
        return {Conclusion.REFUTED: 1, Conclusion.UNCONFIRMED: 3}.get(self, 0)


@dataclass
class Verification:
    """The result. `findings` are what is wrong; without them nothing was found wrong, and `not_shown` says the rest."""

    target: str
    run: bool
    """A run's file; otherwise certificates as JSON."""
    promise: Promise | None = None
    content: str | None = None
    checks: list[Check] = field(default_factory=list)
    tally: CertificateTally = field(default_factory=CertificateTally)
    findings: Findings = field(default_factory=Findings)
    notes: list[str] = field(default_factory=list)
    replay: Replay | None = None
    beta: Fraction = Fraction(1, 1000)
    """The error at which statements about the set are made, or would be."""

    @property
    def conclusion(self) -> Conclusion:
        if self.findings:
            return Conclusion.REFUTED
        if self.replay is None:
            return Conclusion.CONSISTENT
        if self.replay.full:
            return Conclusion.FULL
        return Conclusion.UNCONFIRMED if self.replay.differ or self.replay.whole else Conclusion.PARTLY

    @property
    def ok(self) -> bool:
        """Whether nothing was refuted, and no vote that was repeated differs."""
        return self.conclusion.code == 0

    @property
    def shown(self) -> list[str]:
        """What this audit has shown."""
        return [f"{check.name}: {check.text}" for check in self.checks if check.passed]

    @property
    def refuted(self) -> bool:
        return self.conclusion is Conclusion.REFUTED

    @property
    def full(self) -> bool:
        """Every certificate with a label was voted again, whole; no vote differs, and nothing else is wrong."""
        return self.conclusion is Conclusion.FULL

    @property
    def key_bound(self) -> bool:
        """The key was fixed by the nonce that the auditor drew for this commitment: the premise against an issuer."""
        return any(check.name == "nonce" and check.passed for check in self.checks)

    @property
    def independence_by(self) -> tuple[str, ...]:
        """What this audit itself has to show for the independence of rows: "argument" and "witness", "re-voting", or
        nothing; then it is the issuer's word.
        """
        if any(check.name == "independence" and check.passed for check in self.checks):
            return ("argument", "witness")
        return ("re-voting",) if self.replay is not None and self.replay.rows else ()

    def check(self, *checks: Check) -> None:
        """Note checks; those that failed are findings."""
        self.checks.extend(checks)
        self.findings.add_all(f"{check.name}: {check.text}" for check in checks if check.passed is False)

    @property
    def not_shown(self) -> list[str]:
        """What this audit did not look at."""
        return [f"{check.name}: {check.text}" for check in self.checks if check.passed is None]

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": "soundsmooth audit 1",
            "target": self.target,
            "conclusion": self.conclusion.value,
            "exit code": self.conclusion.code,
            "refuted": self.refuted,
            "full": self.full,
            "votes differ": self.replay is not None and self.replay.differ > 0,
            "key fixed by the noted nonce": self.key_bound,
            "independence by": list(self.independence_by),
            "content": self.content,
            "commitment": None if self.promise is None else self.promise.commitment,
            "promise": None if self.promise is None else dict(self.promise.values),
            "checks": [{"name": c.name, "passed": c.passed, "text": c.text} for c in self.checks],
            "findings": {"count": self.findings.count, "first": list(self.findings.texts)},
            "notes": list(self.notes),
            "certificates": self.tally.to_dict(),
            "replay": None if self.replay is None else {**self.replay.to_dict(), "set": self._set()},
        }

    def _set(self) -> dict[str, Any]:
        assert self.replay is not None
        return {
            "certificates": len(self.replay.statements),
            "all but": self.replay.escaped,
            "accuracy": {str(radius): str(share) for radius, share in self.confirmed_accuracies().items()},
        }

    def confirmed_accuracies(self) -> dict[Fraction, Fraction]:
        """Where accuracies are stated, what the replay leaves of them for the set (docs/audit.md, Theorem 5)."""
        if self.replay is None:
            return {}
        return {r: self.replay.share_above(r, self.tally.promised) for r in self.tally.accuracies()}
