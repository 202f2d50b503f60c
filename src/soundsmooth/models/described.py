"""Python values and the code that they reach, in words: the same in every process, and other words for other behaviour.

A value is described by what it holds; functions and classes by their source, and by everything that it names: base
classes, default arguments, closures, and globals, where those belong to a package that defines the model. Software
whose version is recorded beside a certificate (Python, torch, NumPy) is named, not described.

What cannot be described is an *open end*: a sentence that says what may change without a trace.
"""

import builtins
import enum
import functools
import hashlib
import importlib
import json
import re
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from .first_digest import full_name
from .function_code import byte_code, imports_in, libraries_in, names_in, source_of
from .object_state import SLOTS, attributes_of, basis_of, defaults_of, state_of
from .ownership import (
    COMPILED,
    OUTSIDE,
    OUTSIDE_NAMES,
    RECORDED,
    held_by,
    holds_code,
    is_strange,
    owner_of,
    unbound,
    word_set,
)

#: Operators that torch brings with it; others are compiled by somebody else.
OPERATORS = frozenset({"aten", "higher_order", "mkl", "mkldnn", "onednn", "prim", "prims", "quantized"})
#: Where a tensor lies is not the same on every machine.
DEVICE = re.compile(r"(cpu|cuda|gpu|hpu|ipu|mps|mtia|npu|tpu|vulkan|xla|xpu)(:[0-9]+)?")
#: Values beyond so many, and helpers beyond so many, are not looked at.
MOST_VALUES = 200_000
MOST_HELPERS = 2_000
DEEPEST = 60

_EXACT = (type(None), bool, str, float)
_CONTAINERS: dict[type, Callable[[Any], Iterable[Any]]] = {
    list: iter,
    tuple: iter,
    deque: iter,
    dict: lambda value: (part for pair in value.items() for part in pair),
}
_REPRESENTED = (complex, range, slice, type(...), type(NotImplemented), Fraction, Decimal, np.dtype)
_WRITTEN_BY_TORCH = ("dtype", "memory_format", "layout", "qscheme")
_WITHOUT_INFLUENCE = ("typing", "logging", "types", "warnings", "_abc", "abc")
#: What Python itself puts into a class.
_OF_EVERY_CLASS = word_set(
    "__abstractmethods__ __annotations__ __annotate__ __annotate_func__ __annotations_cache__ __dict__ __doc__ "
    "__firstlineno__ __module__ __orig_bases__ __parameters__ __qualname__ __slots__ __static_attributes__ "
    "__slotnames__ __type_params__ __weakref__ __match_args__ __dataclass_params__ _abc_impl"
)
_GENERATED = word_set(
    "__init__ __repr__ __eq__ __lt__ __le__ __gt__ __ge__ __hash__ __setattr__ __delattr__ __replace__ __new__ _make "
    "_replace _asdict __getnewargs__ __getstate__ __setstate__"
)


