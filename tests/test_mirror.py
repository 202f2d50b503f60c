"""Each test of a module lies where the module does: src/soundsmooth/ROOM/MODULE.py has tests/ROOM/test_MODULE.py.

A module with many tests has several files, test_MODULE_TOPIC.py. What is tested across rooms lies at the root.
"""

from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "soundsmooth"

#: Folders of tests that are no rooms: they run the program, or scripts, as a whole.
OTHERS = {"experiments", "golden", "integrations"}


def files_of_tests() -> Iterator[Path]:
    """All files of tests that lie in a folder, relative to this one."""
    for path in sorted(TESTS.glob("*/**/test_*.py")):
        if path.relative_to(TESTS).parts[0] not in OTHERS:
            yield path.relative_to(TESTS)


def module_of(file: Path) -> Path | None:
    """The module with the longest name that the file's name begins with, in the room of the same name."""
    words = file.stem.split("_")[1:]
    names = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    found = (PACKAGE / file.parent / f"{name}.py" for name in names)
    return next((module for module in found if module.exists()), None)


def test_each_file_of_tests_is_named_after_a_module_of_its_room() -> None:
    assert [str(file) for file in files_of_tests() if module_of(file) is None] == []


def test_the_test_above_can_fail() -> None:
    assert module_of(Path("noise/test_gpu_ties.py")) == PACKAGE / "noise" / "gpu.py"
    assert module_of(Path("noise/test_nothing.py")) is None
    assert module_of(Path("nowhere/test_gpu.py")) is None
    assert len(list(files_of_tests())) > 100
