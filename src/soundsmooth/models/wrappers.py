"""Modules that only call another module, and what they hold: what is certified is the module inside.

`DataParallel` and its like split batches, average gradients or compile; in evaluation they compute what the module
inside computes. How a module runs here is chosen by options, and promised.
"""

import copy
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .first_digest import full_name

if TYPE_CHECKING:
    import torch

#: The classes, and the attribute under which they hold the module inside.
HELD_AS = {
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch.optim.swa_utils.AveragedModel": "module",
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
}
COMPILED = "torch._dynamo.eval_frame.OptimizedModule"
EXPORTED = "torch.export.exported_program.ExportedProgram"
#: Hooks that a call of a module runs before, around or after its forward.
CALLED = ("_forward_pre_hooks", "_forward_hooks")
#: What torch.compile writes on the module inside. It has no part in what that computes.
MARK = "_is_torch_compile"


def is_exported(source: object) -> bool:
    """A program of `torch.export`, which is no module and can be made one."""
    return full_name(type(source)) == EXPORTED


def as_module(source: Any) -> "torch.nn.Module":
    """The module; of an exported program, the one that runs it."""
    module: torch.nn.Module = source.module() if is_exported(source) else source
    return module


def plain_copy(source: Any) -> "torch.nn.Module":
    """A copy of a module in which each wrapper is replaced by what it holds.

    Guarantee: the copy of a wrapped module is the copy of the module inside: parts, weights and digest are the same.
    The module that is given stays as it is. A wrapper with hooks or a `forward` of its own, or of a class of somebody's
    own, computes more than the module inside, and stays.
    """
    module, copies = as_module(source), dict[int, Any]()
    try:
        with silent_copying():
            for wrapper, inside in reversed([*_wrappers(module)]):  # what lies deeper comes first
                copies[id(wrapper)] = copy.deepcopy(inside, copies)
            copied: torch.nn.Module = copy.deepcopy(module, copies)
    except Exception as error:  # it is their code: anything can happen
        raise ValueError(f"the module cannot be copied ({error}); wrap it in a function of a batch instead") from error
    for part in copied.modules():
        vars(part).pop(MARK, None)
    return copied


@contextmanager
def silent_copying() -> Iterator[None]:
    """Without what torch says of gradients when a traced module is copied, or moved."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*grad attribute of a Tensor that is not a leaf")
        yield


def _wrappers(module: "torch.nn.Module") -> "Iterator[tuple[torch.nn.Module, torch.nn.Module]]":
    """All wrappers in a module, outer ones first, and what they hold."""
    for part in module.modules():
        kind, its_own = full_name(type(part)), vars(part)
        held = HELD_AS.get(kind)
        patched = "forward" in its_own and kind != COMPILED  # torch.compile writes one on each of its own
        if held is not None and not patched and not any(its_own.get(hooks) for hooks in CALLED):
            yield part, getattr(part, held)


def unwrapping_remarks(source: Any) -> Iterator[str]:
    """What is not run as it was given, in a sentence or two."""
    kinds = {full_name(type(part)) for part, _ in _wrappers(as_module(source))}
    names = sorted(kind.rpartition(".")[2] for kind in kinds - {COMPILED})
    if names:
        parallel = "; several GPUs are used with workers" if any("Parallel" in name for name in names) else ""
        yield f"{' and '.join(names)}: the module inside is certified{parallel}"
    if COMPILED in kinds:
        how = 'compile="torch-compile", or --compile torch-compile'
        yield f"torch.compile: the module inside is certified; to compile it under the promise: {how}"


def is_scripted(module: "torch.nn.Module") -> bool:
    """Whether torch.jit made it, or a part of it."""
    jit: Any = sys.modules["torch"].jit
    return any(isinstance(part, jit.ScriptModule) for part in module.modules())
