"""Write the tables of docs/gallery.md and docs/paper.md from a run of the gallery.

    soundsmooth break --json > run.jsonl
    soundsmooth break --numbers > numbers.md
    python experiments/gallery/table.py run.jsonl numbers.md docs/gallery.md docs/paper.md

A page gets the tables that it has marks for.
"""

import json
from typing import Any

from soundsmooth.lab.scripts.arguments import paths
from soundsmooth.lab.scripts.pages import fill, has_marks

WORST = ("FALSE (point)", "FALSE (rate)", "FALSE (number)", "VOID", "refused", "holds", "abstains")


def verdicts(trials: list[dict[str, Any]]) -> str:
    """Entries down, certifiers across; the worst verdict of each pair, with the largest radius it was given for."""
    entries = list(dict.fromkeys(trial["entry"] for trial in trials))
    certifiers = list(dict.fromkeys(trial["certifier"] for trial in trials))
    certifiers.sort(key=lambda name: name == "ours")  # ours last
    lines = ["| entry | " + " | ".join(certifiers) + " |", "|---" * (len(certifiers) + 1) + "|"]
    for entry in entries:
        cells = [cell([t for t in trials if (t["entry"], t["certifier"]) == (entry, name)]) for name in certifiers]
        lines.append(f"| `{entry}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(trials: list[dict[str, Any]]) -> str:
    if not trials:
        return ""
    worst = min((trial["verdict"] for trial in trials), key=WORST.index)
    return f"**{worst}**" if worst.startswith(("FALSE", "VOID")) else worst


def main() -> None:
    run, numbers, *pages = paths(__doc__, "run", "numbers", "page...")
    trials = [json.loads(line) for line in run.read_text(encoding="utf-8").splitlines()]
    tables = {"verdicts": verdicts(trials)} if trials else {}  # an empty file: the verdicts stay as they are
    tables |= {"numbers": numbers.read_text(encoding="utf-8").strip()}
    for page in pages:
        for name, table in tables.items():
            if has_marks(page, name):
                fill(page, name, f"\n{table}\n")


if __name__ == "__main__":
    main()
