"""A folder in which every golden command finds what it names, sound and damaged files too."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from golden.surface import DATA

FORGED = "UPDATE certificates SET radius = radius * 2"


def set_up(folder: Path) -> Path:
    """Copies of the golden runs, and what somebody made of them."""
    for run in DATA.glob("*.db"):
        shutil.copyfile(run, folder / run.name)
    shutil.copyfile(DATA / "plain.db", folder / "forged.db")
    with closing(sqlite3.connect(folder / "forged.db")) as db, db:
        db.execute(FORGED)
    first, *others = (DATA / "plain.jsonl").read_text(encoding="utf-8").splitlines()
    forged = {**json.loads(first), "label": 2}
    (folder / "forged.jsonl").write_text("\n".join([json.dumps(forged), *others]) + "\n", encoding="utf-8")
    (folder / "garbage.db").write_bytes(b"x" * 5000)
    (folder / "odd.toml").write_text('colour = "red"\n')
    (folder / "good.toml").write_text('n = 100\nn0 = 10\nseed = "golden"\nthreads = 1\n')
    (folder / "model.pt").write_bytes(b"\x80\x04.")
    return folder
