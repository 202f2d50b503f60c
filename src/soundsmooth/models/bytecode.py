"""What a function's compiled code says: the names that it reads, what it imports, and the code itself."""

import dis
import sys
from types import CodeType
from typing import Any

from .source_lines import nested


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
