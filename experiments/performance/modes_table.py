"""Write the tables of ways to run in docs/performance.md, from the JSON objects of `modes.py` and `end_to_end.py`.

    python experiments/performance/modes_table.py docs/performance.md docs/data/modes/*.json docs/data/end_to_end/*.json

What was measured on a GPU goes between two marks in the page, what was measured on a processor between two others, and
whole runs with tuned kernels between two more.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from soundsmooth.lab.scripts.pages import fill, interval, table
from soundsmooth.models.speed import FASTER

MODES = ("none", "torch-compile", "tuned", "auto")
#: What only a whole run has.
FIRST = "first run, seconds"
#: Column by column: certifications in a way, over the forward passes of what.
OVER = {"the same": "{mode} forward", "eager": "module forward", "torch.compile": "compiled forward"}


def main(page: Path, sources: Sequence[Path]) -> None:
    found = [json.loads(source.read_text()) for source in sources]
    for mark, text in (("modes", rows), ("modes on a processor", processor_rows), ("end to end", whole_runs)):
        some = [each for each in found if mark_of(each) == mark]
        if some:
            fill(page, mark, text(some))


def mark_of(found: dict[str, Any]) -> str:
    """Where it goes in the page."""
    if FIRST in found:
        return "end to end"
    return "modes on a processor" if found["device"] == "cpu" else "modes"


def rows(found: Sequence[dict[str, Any]]) -> str:
    """A row for each measured way of each network."""
    over = [f"certify / forward, {name}" for name in OVER]
    head = ["network", "n", "precision", "way", "batch", "forward, s an image", *over, "certify / fastest forward"]
    return table(head, [row(each, mode) for each in found for mode in MODES if mode in each["modes"]])


def processor_rows(found: Sequence[dict[str, Any]]) -> str:
    """The same on a processor, where other programs run: their work does not count in processor time."""
    head = ["network", "threads", "n", "way", "batch"]
    head += [f"{what}, certify / forward" for what in ("wall time", "processor time")]
    head += ["processor time, forward / module", "processor s an image"]
    return table(head, [processor_row(each, mode) for each in found for mode in MODES if mode in each["modes"]])


def processor_row(found: dict[str, Any], mode: str) -> list[str]:
    same, module = f"{mode} certify / {mode} forward", f"{mode} forward / module forward"
    wall, work = found["ratios"], found["processor ratios"]
    return [
        found["network"], str(found["threads"]), str(found["n"]), mode, str(found["modes"][mode]["batch"]),
        interval(wall[same], 3), interval(work[same], 3), interval(work[module], 3) if module in work else "",
        f"{found['processor seconds'][f'{mode} certify'] / found['images']:.2f}",
    ]  # fmt: skip


def whole_runs(found: Sequence[dict[str, Any]]) -> str:
    """Runs with tuned kernels, from promise to certificates, beside the field's script; then in other processes."""
    head = ["network", "n", "images", "precision", "batch", "s an image", "the field's script", "times as long"]
    head += [
        "first run, tuning included, s",
        "artifact, MB",
        "images with other votes in a continued run",
        "in a replay",
    ]
    return table(head, [whole_run(each) for each in found])


def whole_run(found: dict[str, Any]) -> list[str]:
    replayed = found["replay"]["ok"] and any("no difference: a full" in said for said in found["replay"]["shown"])
    return [
        found["network"], str(found["n"]), str(found["images"]), found["precision"], str(found["batch"]),
        f"{found['seconds an image']['ours']:.3f}", f"{found['seconds an image']['field']:.3f}",
        interval(found["field / ours"], 2), f"{found[FIRST]:.0f}", f"{found['artifact, MB']:.1f}",
        str(found["continue"]["other votes"]), "0" if replayed else "some",
    ]  # fmt: skip


def row(found: dict[str, Any], mode: str) -> list[str]:
    """One way of one network. Of fastest forward passes there is the ratio of two medians, without an interval."""
    seconds, ratios = found["seconds"], found["ratios"]
    over = [ratios.get(f"{mode} certify / {name.format(mode=mode)}") for name in OVER.values()]
    fastest = min(spent for name, spent in seconds.items() if name.endswith("forward"))
    way = f"{mode} (default)" if mode == default(seconds) else mode
    return [
        found["network"], str(found["n"]), found["precision"], way, str(found["modes"][mode]["batch"]),
        f"{seconds[f'{mode} forward'] / found['images']:.4f}",
        *("" if each is None else interval(each) for each in over), f"{seconds[f'{mode} certify'] / fastest:.3f}",
    ]  # fmt: skip


def default(seconds: dict[str, float]) -> str:
    """What `auto` is in a long run on a GPU: compiled, if that gains enough."""
    compiled = seconds.get("torch-compile forward")
    return "none" if compiled is None or compiled > FASTER * seconds["none forward"] else "torch-compile"


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(each) for each in sys.argv[2:]])