class Describer:
    """Describes values, then the code that they reach, and collects the open ends.

    Guarantee: the words follow from the values and the code as they are now, in an order that nothing else decides;
    where two things behave differently and have the same words, an open end or the list in docs/audit.md says why.
    """

    def __init__(self) -> None:
        self.ends: set[str] = set()
        self._queue: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._own: set[str] = set()
        self._following = False
        self._inside: list[int] = []
        self._values = 0

    def open(self, end: str) -> list[str]:
        """Note an open end. What stands in the place of the words tells nothing more."""
        self.ends.add(end)
        return ["open"]

    def code(self) -> Iterator[str]:
        """Of every function and class that was reached, and of what they reach, one line."""
        self._following = True
        done = 0
        while done < len(self._queue):
            if done == MOST_HELPERS:
                self.open(f"its code reaches more than {MOST_HELPERS} functions and classes")
                return
            each = self._queue[done]
            words = self._class(each) if isinstance(each, type) else self._function(each)
            yield json.dumps([done, full_name(each), words])
            done += 1

    def value(self, value: Any, where: str) -> Any:
        """The words for a value; `where` is what the open end would be called."""
        kind = type(value)
        if kind in _EXACT:
            return self._device(value, where) if kind is str and DEVICE.fullmatch(value) else value
        if kind is int:
            return value if value.bit_length() < 64 else ["int", hex(value)]
        if id(value) in self._inside:
            return ["within", len(self._inside) - self._inside.index(id(value))]
        self._values += 1
        if self._values > MOST_VALUES:
            return self.open(f"it holds more than {MOST_VALUES} values")
        if len(self._inside) == DEEPEST:
            return self.open(f"{where} is nested more than {DEEPEST} deep")
        self._inside.append(id(value))
        try:
            return self._other(value, kind, where)
        except Exception as error:  # it is their object: anything can happen
            return self.open(f"{where} cannot be read ({type(error).__name__})")
        finally:
            self._inside.pop()

    def _other(self, value: Any, kind: type, where: str) -> Any:
        if isinstance(value, FunctionType | type):
            return self._reference(value, where)
        if isinstance(value, MethodType):
            return ["method", self.value(value.__func__, where), self.value(value.__self__, where)]
        if kind in _CONTAINERS:
            return [kind.__name__, *(self.value(each, where) for each in _CONTAINERS[kind](value))]
        if isinstance(value, ModuleType):
            return self._package(value, frozenset(), where)
        if kind is set or kind is frozenset:
            return [kind.__name__, *sorted(json.dumps(self.value(each, where)) for each in value)]
        if kind is bytes or kind is bytearray:
            return [kind.__name__, value.hex()]
        if isinstance(value, functools.partial):
            return ["partial", *(self.value(part, where) for part in (value.func, value.args, value.keywords))]
        return self._of_library(value, kind, where)

    def _of_library(self, value: Any, kind: type, where: str) -> Any:
        """Numbers, arrays and tensors; any other object by what it holds."""
        if kind in _REPRESENTED or isinstance(value, np.dtype):
            return [kind.__name__, repr(value)]
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value, where)
        if owner_of(value) == "torch":
            return self._of_torch(value, kind, where)
        return self._instance(value, kind, where)

    def _device(self, name: str, where: str) -> list[str]:
        self.open(f"{where} names a device")
        return ["device"]

    def _array(self, array: Any, where: str) -> Any:
        if array.dtype.hasobject or type(array).__module__.partition(".")[0] != "numpy":
            return self.open(f"{where} is an array of {full_name(type(array))} with {array.dtype}")
        flat = np.ascontiguousarray(array)
        return ["array", type(array).__name__, array.dtype.str, list(array.shape), _sha256(flat.tobytes())]

    def _of_torch(self, value: Any, kind: type, where: str) -> Any:
        """dtypes and the like, devices, tensors (docs/audit.md), operators."""
        torch = sys.modules["torch"]
        if isinstance(value, torch.Tensor):
            return self._tensor(value, where)
        if kind is torch.device:
            return self._device(str(value), where)
        if kind.__name__ in _WRITTEN_BY_TORCH or kind is torch.Size:
            return [kind.__name__, str(value)]
        if kind.__module__ == "torch._ops":
            return self._operator(str(value).removeprefix("torch.ops."), where)
        return self._instance(value, kind, where)

    def _operator(self, name: str, where: str) -> Any:
        if name.partition(".")[0] not in OPERATORS:
            return self.open(f"{where} is the compiled operator {name}")
        return ["operator", name]

    def _tensor(self, tensor: Any, where: str) -> Any:
        """Type, shape and numbers; not where it lies, in what order, nor whether it has a gradient."""
        torch = sys.modules["torch"]
        try:
            plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
            numbers = _sha256(plain.view(-1).view(torch.uint8).numpy().data)
        except (RuntimeError, TypeError, NotImplementedError, AttributeError):
            return self.open(f"{where} is a tensor whose numbers cannot be read")
        words = ["tensor", str(tensor.dtype), list(tensor.shape), numbers]
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            words.append(self.value(type(tensor), where))
        if held := attributes_of(tensor):
            words.append(self._attributes(held, "a tensor"))
        return words

    def _instance(self, value: Any, kind: type, where: str) -> Any:
        """An object by its class and its attributes; if it is also a container, by what it contains."""
        if isinstance(value, enum.Enum):
            return ["member", self.value(kind, where), value.name]
        if isinstance(value, re.Pattern):
            return ["pattern", self.value(value.pattern, where), value.flags]
        if isinstance(value, COMPILED):
            return self._compiled(value, where)
        if kind.__module__.partition(".")[0] in _WITHOUT_INFLUENCE and not isinstance(value, types.SimpleNamespace):
            return ["of", full_name(kind)]
        basis = basis_of(kind)
        held: list[Any] = []
        if basis in _CONTAINERS:
            held = [self.value(each, where) for each in _CONTAINERS[basis](value)]
        elif basis in (OrderedDict, defaultdict):
            held = [self.value(each, where) for each in _CONTAINERS[dict](value)]
            held.append(self.value(getattr(value, "default_factory", None), where))
        elif basis in (int, float, str):
            held = [basis.__repr__(value)]
        elif basis is np.ufunc:
            return ["of", "numpy", value.__name__]
        elif basis not in (object, types.SimpleNamespace) or owner_of(value) in OUTSIDE:
            return self.open(f"{where} is a {full_name(kind)}, whose state cannot be read")
        return ["object", self._reference(kind, where), held, self._attributes(state_of(value), kind.__qualname__)]

    def _compiled(self, value: Any, where: str) -> Any:
        """A function without source: named, if it belongs to recorded software."""
        bound, owner = getattr(value, "__self__", None), owner_of(value)
        if owner in OUTSIDE or value.__name__ in OUTSIDE_NAMES.get(owner, ()):
            return self.open(f"{where} is {value.__name__} of {owner}, which can read what lies outside")
        if owner not in RECORDED:
            return self.open(f"{where} is compiled code ({owner}, {value.__name__})")
        words = ["of", owner, getattr(value, "__qualname__", value.__name__)]
        held = bound is not None and not isinstance(bound, ModuleType | type) and type(bound).__name__ != "PyCapsule"
        return [*words, self.value(bound, where)] if held else words

    def _attributes(self, attributes: dict[str, Any], of: str) -> list[Any]:
        return [[name, self.value(attributes[name], f"{of}.{name}")] for name in sorted(attributes, key=str)]

    # --- code ------------------------------------------------------------------------------------------------------

    def _reference(self, code: Any, where: str) -> Any:
        """A function or class by a number, under which it is described; by its name, if it is recorded software."""
        owner = owner_of(code)
        if owner in OUTSIDE and owner not in self._own:
            return self.open(f"{where} is {code.__qualname__} of {owner}, which can read what lies outside")
        if not self._following and owner not in RECORDED:
            self._own.add(owner)
        if owner in self._own:
            return ["code", self._numbered(code)]
        if owner in RECORDED:
            return ["of", owner, code.__qualname__, *self._wrapped(code, where)]
        return self.open(f"{where} uses {owner}, a package that does not define the model")

    def defines(self, owner: str) -> None:
        """The package defines the model: what is reached in it is described."""
        if owner not in RECORDED or owner == "soundsmooth":
            self._own.add(owner)

    def _numbered(self, code: Any) -> int:
        if id(code) not in self._numbers:
            self._numbers[id(code)] = len(self._queue)
            self._queue.append(code)
        return self._numbers[id(code)]

    def _wrapped(self, code: Any, where: str) -> list[Any]:
        """Of a recorded function, such as a decorator makes, what it holds that is not recorded."""
        cells = getattr(code, "__closure__", None) or ()
        return [self.value(held, where) for held in map(held_by, cells) if holds_code(held)]

    def _class(self, kind: type) -> Any:
        """Name, bases, metaclass, and all that the class holds."""
        generated = "__dataclass_fields__" in vars(kind) or hasattr(kind, "_fields")
        members = [
            [name, self._member(member, f"{kind.__qualname__}.{name}")]
            for name, member in sorted(vars(kind).items())
            if name not in _OF_EVERY_CLASS
            and not isinstance(member, SLOTS)
            and not (generated and name in _GENERATED and _is_generated(member))
            and not (isinstance(kind, enum.EnumMeta) and name.startswith("_") and not callable(member))
        ]
        return ["class", [self._reference(base, kind.__qualname__) for base in (*kind.__bases__, type(kind))], members]

    def _member(self, member: Any, where: str) -> Any:
        if isinstance(member, staticmethod | classmethod):
            return [type(member).__name__, self.value(member.__func__, where)]
        if isinstance(member, property):
            return ["property", *(self.value(each, where) for each in (member.fget, member.fset, member.fdel))]
        if isinstance(member, functools.cached_property):
            return ["cached_property", self.value(member.func, where)]
        if where.endswith(".__dataclass_fields__"):
            return [[each.name, self.value(defaults_of(each), f"{where}.{each.name}")] for each in member.values()]
        if isinstance(member, enum.Enum) and member.name == where.rpartition(".")[2]:
            return ["member", self.value(member.value, where)]
        return self.value(member, where)

    def _function(self, function: FunctionType) -> Any:
        """Source, defaults, closure, attributes, and the globals that it names."""
        code, name, globals_ = function.__code__, function.__qualname__, function.__globals__
        source = source_of(code, globals_)
        words: list[Any] = ["function"]
        if source is None:
            self.open(f"the source of {name} cannot be found, or is not what runs")
            words.append(byte_code(code))
        else:
            words += source
        closure = zip(code.co_freevars, map(held_by, function.__closure__ or ()), strict=True)
        words += [self.value(part, name) for part in (function.__defaults__, function.__kwdefaults__)]
        words.append([[cell, self.value(held, f"{cell}, which {name} reads,")] for cell, held in closure])
        words.append(self._attributes({k: v for k, v in vars(function).items() if k != "__wrapped__"}, name))
        names = names_in(code)
        for library in libraries_in(code, globals_) - OPERATORS if "ops" in names else ():
            self.open(f"{name} calls operators of torch.ops.{library}, which torch does not bring with it")
        words.append([[each, self._global(each, globals_, names, name)] for each in sorted(names & globals_.keys())])
        words.append([self._builtin(each, name) for each in sorted(names - globals_.keys())])
        words.append([self._imported(each, globals_, code) for each in imports_in(code)])
        return words

    def _global(self, name: str, globals_: dict[str, Any], names: frozenset[str], of: str) -> Any:
        return self._read(globals_[name], names, f"{name}, which {of} reads,")

    def _builtin(self, name: str, of: str) -> Any:
        """Nothing for an attribute's name, and for what Python brings; what others put there is described."""
        found = vars(builtins).get(name)
        if name in OUTSIDE_NAMES["builtins"]:
            return self.open(f"{of} names {name}, which can read what lies outside")
        return self.value(found, name) if isinstance(found, FunctionType) and owner_of(found) not in RECORDED else None

    def _imported(self, imported: tuple[str, int, tuple[str, ...]], globals_: dict[str, Any], code: CodeType) -> Any:
        """A module that a function imports when it is called. The words are the same before and after that."""
        module, level, _ = imported
        package = str(globals_.get("__package__") or "").split(".")
        full = ".".join([*package[: len(package) - level + 1], *([module] if module else [])]) if level else module
        where = f"{full}, which {code.co_qualname} imports,"
        if full.partition(".")[0] in self._own:
            try:
                found = importlib.import_module(full)
            except Exception:  # it is their code: anything can happen
                return self.open(f"{where} cannot be imported")
            return self._package(found, names_in(code), where)
        if full in sys.modules:
            return self._package(sys.modules[full], names_in(code), where)
        return self._not_described(full, names_in(code), where) or [full]

    def _package(self, module: ModuleType, names: frozenset[str], where: str, seen: tuple[str, ...] = ()) -> Any:
        """A module by its name, and what is read of it: of recorded software, only what others put there."""
        full, owner = module.__name__, module.__name__.partition(".")[0]
        read = sorted(name for name in names & vars(module).keys() if f"{full}.{name}" not in seen)
        if (end := self._not_described(full, names, where)) is not None:
            return end
        if owner in self._own and (
            "getattr" in names or type(module) is not ModuleType or hasattr(module, "__getattr__")
        ):
            self.open(f"{where} may be read under names that are computed")
        seen = (*seen, *(f"{full}.{name}" for name in read))
        found = [(name, vars(module)[name]) for name in read if vars(module)[name] is not module]
        if owner not in self._own:
            found = [(name, value) for name, value in found if is_strange(value) or isinstance(value, ModuleType)]
        words = [[name, self._read(value, names, f"{full}.{name}", seen)] for name, value in found]
        return [full, *(each for each in words if owner in self._own or len(each[1]) > 1)]

    def _not_described(self, full: str, names: frozenset[str], where: str) -> list[str] | None:
        """An open end, if nothing can be said of what is read of a module."""
        owner = full.partition(".")[0]
        outside = OUTSIDE & {owner, full, *(f"{full}.{name}" for name in names)}
        if outside or OUTSIDE_NAMES.get(full, frozenset()) & names:
            return self.open(f"{where} can read what lies outside ({full})")
        if owner not in self._own and owner not in RECORDED:
            return self.open(f"{where} is of {owner}, a package that does not define the model")
        return None

    def _read(self, value: Any, names: frozenset[str], where: str, seen: tuple[str, ...] = ()) -> Any:
        return self._package(value, names, where, seen) if isinstance(value, ModuleType) else self.value(value, where)


def _is_generated(member: Any) -> bool:
    function = unbound(member)
    return isinstance(function, FunctionType) and (
        function.__code__.co_filename == "<string>" or owner_of(function) in ("collections", "dataclasses", "reprlib")
    )


def _sha256(content: Any) -> str:
    return hashlib.sha256(content).hexdigest()
