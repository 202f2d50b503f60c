"""Audit the stored runs as `soundsmooth verify` does, some blocks voted again, where there is no more than torch.

    python experiments/cifar10/replay.py DATA.npz RUNS --replay 2%       # RUNS: a folder, or .db files
    python experiments/cifar10/replay.py DATA.npz RUNS                   # no vote is repeated

Prints a line for each run, and ends with code 1 if anything is refuted; with `--record FILE` the lines are kept there,
for the tables. Without a replay no network is loaded. With `--artifact FILE` the tuned kernels in it are trusted.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import networks
import torch

from soundsmooth.certification.promise import Inputs, Promise
from soundsmooth.core.grid import Grid
from soundsmooth.data.load import load
from soundsmooth.lab.scripts.rows import keep
from soundsmooth.runs.artifact_file import promised_artifact
from soundsmooth.smoothing.classifier import Smoothing
from soundsmooth.verification import AuditInputs, Verification, audit_file
from soundsmooth.verification.promised import promised_smoothing

#: What makes a smoothed classifier, of all that is promised.
SMOOTHING = ("model", "input shape", "grid", "margin", "sigma", "batch", "precision", "device", "flags", "independence")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--replay", help="2%%, all, or a number of blocks")
    parser.add_argument("--layout", default="nhwc-to-nchw")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--weights", type=Path, default=networks.WEIGHTS)
    parser.add_argument("--artifact", type=Path, help="the tuned kernels of the runs, which are code")
    parser.add_argument("--record", type=Path, help="a JSON file; what it says of other runs stays")
    asked = parser.parse_args()
    paths = [path for each in asked.runs for path in (sorted(each.glob("*.db")) if each.is_dir() else [each])]
    held: dict[str, Smoothing] = {}
    found = [audit(path, asked, held) for path in paths]
    sys.exit(1 if any(found) or not found else 0)


def audit(path: Path, asked: argparse.Namespace, held: dict[str, Smoothing]) -> bool:
    """Whether something in the run is refuted. Classifiers are held, since to compile one takes a while."""

    def model(promise: Promise) -> Smoothing:
        name = " ".join(promise.values[term] for term in SMOOTHING)
        if name not in held:
            module = networks.network(networks.weights_file(promise.values["sigma"], asked.weights))
            kernels = None if asked.artifact is None else promised_artifact(asked.artifact, promise)
            held[name] = promised_smoothing(module, promise, {"device": asked.device}, kernels)
        return held[name]

    def data(grid: Grid) -> Inputs:
        return load(asked.data, grid=grid, layout=asked.layout)

    given = AuditInputs(model if asked.replay else None, data, asked.replay)
    result = audit_file(path, given=given)
    found = summary(path, result)
    print(json.dumps(found, ensure_ascii=False), flush=True)
    if asked.record:
        keep(asked.record, found, ["run"])
    return result.refuted


def summary(path: Path, result: Verification) -> dict[str, Any]:
    """The run's name, its content, what was found, and what was voted again."""
    assert result.promise is not None
    checks = {check.name: check.text for check in result.checks if check.passed}
    return {
        "run": path.name,
        "refuted": result.refuted,
        "findings": list(result.findings.texts),
        "content": result.content,
        "commitment": result.promise.commitment,
        "arithmetic": checks.get("arithmetic"),
        "replay": checks.get("replay"),
        "machine": checks.get("machine"),
    }


if __name__ == "__main__":
    main()
