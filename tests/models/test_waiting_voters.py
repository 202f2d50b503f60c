"""Fresh processes that wait for rows are used again by the same model, and by nobody else."""

import os

import numpy as np
import pytest
import torch

import classifiers
from soundsmooth.models import waiting_voters
from soundsmooth.models.load import model_of
from soundsmooth.models.waiting_voters import give_back, take_voter, why_not_alone, why_not_remade

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="rows are voted alone in forked processes")
SHAPE = (1, 4, 4)
ROWS = np.linspace(0, 1, 8, dtype=np.float32)[:, None, None, None] * np.ones(SHAPE, np.float32)


@pytest.fixture(autouse=True)
def _nobody_waits() -> object:
    waiting_voters._end_all()
    yield
    waiting_voters._end_all()


def test_a_process_is_used_again_by_its_model_alone() -> None:
    one, other = (model_of(classifiers.brightness, independence="measured") for _ in range(2))
    voter = take_voter(one, SHAPE)
    voter.wait()
    votes = list(voter.votes(iter(ROWS)))
    assert votes == [0, 0, 0, 0, 1, 1, 1, 1]
    give_back(voter, one, SHAPE)
    again = take_voter(one, SHAPE)
    assert again is voter
    assert list(again.votes(iter(ROWS))) == votes
    give_back(again, one, SHAPE)
    with take_voter(other, SHAPE) as another, take_voter(one, (1, 8, 8)) as larger:
        assert another is not voter
        assert larger is not voter
        give_back(another, other, SHAPE)
        assert not voter._process.is_alive()  # two models do not have processes waiting at the same time


def test_one_in_which_something_went_wrong_is_ended() -> None:
    model = model_of(classifiers.brightness, independence="measured")
    voter = take_voter(model, SHAPE)
    voter.wait()
    votes = voter.votes(iter(ROWS))
    next(votes)
    votes.close()  # others are at work
    give_back(voter, model, SHAPE)
    assert not voter._process.is_alive()
    assert waiting_voters._WAITING == []


def test_a_forked_process_ends_nothing_of_ours() -> None:
    model = model_of(classifiers.brightness, independence="measured")
    voter = take_voter(model, SHAPE)
    voter.wait()
    give_back(voter, model, SHAPE)
    child = os.fork()
    if not child:
        try:
            waiting_voters._end_all()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert list(take_voter(model, SHAPE).votes(iter(ROWS[:1]))) == [0]
    voter.close()


class Talking(torch.nn.Module):
    """It only mentions the script."""

    def __init__(self) -> None:
        super().__init__()
        self.text = "as in __main__, or so"


def test_only_what_the_script_defines_is_said_to_be_defined_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what mentions it, in code or in weights; nor is a file of its own advised where something else is wrong."""
    asked: list[bool] = []

    def broken(model: object, shape: object, may_run_script: bool) -> None:
        asked.append(may_run_script)
        raise ValueError("the model cannot be made in a fresh process: OSError: torch is broken")

    monkeypatch.setattr(waiting_voters, "take_voter", broken)
    assert why_not_remade(model_of(Talking())) is None
    why_not = why_not_alone(model_of(Talking()), SHAPE)
    assert (why_not, asked) == ("the model cannot be made in a fresh process: OSError: torch is broken", [False])
    monkeypatch.setattr(Talking, "__module__", "__main__")
    monkeypatch.setattr("__main__.Talking", Talking, raising=False)
    assert "move it into a file of its own" in why_not_remade(model_of(Talking()))
