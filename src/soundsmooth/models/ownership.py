"""Which package something of Python belongs to, and which packages are recorded beside a certificate."""

import sys
import types
from types import FunctionType
from typing import Any


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Packages whose versions are recorded beside a certificate. They are named and not described.
RECORDED = word_set("functorch numpy soundsmooth torch torchgen typing_extensions") | sys.stdlib_module_names
#: Code that names one of these can read what no digest sees: files, the clock, other processes, the interpreter itself.
OUTSIDE = word_set(
    "ctypes datetime gc glob http importlib inspect io mmap multiprocessing os pathlib pickle platform random secrets "
    "shelve shutil socket sqlite3 subprocess sys tempfile threading time urllib uuid weakref _io _random _thread nt "
    "posix runpy numpy.random torch.hub torch.utils.cpp_extension"
)
OUTSIDE_NAMES = {
    "builtins": frozenset({"__import__", "compile", "eval", "exec", "globals", "id", "input", "open"}),
    "numpy": frozenset({"fromfile", "genfromtxt", "load", "loadtxt", "memmap"}),
    "torch": frozenset({"from_file", "load"}),
}
COMPILED = (
    types.BuiltinFunctionType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
)


def owner_of(value: Any) -> str:
    """The package that something belongs to: a function to that of its globals, whatever it is called."""
    if isinstance(value, FunctionType):
        name = value.__globals__.get("__name__")
    elif isinstance(value, type):
        name = value.__module__
    elif isinstance(value, COMPILED):
        bound = getattr(value, "__self__", None)
        kind = getattr(value, "__objclass__", None) or (bound if isinstance(bound, type) else type(bound))
        name = getattr(value, "__module__", None) or kind.__module__
    else:
        name = type(value).__module__
    return str(name).replace("__mp_main__", "__main__").partition(".")[0]


def is_strange(value: Any) -> bool:
    """Whether a function or class, found in recorded software, is not of recorded software."""
    return isinstance(value, FunctionType | type) and owner_of(value) not in RECORDED


def strangers(namespace: dict[str, Any]) -> dict[str, FunctionType]:
    """The functions in a class or module of recorded software that somebody else has put there."""
    wrappers = (staticmethod, classmethod, property)
    functions = [(name, each) for name, each in namespace.items() if isinstance(each, (FunctionType, *wrappers))]
    found = ((name, unbound(each)) for name, each in functions)
    return {name: each for name, each in found if isinstance(each, FunctionType) and is_strange(each)}


def unbound(member: Any) -> Any:
    if isinstance(member, staticmethod | classmethod):
        return member.__func__
    return member.fget if isinstance(member, property) else member


def held_by(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def holds_code(held: Any) -> bool:
    if isinstance(held, FunctionType | type):
        return owner_of(held) not in RECORDED or bool(getattr(held, "__closure__", None))
    return callable(held) and owner_of(held) not in RECORDED
