"""The command line itself, killed again and again: the embedded classifier, `certify --out run.db`, SIGKILL.

    python experiments/runs/kills.py --kills 50 --folder /tmp

Each start is killed after a random time, counted from the moment at which it begins to work. Prints how far the run
was at each kill, and compares the end with an undisturbed run, block by block.
"""

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

from soundsmooth.runs.reader import terms_at
from soundsmooth.runs.store import Store

COMMAND = [sys.executable, "-c", "from soundsmooth.cli.main import main; main()", "certify"]
OPTIONS = ["--limit", "40", "--n", "4000", "--seed", "kills"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=0.7, help="At most so long each start works.")
    parser.add_argument("--folder", type=Path, required=True)
    asked = parser.parse_args()
    path, quiet = asked.folder / "killed.db", asked.folder / "quiet.db"
    stored = [kill(path, asked.seconds) for _ in range(asked.kills)]
    print("blocks stored at each kill:", *stored)
    for end in (path, quiet):
        subprocess.run([*COMMAND, *OPTIONS, "--out", str(end)], check=True, capture_output=True)
    killed, undisturbed = contents(path), contents(quiet)
    same = sum(a == b for a, b in zip(killed, undisturbed, strict=True))
    print(f"{len(killed)} certificates and blocks, {same} of them equal to the undisturbed run's {len(undisturbed)}")


def kill(path: Path, seconds: float) -> int:
    """How many blocks were stored when it was killed."""
    before = log_size(path)
    with subprocess.Popen([*COMMAND, *OPTIONS, "--out", str(path)], stdout=subprocess.DEVNULL) as running:
        while log_size(path) == before and running.poll() is None:
            time.sleep(0.005)
        time.sleep(random.uniform(0, seconds))
        running.kill()
    if running.returncode == 0:
        raise SystemExit("the run ended before it was killed often enough: give it less time")
    if terms_at(path) is None:
        return 0
    with Store.read(path) as store:
        return int(store.db.one("SELECT COUNT(*) FROM blocks"))


def log_size(path: Path) -> int:
    log = path.with_name(path.name + "-wal")
    return log.stat().st_size if log.exists() else 0


def contents(path: Path) -> list[object]:
    with Store.read(path) as store:
        certificates = [
            (c.index, c.label, c.radius, c.p_lower, c.selection, c.estimation) for c in store.certificates()
        ]
        blocks = store.db.rows("SELECT place, purpose, first, count, votes, hits FROM blocks ORDER BY 1, 2, 3")
        return [*certificates, *blocks]


if __name__ == "__main__":
    main()
