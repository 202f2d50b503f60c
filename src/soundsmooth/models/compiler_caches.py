"""Caches of our own for torch's compiler: what is compiled can be kept, and loaded in another process.

torch has them once for the whole process, and finds compiled code in them by names of its own.
"""

import copyreg
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import RLock

#: Of torch's compiler: the caches that an artifact is made of.
CACHES = {"fx_graph_cache": True, "autotune_local_cache": True}
#: Held while torch has caches of ours.
ONE_AT_A_TIME = RLock()
#: Caches of other machines, and headers that are compiled first, which pays for many kernels only. Kernels that are
#: launched without Triton: torch looks for what was chosen for them in the folder where they were tuned, which is gone,
#: and chooses anew. And smaller blocks, which are added where kernels are loaded, and chosen by timing there.
NOT_WANTED = (
    "fx_graph_remote_cache",
    "autotune_remote_cache",
    "bundled_autotune_remote_cache",
    "cpp_cache_precompile_headers",
    "use_static_cuda_launcher",
    "use_static_triton_launcher",
    "dynamic_scale_rblock",
)
#: Torch prints a table of the kernels that it times, and a line of JSON, for every layer.
QUIET = {"autotune_num_choices_displayed": 0, "max_autotune_report_choices_stats": False}
#: Where torch tells of each kernel that it leaves out, as of an error, and the word for those that need more shared
#: memory or registers than the GPU has.
LOUD, NO_ROOM = "torch._inductor.select_algorithm", "OutOfResources"
#: And of what it uses itself.
OUTDATED = "TypedStorage is deprecated"
#: Who says in the log that kernels cannot be read, and in which words.
DAMAGED, UNREADABLE = "torch.compiler._cache", "Failed to un-pickle cache artifacts"
#: Of torch's compiler: it names torch's own assembler for Triton, in the environment.
ASSEMBLER = "_set_triton_ptxas_path"


@contextmanager
def own_caches() -> Iterator[None]:
    """Compile with caches of our own: what was compiled before is not used, and what is compiled now is recorded.

    torch has them once for the whole process, so one thread at a time compiles: it would find another's kernels.
    """
    try:
        from torch._functorch import config as functorch
        from torch._inductor import config as inductor
        from torch._inductor.utils import fresh_cache
        from torch.compiler._cache import CacheArtifactManager
    except ImportError as error:
        raise ValueError("compile tuned needs torch 2.8 or newer; choose torch-compile") from error
    raised: Exception | None = None
    with ExitStack() as own:
        own.enter_context(ONE_AT_A_TIME)
        _same_assembler()  # first: older versions of torch give the environment back as it was here
        own.enter_context(fresh_cache())
        own.enter_context(CacheArtifactManager.with_fresh_cache())
        settings = {**CACHES, **dict.fromkeys(NOT_WANTED, False), **QUIET}
        own.enter_context(inductor.patch({name: each for name, each in settings.items() if hasattr(inductor, name)}))
        own.enter_context(functorch.patch(enable_autograd_cache=True, enable_remote_autograd_cache=False))
        own.enter_context(_same_names())
        own.enter_context(_quiet())
        try:
            yield
        except Exception as error:  # torch would keep the caches for whoever looks for the error
            raised = error
    if raised is not None:
        raise raised


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep from the user's screen what a user can do nothing about, and nothing else.

    The filter of warnings stays: those are one list for all threads, and who puts an old one back loses what others
    have changed.
    """
    warnings.filterwarnings("ignore", message=OUTDATED)
    filters = [(logging.getLogger(LOUD), _fits), (logging.getLogger(DAMAGED), _is_of_others)]
    for logger, shown in filters:
        logger.addFilter(shown)
    try:
        yield
    finally:
        for logger, shown in filters:
            logger.removeFilter(shown)


def _fits(record: logging.LogRecord) -> bool:
    """Whether a line of the log is about anything but a kernel that does not fit into the GPU."""
    return NO_ROOM not in record.getMessage()


def _is_of_others(record: logging.LogRecord) -> bool:
    """Whether a line of the log is about anything but kernels that cannot be read: that is an error of ours, too."""
    return UNREADABLE not in record.getMessage()


def _same_assembler() -> None:
    """Let this process find what the processes of torch's compiler have compiled, and not compile it once more.

    They take torch's own assembler, and its version is part of what Triton looks for. Triton has asked for that version
    once and for all, if it has compiled noise before.
    """
    from torch._inductor.runtime import compile_tasks

    getattr(compile_tasks, ASSEMBLER, lambda: None)()
    with suppress(ImportError, AttributeError):
        from triton.backends.nvidia import compiler

        compiler.get_ptxas_version.cache_clear()


@contextmanager
def recorded_reads() -> Iterator[None]:
    """Record all that torch's compiler reads in its caches, and nothing else."""
    from torch._inductor import config
    from torch._inductor.utils import clear_caches
    from torch.compiler._cache import CacheArtifactManager

    clear_caches()  # those in memory: it would not read the files
    with CacheArtifactManager.with_fresh_cache(), config.patch(compile_threads=1):  # other processes' reads are lost
        yield


@contextmanager
def _same_names() -> Iterator[None]:
    """Let torch's compiler find what it has compiled, in whatever order modules were imported.

    It looks up kernels by a hash of pickles. In these a type of numbers or a memory format has the name of the first
    module in which it is found, and that may be any module that imported torch first.
    """
    import torch

    kinds = (torch.dtype, torch.memory_format)
    before = {kind: copyreg.dispatch_table.get(kind) for kind in kinds}
    for kind in kinds:
        copyreg.pickle(kind, _by_name)
    try:
        yield
    finally:
        for kind, reducer in before.items():
            del copyreg.dispatch_table[kind]
            if reducer is not None:
                copyreg.dispatch_table[kind] = reducer


def _by_name(value: object) -> tuple[Callable[[str], object], tuple[str]]:
    return torch_named, (str(value).removeprefix("torch."),)


def torch_named(name: str) -> object:
    """A value of torch, such as float32, by its name."""
    import torch

    return getattr(torch, name)
