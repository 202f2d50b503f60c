"""The list of slow tests names tests that exist, and a report of pytest is read as it is written."""

from pathlib import Path

from slow import slow_in, slow_tests

ROOT = Path(__file__).parent.parent


def test_the_list_names_tests_that_exist() -> None:
    for name in sorted(slow_tests()):
        file, _, function = name.partition("::")
        assert f"def {function.rpartition('::')[2]}(" in (ROOT / file).read_text(encoding="utf-8"), name


def test_cases_count_on_average_and_phases_together() -> None:
    report = """\
============================= slowest durations ==============================
0.20s call     tests/a.py::test_both_phases
0.10s setup    tests/a.py::test_both_phases
0.40s call     tests/a.py::test_cases[x.py::y - 1]
0.01s call     tests/a.py::test_cases[z]
0.26s call     tests/b/c.py::TestGroup::test_in_a_class
0.25s teardown tests/b/c.py::test_at_the_limit
"""
    assert slow_in(report.splitlines()) == ["tests/a.py::test_both_phases", "tests/b/c.py::TestGroup::test_in_a_class"]
