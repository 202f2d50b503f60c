"""What was asked for: the command line first, then the configuration file, then the default."""

import tomllib
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from ..core.plain_files import read_plain
from .options import IN_A_FILE, To, alias_of, names_for, signature

MOST_OF_A_FILE = 1 << 20


class Choices:
    """The options that were chosen, of one command."""

    def __init__(self, given: Mapping[str, object], config: Path | None = None) -> None:
        self._given = {name: value for name, value in given.items() if value is not None}
        self._file = read_config(config) if config else {}

    def get(self, name: str, default: Any = None) -> Any:
        return self._given.get(name, self._file.get(name, default))

    def given(self, name: str) -> Any:
        """The choice on the command line; a configuration file is ignored."""
        return self._given.get(name)

    def path(self, name: str) -> Path | None:
        value = self.get(name)
        return None if value is None else Path(value)

    def going_to(self, to: To) -> dict[str, Any]:
        """The keywords for one place, of choices that were made at all: others keep their defaults."""
        return {name: self.get(name) for name in names_for(to) if self.get(name) is not None}


def takes_options(command: str) -> Callable[[Callable[[Choices], None]], Callable[..., None]]:
    """A command whose parameters are the table's options for it; the function gets what was chosen."""

    def made(function: Callable[[Choices], None]) -> Callable[..., None]:
        @wraps(function)
        def called(**given: Any) -> None:
            config = given.pop("config", None)
            function(Choices(_without_aliases(given), config))

        called.__dict__["__signature__"] = signature(command)
        return called

    return made


def _without_aliases(given: Mapping[str, object]) -> dict[str, object]:
    """The options; where a hidden flag was given, its value counts."""
    aliases = {alias_of(name) for name in given}
    chosen = {name: value for name, value in given.items() if name not in aliases}
    return chosen | {name: given[alias_of(name)] for name in chosen if given.get(alias_of(name)) is not None}


def read_config(path: Path) -> dict[str, Any]:
    """The options in a TOML file, each checked for its type."""
    text = read_plain(path, "configuration file", MOST_OF_A_FILE)
    try:
        entries = tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(path)!r} is not a TOML file: {error}") from None
    choices = {name.replace("-", "_"): value for name, value in entries.items()}
    for name, value in choices.items():
        if name not in IN_A_FILE:
            raise ValueError(f"{str(path)!r} has an unknown option {name!r}; known are {', '.join(sorted(IN_A_FILE))}")
        IN_A_FILE[name].check(f"{path.name}: {name}", value)
    return choices
