"""The first digests of Python models: layers, weights and the source of classes, or of a function. They do not change.

Runs that promise no `digest` among their flags promise these. The second digests (`digest`) hash them and much more.

Versions are recorded beside a certificate, not promised in it: who has another one must be able to see that this is
the promised model. What torch prints of its layers changes from version to version, and so does their source.
"""

import hashlib
import inspect
import json
from functools import lru_cache
from threading import Lock
from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def architecture(module: "torch.nn.Module") -> str:
    """A line for each part of the module, in torch's order, then the digests of the code that is not torch's."""
    parts = list(module.named_modules(remove_duplicate=False))  # a part that is used twice comes twice
    lines = [f"{name}: {full_name(type(part))} {_configuration(part)}\n" for name, part in parts]
    own = sorted(code_digest(kind) for kind in {type(part) for _, part in parts} if not of_torch(kind))
    return "".join([*lines, *(f"{digest}\n" for digest in own)])


def module_digest(module: "torch.nn.Module") -> str:
    """SHA-256 of the architecture and of all parameters and buffers."""
    import torch

    digest = hashlib.sha256(architecture(module).encode())
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def of_torch(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "torch"


def _configuration(part: "torch.nn.Module") -> str:
    """Of torch's layers the public attributes that are numbers, words or lists of them; of graphs their program; of
    others what they print.
    """
    kind: Any = type(part)
    if _is_program(kind):
        return json.dumps(_program(part))
    if not is_layer(kind):
        return part.extra_repr()
    plain = {
        name: value
        for name, value in vars(part).items()
        if not name.startswith("_") and name != "training" and is_plain(value)
    }
    return _SORTED.encode(plain)


@lru_cache(1024)
def _is_program(kind: type) -> bool:
    """What was traced, exported or scripted is a program of its own, in no class's source."""
    import torch

    return issubclass(kind, torch.fx.GraphModule | torch.jit.ScriptModule)


def _program(part: Any) -> str:
    try:
        return str(part.code)
    except (AttributeError, RuntimeError):  # a scripted part without a method `forward`
        return ""


_SORTED = json.JSONEncoder(sort_keys=True)


@lru_cache(1024)
def is_layer(kind: type) -> bool:
    """Whether torch made the class, or would print it. Attributes of other classes may be counters or names of devices,
    which are not the same everywhere.
    """
    import torch

    printer = next(each for each in kind.__mro__ if "extra_repr" in vars(each))
    return of_torch(kind) or (of_torch(printer) and printer is not torch.nn.Module)


def is_plain(value: object) -> bool:
    if isinstance(value, (bool, int, float, str)) or value is None:  # a tuple: twice as fast
        return True
    return isinstance(value, tuple | list) and all(map(is_plain, value))


#: To find a class, `inspect` parses its file. In CPython 3.11 two threads that parse at once may raise a SystemError.
_ONE_READER = Lock()


def code_digest(function: object) -> str:
    """SHA-256 of what can be seen of a Python function: its name and its code. Not binding.

    Data that the code reaches (globals, closures, attributes, files) are not in it.
    """
    target = function if inspect.isroutine(function) or inspect.isclass(function) else type(function)
    digest = hashlib.sha256(full_name(target).encode())
    try:
        with _ONE_READER:
            digest.update(inspect.getsource(target).encode())
    except (OSError, TypeError):
        code = getattr(target, "__code__", None)
        if code is not None:
            _add_code(digest, code)
    return digest.hexdigest()


#: Modules of this package that have moved. Digests know them by their first names, as stored promises do.
MOVED = {"soundsmooth.lab.bench.networks": "soundsmooth.bench.networks"}


def full_name(target: object) -> str:
    """Of a function or a class, the same in every process."""
    module = str(getattr(target, "__module__", "?")).replace("__mp_main__", "__main__")  # a script in a new process
    return f"{MOVED.get(module, module)}.{getattr(target, '__qualname__', '?')}"


def _add_code(digest: "hashlib._Hash", code: CodeType) -> None:
    digest.update(code.co_code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(digest, constant)
        else:
            digest.update(repr(constant).encode())
