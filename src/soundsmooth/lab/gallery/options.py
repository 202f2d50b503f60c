"""The options of an entry, as the user gives them."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """An entry's settings: the number of copies, and the data set of the entries that use images."""

    n: int | None = None
    data: Path | None = None
    pictures: Path | None = None
    """A folder for pictures, for the entries that have one."""
