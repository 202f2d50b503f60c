"""Warnings stand at the line of the one who can do something about them."""

import sys
import threading
import warnings

import pytest

from soundsmooth.core.warn import IndependenceWarning, warn_user

#: A module of the package, which warns from inside of a cached property: Python's own library lies in between.
OURS = """
from functools import cached_property
from soundsmooth.core.warn import warn_user

class Asked:
    @cached_property
    def answer(self):
        warn_user("mind this")
        return 42

def call():
    return Asked().answer

def ask(callback):
    return callback()
"""


@pytest.fixture
def ours() -> dict[str, object]:
    names: dict[str, object] = {"__name__": "soundsmooth.somewhere"}
    exec(compile(OURS, "somewhere.py", "exec"), names)
    return names


def test_the_line_is_the_users(ours: dict[str, object]) -> None:
    line = sys._getframe().f_lineno + 2
    with pytest.warns(UserWarning, match="mind this") as said:
        ours["call"]()
    assert (said[0].filename, said[0].lineno) == (__file__, line)


def test_code_of_a_user_that_the_package_calls_is_the_users(ours: dict[str, object]) -> None:
    def callback() -> None:
        ours["call"]()

    with pytest.warns(UserWarning, match="mind this") as said:
        ours["ask"](callback)
    assert said[0].lineno == callback.__code__.co_firstlineno + 1


def test_in_a_thread_of_ours_it_is_said_all_the_same() -> None:
    def in_a_thread() -> None:
        thread = threading.Thread(target=warn_user, args=("from a thread", IndependenceWarning))
        thread.start()
        thread.join()

    with pytest.warns(IndependenceWarning, match="from a thread"):
        in_a_thread()


def test_a_user_can_silence_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", IndependenceWarning)
        warn_user("not heard", IndependenceWarning)
        with pytest.raises(UserWarning, match="heard"):
            warn_user("heard")
