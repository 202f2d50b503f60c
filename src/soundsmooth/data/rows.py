"""One row of a data set: where the image is in it, and where the label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: By these names an image is known, and a label; the first that is there counts as long as it is the only one.
IMAGE_NAMES = ("x", "image", "img", "images", "pixel_values")
LABEL_NAMES = ("y", "label", "labels", "fine_label", "target")


@dataclass(frozen=True)
class Keys:
    """The names of the images and of the labels, where a user gave them."""

    x: str | None = None
    y: str | None = None

    def parts(self, row: Any, listed: bool = False) -> tuple[Any, Any]:
        """Image and label of a row: a pair, a mapping, or an image alone. A list is a pair only if that is `listed`."""
        if isinstance(row, Mapping):
            return self._of_mapping(row)
        self.reject("a row of this data")
        if isinstance(row, tuple) or (listed and isinstance(row, list)):
            return _of_pair(row)
        return row, None

    def reject(self, what: str) -> None:
        """A ValueError if names were given for data without names."""
        for option, name in (("x_key", self.x), ("y_key", self.y)):
            if name is not None:
                raise ValueError(f"{option}={name!r} is for data with names, and {what} has none: leave it out")

    def _of_mapping(self, row: Mapping[str, Any]) -> tuple[Any, Any]:
        x = self.x or _only(row, IMAGE_NAMES, "image", "x_key")
        y = self.y or _only(row, LABEL_NAMES, "label", "y_key")
        for name, option in ((x, "x_key"), (y, "y_key")):
            if name is not None and name not in row:
                raise ValueError(f"it has no {name!r}, only {_names(row)}: name another with {option}=")
        if x is None:
            raise ValueError(f"which of {_names(row)} is the image? Name it: x_key=")
        return row[x], None if y is None else row[y]


def _of_pair(row: Sequence[Any]) -> tuple[Any, Any]:
    if len(row) not in (1, 2):
        raise ValueError(f"it has {len(row)} parts; a row is (image, label), or the image alone")
    return row[0], row[1] if len(row) == 2 else None


def _only(row: Mapping[str, Any], names: Sequence[str], what: str, option: str) -> str | None:
    """The one name that is there, None if there is none; a ValueError for several."""
    there = [name for name in names if name in row]
    if len(there) > 1:
        raise ValueError(f"is the {what} {' or '.join(map(repr, there))}? Name it: {option}={there[0]!r}")
    return there[0] if there else None


def _names(row: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in list(row)[:8])
