"""What an inspection found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ProofReport:
    """Whether every output row of a graph was proved to be the same function of its own input row.

    Guarantee: if `proved`, then in batches of size `batch`, at every position b, row b of the first output is f(row b
    of the input) for one function f that does not depend on b; the graph keeps no state and draws nothing at random. f
    is built from the operators as they are defined, in real arithmetic or in any arithmetic whose rounding does not
    depend on the position. Beside the argument a witness saw it: the graph ran, and no value differed from what is
    claimed of it.
    """

    proved: bool
    reason: str
    """One line: what was proved, or which node breaks the proof."""
    batch: int
    """The batch size that this is about."""
    nodes: int = 0
    operators: Mapping[str, int] = field(default_factory=dict)
    """How often each operator occurs."""
    contradiction: bool = False
    """A rule and the runtime disagree about an operator: a fault of ours, and reported as no proof."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON."""
        return {
            "proved": self.proved,
            "reason": self.reason,
            "batch": self.batch,
            "nodes": self.nodes,
            "operators": dict(sorted(self.operators.items())),
        }


def proved(batch: int, operators: Mapping[str, int]) -> ProofReport:
    """The report of a finished proof."""
    count = sum(operators.values())
    same = f"each output row is the same function of its own input row, at every position of a batch of {batch}"
    reason = f"{same}, up to rounding and NaN ({count} nodes; by argument, and seen by a witness)"
    return ProofReport(True, reason, batch, count, operators)


def not_proved(
    reason: str, batch: int, operators: Mapping[str, int] | None = None, contradiction: bool = False
) -> ProofReport:
    """The report of a proof that failed, and why."""
    return ProofReport(False, reason, batch, sum((operators or {}).values()), operators or {}, contradiction)
