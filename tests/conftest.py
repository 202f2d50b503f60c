"""Hypothesis looks for new counter-examples on a developer's machine, and checks the same examples in CI.

The Triton kernels run on the GPU if there is one (NVIDIA's or AMD's), and in Triton's interpreter elsewhere.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from slow import slow_tests

if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/kfd")):
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

TIMELESS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # a busy machine is no counter-example
settings.register_profile("search", **TIMELESS)
settings.register_profile("ci", **TIMELESS, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "search")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out tests marked slow, and those in tests/slow.txt")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unexplained = [item.nodeid for item in items for mark in item.iter_markers("slow") if not mark.args]
    if unexplained:
        raise pytest.UsageError(f"marked slow without a reason: {', '.join(unexplained)}")
    if config.getoption("--fast"):
        listed = slow_tests()
        slow = [item for item in items if item.get_closest_marker("slow") or item.nodeid.partition("[")[0] in listed]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]


@pytest.fixture(scope="session")
def quick_interpreter() -> None:
    """Triton's interpreter checks additions for overflow, which ChaCha20's are meant to have, and tells nobody.

    Without that it takes half the time.
    """
    if os.environ.get("TRITON_INTERPRET") == "1":
        from triton.runtime.interpreter import interpreter_builder

        interpreter_builder.options = replace(interpreter_builder.options, sanitize_overflow=False)
