"""Measurements in JSON files, a row for each."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def keep(path: Path, row: dict[str, Any], same: Sequence[str]) -> None:
    """Write a row into the file, in the place of one that has the same values under these names."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    others = [each for each in rows if any(each[name] != row[name] for name in same)]
    path.write_text(json.dumps([*others, row], indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
