"""Structured forgeries at full length: one forged field, row, block, flag or table each (docs/audit.md).

python experiments/verify/forgeries.py [MOST OF EACH FILE] [SEED]
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from verification.outcomes import OUTCOMES, Table, honest_files, judged


def shown(table: Table) -> str:
    """Two tables as Markdown: what became of each kind, and why the rest does no harm."""
    lines = [f"| forged | {' | '.join(OUTCOMES)} |", "|---" * (len(OUTCOMES) + 1) + "|"]
    for group, counts in sorted(table.outcomes.items()):
        lines.append(f"| {group} | {' | '.join(str(counts[each] or '') for each in OUTCOMES)} |")
    sums = [sum(counts[each] for counts in table.outcomes.values()) for each in OUTCOMES]
    lines.append(f"| all | {' | '.join(map(str, sums))} |")
    lines += ["", "| not found, because | how many | outcome | fields |", "|---|---|---|---|"]
    for (outcome, reason), count in sorted(table.reasons.items()):
        lines.append(f"| {reason} | {count} | {outcome} | {', '.join(sorted(table.kinds[outcome, reason]))} |")
    return "\n".join(lines)


def main(most: int, seed: int) -> None:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        honest = honest_files(Path(folder))
        table = judged(honest, Path(folder) / "forged", most, seed, lambda text: print(text, flush=True))
    print(shown(table))
    print(f"seed {seed}: {table.total} forgeries, {dict(table.levels)}, {len(table.holes)} missed")
    print(f"found by notes: {dict(table.unnoted)} by a replay without them; {time.monotonic() - start:.0f} s")
    for hole in table.holes:
        print(hole[:600])
    sys.exit(bool(table.holes))


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    main(*numbers[:1] or [10**9], *numbers[1:2] or [0])
