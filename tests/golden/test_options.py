"""No command, no option and no default of the command line is lost or changed. New ones may come."""

from typing import Any

import pytest

from golden.surface import golden, options

#: Once an option of its own, now a hidden second name: of --every.
SECOND_NAMES = {"--skip": {"hidden": True}}
#: These may have moved to the laboratory.
LAB = ("overlap", "bench", "bench cpu", "bench gpu")


@pytest.fixture(scope="module")
def now() -> dict[str, dict[str, Any]]:
    return options()


@pytest.mark.parametrize(("name", "parameters"), golden("options.json").items())
def test_a_command_keeps_its_options(
    name: str, parameters: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]
) -> None:
    found = now.get(f"lab {name}") if name in LAB and name not in now else now.get(name)
    assert found is not None, f"there is no command {name!r}"
    assert {each: found.get(each) for each in parameters} == {
        each: parameter | SECOND_NAMES.get(each, {}) for each, parameter in parameters.items()
    }
    arguments = [each for each, parameter in parameters.items() if parameter["kind"] == "argument"]
    assert [each for each in found if found[each]["kind"] == "argument"][: len(arguments)] == arguments


def test_new_options_are_not_required(now: dict[str, dict[str, Any]]) -> None:
    """The golden command lines stay whole."""
    for name, parameters in golden("options.json").items():
        for each, parameter in now.get(name, {}).items():
            assert not parameter["required"] or each in parameters, f"{name} {each}"
