"""The table of options, held against the functions to which they go."""

from inspect import Parameter, signature

import pytest

from soundsmooth.certification.settings import settings
from soundsmooth.cli import options
from soundsmooth.cli.options import ALL, OPTIONS, SMOOTHING, To, names_for
from soundsmooth.data.load import load
from soundsmooth.smoother import Smoother

KEYWORDS = {To.SMOOTHER: Smoother.__init__, To.SETTINGS: settings, To.DATA: load}


@pytest.mark.parametrize("command", ALL)
def test_a_command_has_each_name_and_flag_once(command: str) -> None:
    mine = [each for each in OPTIONS if command in each.on]
    flags = [flag for each in mine for flag in (each.flag or options.dashed(each.name), each.alias) if flag]
    assert len({each.name for each in mine}) == len(mine)
    assert len(set(flags)) == len(flags)
    assert {each.name for each in mine} <= set(options.signature(command).parameters)


@pytest.mark.parametrize("to", KEYWORDS)
def test_an_option_is_a_keyword_of_the_function_it_goes_to(to: To) -> None:
    assert set(names_for(to)) <= set(signature(KEYWORDS[to]).parameters)


@pytest.mark.parametrize("to", KEYWORDS)
def test_the_default_that_is_shown_is_the_default(to: To) -> None:
    """Where the function has one: other defaults depend on the model or the machine, and are said in words."""
    for option in OPTIONS:
        if option.to is not to:
            continue
        default = signature(KEYWORDS[to]).parameters[option.name].default
        if default not in (Parameter.empty, None, False):
            assert option.default.split(";")[0] == str(default), option.name


def test_what_is_different_for_a_command_is_said_of_a_command_that_has_it() -> None:
    for option in OPTIONS:
        assert set(option.differs) <= set(option.on), option.name
        assert set(option.on) <= {*SMOOTHING, "verify"}, option.name
