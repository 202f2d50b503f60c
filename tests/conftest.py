"""Hypothesis looks for new counter-examples on a developer's machine, and checks the same examples in CI.

The Triton kernels run on the GPU if there is one (NVIDIA's or AMD's), and in Triton's interpreter elsewhere.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

from slow import slow_tests

if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/kfd")):
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # torch's threads sleep too (see `threads_wait_asleep`)

TIMELESS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # a busy machine is no counter-example
settings.register_profile("search", **TIMELESS)
settings.register_profile("ci", **TIMELESS, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "search")


def pytest_configure() -> None:
    """ART writes a file into the home folder when it is first imported. It fails where two processes do so at once."""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if not is_worker and not (Path.home() / ".art" / "config.json").exists() and find_spec("art") is not None:
        import_module("art.config")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out tests marked slow, and those in tests/slow.txt")
    parser.addoption("--long", action="store_true", help="also run tests marked long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for name in ("slow", "long"):
        unexplained = [item.nodeid for item in items for mark in item.iter_markers(name) if not mark.args]
        if unexplained:
            raise pytest.UsageError(f"marked {name} without a reason: {', '.join(unexplained)}")
    listed = slow_tests() if config.getoption("--fast") else frozenset()
    left_out = {item for item in items if _is_left_out(item, config, listed)}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def _is_left_out(item: pytest.Item, config: pytest.Config, listed: frozenset[str]) -> bool:
    if item.get_closest_marker("long") and not config.getoption("--long"):
        return True
    is_slow = item.get_closest_marker("slow") is not None or item.nodeid.partition("[")[0] in listed
    return is_slow and bool(config.getoption("--fast"))


@pytest.fixture(scope="session", autouse=True)
def threads_wait_asleep() -> None:
    """Threads of onnxruntime wait for work by spinning, on cores that other processes of the tests need. What they
    compute is the same if they sleep.
    """
    import onnxruntime

    class Options(onnxruntime.SessionOptions):
        def __init__(self) -> None:
            super().__init__()
            self.add_session_config_entry("session.intra_op.allow_spinning", "0")

    onnxruntime.SessionOptions = Options


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run of the tests share, and no other run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def architecture_file(shared_folder: Path) -> Callable[[str], Path]:
    """An architecture by its name, as torch exports it: once for all tests, since that takes long."""
    from architectures import ARCHITECTURES, exported_module

    def file(name: str) -> Path:
        path, own = shared_folder / f"{name}.onnx", shared_folder / f"{name}-{os.getpid()}.onnx"
        if not path.exists():
            make, shape = ARCHITECTURES[name]
            exported_module(make(), shape, own).rename(path)
        return path

    return file


@pytest.fixture(scope="session")
def quick_interpreter() -> None:
    """Triton's interpreter checks additions for overflow, which ChaCha20's are meant to have, and tells nobody. And it
    patches Triton's language anew for each function that a kernel calls, though the kernel's own patch still holds.

    Without these it takes a third of the time.
    """
    if os.environ.get("TRITON_INTERPRET") != "1":
        return
    from triton import language
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)
    patch, core = interpreter._patch_lang, language.core

    def is_plain(module: ModuleType) -> bool:
        return core.is_builtin(module.load)

    def patch_once(function: Callable) -> object:
        seen = [each for each in (language, core) if any(each is value for value in function.__globals__.values())]
        return patch(function) if any(map(is_plain, seen)) else interpreter._LangPatchScope()

    interpreter._patch_lang = patch_once
