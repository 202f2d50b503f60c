"""The list of slow tests, tests/slow.txt, which `make test-fast` leaves out. To make it anew:

python -m pytest -q -n 2 --dist worksteal --durations=0 | python tests/slow.py
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

LIST = Path(__file__).with_suffix(".txt")
#: Above so many seconds a test is slow. A test above 5 s is also marked: @pytest.mark.slow("why it takes so long").
LIMIT = 0.25
#: A line of `--durations=0`: seconds, phase, file, function and perhaps the case in brackets.
LINE = re.compile(r"^([0-9.]+)s (?:setup|call|teardown) +(\S+?\.py::[\w:]+)(\[.*)?$")


def slow_tests() -> frozenset[str]:
    """The listed functions, as `tests/file.py::test_name`."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


def slow_in(report: Iterable[str]) -> list[str]:
    """The test functions in pytest's report whose cases take more than LIMIT seconds on average."""
    cases: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for seconds, function, case in (found.groups() for found in map(LINE.match, report) if found):
        cases[function][case or ""] += float(seconds)
    return sorted(name for name, each in cases.items() if sum(each.values()) > LIMIT * len(each))


if __name__ == "__main__":
    LIST.write_text("".join(f"{name}\n" for name in slow_in(line.rstrip() for line in sys.stdin)), encoding="utf-8")
