"""What a torch module is made of, in words that do not depend on the version of torch.

Versions are recorded beside a certificate, not promised in it: whoever has another one must be able to see that this is
the promised model. What torch prints of its layers changes from version to version, and so does their source.
"""

import hashlib
import json
from typing import TYPE_CHECKING

from .callables import code_digest, full_name

if TYPE_CHECKING:
    import torch


def architecture(module: "torch.nn.Module") -> str:
    """A line for each part of the module, in torch's order, then the digests of the code that is not torch's."""
    parts = list(module.named_modules(remove_duplicate=False))  # a part that is used twice comes twice
    lines = [f"{name}: {full_name(type(part))} {_configuration(part)}\n" for name, part in parts]
    own = sorted(code_digest(kind) for kind in {type(part) for _, part in parts} if not _of_torch(kind))
    return "".join([*lines, *(f"{digest}\n" for digest in own)])


def module_digest(module: "torch.nn.Module") -> str:
    """SHA-256 of the architecture and of all parameters and buffers."""
    import torch

    digest = hashlib.sha256(architecture(module).encode())
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _of_torch(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "torch"


def _configuration(part: "torch.nn.Module") -> str:
    """Of torch's layers the public attributes that are numbers, words or lists of them; of graphs their program; of
    others what they print.
    """
    program = _program(part)
    if program is not None:
        return json.dumps(program)
    if not _is_layer(type(part)):
        return part.extra_repr()
    plain = {
        name: value
        for name, value in vars(part).items()
        if not name.startswith("_") and name != "training" and _is_plain(value)
    }
    return json.dumps(plain, sort_keys=True)


def _program(part: "torch.nn.Module") -> str | None:
    """What was traced, exported or scripted is a program of its own, in no class's source."""
    import torch

    if not isinstance(part, torch.fx.GraphModule | torch.jit.ScriptModule):
        return None
    try:
        return str(part.code)
    except (AttributeError, RuntimeError):  # a scripted part without a method `forward`
        return ""


def _is_layer(kind: type) -> bool:
    """Whether torch made the class, or would print it. Attributes of other classes may be counters or names of devices,
    which are not the same everywhere.
    """
    import torch

    printer = next(each for each in kind.__mro__ if "extra_repr" in vars(each))
    return _of_torch(kind) or (_of_torch(printer) and printer is not torch.nn.Module)


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
