"""A function's code: the lines that it was compiled from, if they still say what runs, and what the compiled code says.

The latter are the names that it reads, what it imports, and the code itself.
"""

import dis
import linecache
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Any


def source_of(code: CodeType, namespace: dict[str, Any]) -> tuple[str, int] | None:
    """The source of a function, from its file; and which of the functions that begin on its first line it is.

    Guarantee: if there is one, then the file compiles, with this version of Python, to the very code that runs. So an
    edited file does not pass for what was imported, nor does a replaced `__code__`.
    """
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, namespace)
    beginning = _compiled("".join(lines)).get(code.co_firstlineno, [])
    if code not in beginning:
        return None
    return "".join(lines[code.co_firstlineno - 1 : _last_line(code)]), beginning.index(code)


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


def byte_code(code: CodeType) -> list[Any]:
    """What runs, as this version of Python has it."""
    constants = [byte_code(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    names = [*code.co_names, "", *code.co_varnames, "", *code.co_freevars, "", *code.co_cellvars]
    return [code.co_name, code.co_flags, code.co_argcount, code.co_code.hex(), names, constants]


def _constant(value: Any) -> str:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def names_in(code: CodeType) -> frozenset[str]:
    """The globals and attributes that a function names."""
    return frozenset(name for each in nested(code) for name in each.co_names)


def libraries_in(code: CodeType, globals_: dict[str, Any]) -> set[str]:
    """What a function reads of `torch.ops`: libraries of operators."""
    torch = sys.modules.get("torch")
    found = set()
    for each in nested(code):
        steps = [step for step in dis.get_instructions(each) if step.opname not in ("EXTENDED_ARG", "PUSH_NULL")]
        for one, two, three in zip(steps, steps[1:], steps[2:], strict=False):
            base = globals_.get(one.argval) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME") else None
            if torch is not None and base is torch and two.argval == "ops":
                found.add(str(three.argval))
            elif torch is not None and base is torch.ops:
                found.add(str(two.argval))
    return found


def imports_in(code: CodeType) -> list[tuple[str, int, tuple[str, ...]]]:
    """What a function imports when it is called: modules, their levels, and names in them."""
    found = set()
    for each in nested(code):
        if dis.opmap["IMPORT_NAME"] in each.co_code[::2]:
            steps = [step for step in dis.get_instructions(each) if step.opname != "EXTENDED_ARG"]
            for level, names, step in zip(steps, steps[1:], steps[2:], strict=False):
                if step.opname == "IMPORT_NAME":
                    found.add((step.argval, level.argval, names.argval or ()))
    return sorted(found)
