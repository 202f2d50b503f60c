"""Write the tables of docs/gallery.md and docs/paper.md from a run of the gallery.

soundsmooth break --json > run.jsonl
soundsmooth break --numbers > numbers.md
python experiments/gallery/table.py run.jsonl numbers.md docs/gallery.md docs/paper.md

A page gets the tables that it has marks for.
"""

import json
import sys
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- {name}: generated -->", "<!-- end of {name} -->"
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


def insert(text: str, name: str, table: str) -> str:
    begin, end = BEGIN.format(name=name), END.format(name=name)
    if begin not in text:
        return text
    head, tail = text.split(begin)[0], text.split(end)[1]
    return f"{head}{begin}\n\n{table}\n\n{end}{tail}"


def main() -> None:
    run, numbers, *pages = map(Path, sys.argv[1:])
    trials = [json.loads(line) for line in run.read_text(encoding="utf-8").splitlines()]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if trials:  # an empty file: the verdicts stay as they are
            text = insert(text, "verdicts", verdicts(trials))
        page.write_text(insert(text, "numbers", numbers.read_text(encoding="utf-8").strip()), encoding="utf-8")


if __name__ == "__main__":
    main()
