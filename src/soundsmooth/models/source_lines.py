"""The lines that a function was compiled from, if they are still there and still say what runs."""

import linecache
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple


class SourceLines(NamedTuple):
    """A function's lines, and which of the functions that begin on the first of them it is."""

    text: str
    which: int


def source_of(code: CodeType, namespace: dict[str, Any]) -> SourceLines | None:
    """The source of a function, from its file.

    Guarantee: if there is one, then the file compiles, with this version of Python, to the very code that runs. So an
    edited file does not pass for what was imported, nor does a replaced `__code__`.
    """
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, namespace)
    beginning = _compiled("".join(lines)).get(code.co_firstlineno, [])
    if code not in beginning:
        return None
    return SourceLines("".join(lines[code.co_firstlineno - 1 : _last_line(code)]), beginning.index(code))


@lru_cache(64)
def _compiled(text: str) -> dict[int, list[CodeType]]:
    """All functions of a file, by the lines on which they begin."""
    try:
        whole = compile(text, "a file", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, list[CodeType]] = {}
    for code in nested(whole):
        found.setdefault(code.co_firstlineno, []).append(code)
    return found


def nested(code: CodeType) -> Iterator[CodeType]:
    """The code, and all code within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def _last_line(code: CodeType) -> int:
    """The last line from which something was compiled."""
    ends = (end for each in nested(code) for _, end, _, _ in each.co_positions())
    return max((end for end in ends if end is not None), default=code.co_firstlineno)
