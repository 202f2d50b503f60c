"""The table of options, held against the functions to which they go."""

from inspect import Parameter, signature
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from soundsmooth.certification.goal import goal
from soundsmooth.certification.settings import settings
from soundsmooth.cli import options
from soundsmooth.cli.options import ALL, OPTIONS, SMOOTHING, Choices, To, names_for, read_config
from soundsmooth.core.independence import DemandName
from soundsmooth.core.layouts import LAYOUTS, Layout
from soundsmooth.data.load import load
from soundsmooth.exact import BOUNDS, BoundName
from soundsmooth.models.compiled import COMPILATIONS, Compilation
from soundsmooth.models.options import PRECISIONS, Precision
from soundsmooth.noise.sources import NOISE_MODES, NoiseMode
from soundsmooth.runs.engines import ENGINES, Engine
from soundsmooth.smoother import Smoother

KEYWORDS = {To.SMOOTHER: (Smoother.__init__,), To.SETTINGS: (settings, goal), To.DATA: (load,)}


def parameters(to: To) -> dict[str, Parameter]:
    """All keywords of the functions that the options go to."""
    return {name: each for function in KEYWORDS[to] for name, each in signature(function).parameters.items()}


@pytest.mark.parametrize("command", ALL)
def test_a_command_has_each_name_and_flag_once(command: str) -> None:
    mine = [each for each in OPTIONS if command in each.on]
    flags = [flag for each in mine for flag in (each.flag or options.dashed(each.name), each.alias) if flag]
    assert len({each.name for each in mine}) == len(mine)
    assert len(set(flags)) == len(flags)
    assert {each.name for each in mine} <= set(options.signature(command).parameters)


@pytest.mark.parametrize("to", KEYWORDS)
def test_an_option_is_a_keyword_of_the_function_it_goes_to(to: To) -> None:
    assert set(names_for(to)) <= set(parameters(to))


@pytest.mark.parametrize("to", KEYWORDS)
def test_the_default_that_is_shown_is_the_default(to: To) -> None:
    """Where the function has one: other defaults depend on the model or the machine, and are said in words."""
    for option in OPTIONS:
        if option.to is not to:
            continue
        default = parameters(to)[option.name].default
        if default not in (Parameter.empty, None, False):
            assert option.default.split(";")[0] == str(default), option.name


def test_what_is_different_for_a_command_is_said_of_a_command_that_has_it() -> None:
    for option in OPTIONS:
        assert set(option.differs) <= set(option.on), option.name
        assert set(option.on) <= {*SMOOTHING, "verify"}, option.name


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_table_is_for_its_command_alone_and_wins(tmp_path: Path) -> None:
    config = written(
        tmp_path / "run.toml", 'n = 10\nsigma = "1"\n[certify]\nn = 1e3\nbatch-size = 5\n[predict]\nn = 7\n'
    )
    assert read_config(config, "certify") == {"n": 1000, "sigma": "1", "batch_size": 5}
    assert read_config(config, "predict") == {"n": 7, "sigma": "1"}
    assert read_config(config, "commit") == {"n": 10, "sigma": "1"}
    assert Choices({"n": 3}, config, "certify").get("n") == 3  # the command line counts first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[certified]\nn = 1", r"unknown option 'certified'; known are .*, and the tables \[certify\], \[commit\]"),
        ("[predict]\ncolour = 1", "unknown option 'colour'"),
        ("certify = 1", "unknown option 'certify'"),
        ("[certify.deep]\nn = 1", "unknown option 'deep'"),
        ("n = 1.5", "run.toml: n must be an integer, not 1.5"),
        ("n = inf", "run.toml: n must be an integer, not inf"),
        ("n = true", "run.toml: n must be an integer, not True"),
        ('[certify]\nn = "5"', "run.toml: n must be an integer, not '5'"),
    ],
)
def test_what_a_file_may_not_say(text: str, message: str, tmp_path: Path) -> None:
    """Also in a table for another command: it is a mistake all the same."""
    with pytest.raises(ValueError, match=message):
        read_config(written(tmp_path / "run.toml", text), "certify")


CHOICES = {
    "bound": (BoundName, tuple(BOUNDS)),
    "noise": (NoiseMode, NOISE_MODES),
    "engine": (Engine, ENGINES),
    "compile": (Compilation, COMPILATIONS),
    "layout": (Layout, tuple(LAYOUTS)),
    "dtype": (Precision, tuple(PRECISIONS)),
    "independence": (DemandName, ("auto", "proved", "measured", "checked", "assumed")),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_is_a_literal_type_of_all_that_may_be_chosen(name: str) -> None:
    literal, allowed = CHOICES[name]
    assert get_args(literal) == allowed
    functions = (Smoother.__init__, Smoother.certify, Smoother.certify_all, Smoother.commit)
    names = {"Scores": object, "torch": type("torch", (), {"nn": type("nn", (), {"Module": object})})}
    hints = [get_type_hints(each, localns=names).get(name) for each in functions if name in signature(each).parameters]
    assert hints
    assert all(hint in (literal, literal | None) for hint in hints)
