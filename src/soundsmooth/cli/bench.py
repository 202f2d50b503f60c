"""`soundsmooth bench gpu`: the measurements, as tables and as JSON."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..lab.bench.gpu import WORKS, measure
from ..runs.output import check_new_file
from .plain import say


def run_gpu(console: Console, out: Path | None, rounds: int, network: str | None) -> None:
    """Measure, show tables, write JSON (to standard output if no file is named)."""
    if out is not None:
        check_new_file(out, (".json",))
    works = tuple(work for work in WORKS if network in (None, work.network))
    if not works:
        raise ValueError(f"network must be {' or '.join(work.network for work in WORKS)}, not {network!r}")
    found = measure(rounds, works, say=lambda line: console.print(line, highlight=False, soft_wrap=True))
    console.print(_noise(found))
    console.print(_whole(found))
    text = json.dumps(found, indent=1)
    if out is None:
        print(text)
    else:
        out.write_text(text + "\n")
        say(console, f"written to {out}")


def _noise(found: dict[str, Any]) -> Table:
    names = list(found["noise"][0]["ms"])
    title = f"noisy copies alone, in ms, on {found['machine']}"
    table = Table("copies", "σ", *names, title=title, title_justify="left")
    for row in found["noise"]:
        shape = "×".join(str(d) for d in (row["copies"], *row["shape"]))
        table.add_row(shape, row["sigma"], *(f"{row['ms'][name]:.3f}" for name in names))
    return table


def _whole(found: dict[str, Any]) -> Table:
    headings = ("network", "precision", "seconds: forward passes", "ours", "ours / forward", "ours / standard")
    table = Table(*headings, title="one image, from start to certificate", title_justify="left")
    for row in found["whole"]:
        seconds, ratios = row["seconds"], row["ratios"]
        table.add_row(
            row["network"],
            row["precision"],
            f"{seconds['forward passes']:.3f}",
            f"{seconds['ours, fresh']:.3f}",
            _interval(ratios["ours, fresh / forward passes"]),
            _interval(ratios["ours, fresh / standard"]),
        )
    return table


def _interval(ratio: list[float]) -> str:
    return f"{ratio[0]:.4f} [{ratio[1]:.4f}, {ratio[2]:.4f}]"
