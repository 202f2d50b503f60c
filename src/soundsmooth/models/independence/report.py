"""What an inspection found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Report:
    """Whether every output row of a graph was proved to be the same function of its own input row.

    Guarantee: if `proved`, then for every batch size that the graph accepts (`batch`, if it is fixed) and every
    position b, row b of the first output is f(row b of the input) for one function f that depends on neither; the
    graph keeps no state and draws nothing at random. f is built from the operators as they are defined, in real
    arithmetic or in any arithmetic whose rounding does not depend on position and batch size.
    """

    proved: bool
    reason: str
    """One line: what was proved, or which node breaks the proof."""
    batch: int | None = None
    """The batch size, where the graph has a fixed one."""
    nodes: int = 0
    operators: Mapping[str, int] = field(default_factory=dict)
    """How often each operator occurs."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON."""
        return {
            "proved": self.proved,
            "reason": self.reason,
            "batch": self.batch,
            "nodes": self.nodes,
            "operators": dict(sorted(self.operators.items())),
        }


def proved(batch: int | None, operators: Mapping[str, int]) -> Report:
    """The report of a finished proof."""
    size = "any batch size" if batch is None else f"its batch size {batch}"
    count = sum(operators.values())
    same = f"each output row is the same function of its own input row, at every position and {size}"
    reason = f"{same}, up to rounding and NaN ({count} nodes)"
    return Report(True, reason, batch, count, operators)


def not_proved(reason: str, batch: int | None = None, operators: Mapping[str, int] | None = None) -> Report:
    """The report of a proof that failed, and why."""
    return Report(False, reason, batch, sum((operators or {}).values()), operators or {})
