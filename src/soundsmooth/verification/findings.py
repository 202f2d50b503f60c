"""What an audit has to say: checks that passed, failed or were not made, and what was found wrong."""

from collections.abc import Iterable
from dataclasses import dataclass, field

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

    def extend(self, others: "Findings") -> None:
        self.add_all(others.texts)
        self.count += others.count - len(others.texts)

    def __bool__(self) -> bool:
        return self.count > 0
