"""Fresh processes that wait for rows: to make one takes seconds, and to have one wait takes memory only.

The process that forks reads no row. So what it votes for one image, or for one call, does not depend on what was asked
of it before, and the next one who asks the same model may use it. Another model gets a process of its own.
"""

import atexit
import os
import pickletools
import threading
import weakref
from typing import NamedTuple

from .protocol import Model
from .row_voter import SCRIPT, RowVoter

#: Two are compared with each other.
MOST = 2


class _Waiting(NamedTuple):
    """A process, and for whom it waits: a model, in the process that started it, and the shape of rows."""

    voter: RowVoter
    model: weakref.ref[Model]
    here: int
    shape: tuple[int, ...]

    def fits(self, model: Model, shape: tuple[int, ...]) -> bool:
        return self.here == os.getpid() and self.model() is model and self.shape == shape

    def end(self) -> None:
        if self.here == os.getpid():  # a process that was forked from us ends nothing of ours
            self.voter.close()


_LOCK = threading.Lock()
_WAITING: list[_Waiting] = []


def take_voter(model: Model, shape: tuple[int, ...], may_run_script: bool = True) -> RowVoter:
    """A fresh process that makes this model: one that waits, or a new one. A ValueError if there is no way."""
    with _LOCK:
        for each in _WAITING:
            if each.fits(model, shape):
                _WAITING.remove(each)
                return each.voter
    return RowVoter(model.recipe(), shape, may_run_script)


def give_back(voter: RowVoter, model: Model, shape: tuple[int, ...]) -> None:
    """Let it wait, the first of those for the same model. Those for other models are ended, and so is one in which
    something went wrong.
    """
    if not voter.idle:
        voter.close()
        return
    with _LOCK:
        others = [_Waiting(voter, weakref.ref(model), os.getpid(), shape), *_WAITING]
        _WAITING[:] = [each for each in others if each.fits(model, shape)][:MOST]
        ended = [each for each in others if each not in _WAITING]
    for each in ended:
        each.end()


def why_not_remade(model: Model) -> str | None:
    """Why a fresh process cannot make the model again without the script, as far as its recipe tells.

    Guarantee: the model's recipe is taken, if there is one. What the model sees later is not in it.
    """
    try:
        of_script = _defined_by_script(model.recipe())
    except ValueError as error:
        return str(error)
    words = "only the script or notebook that is running defines the model; move it into a file of its own"
    return words if of_script else None


def why_not_alone(model: Model, shape: tuple[int, ...]) -> str | None:
    """Why a model that can be made again cannot vote on rows alone; tried out, since nothing else tells.

    Two processes are started at the same time, and wait: a measurement compares them.
    """
    voters: list[RowVoter] = []
    try:
        voters += [take_voter(model, shape, may_run_script=False) for _ in range(MOST)]
        voters[0].wait()
    except ValueError as error:
        for each in voters:
            each.close()
        return str(error)
    for each in reversed(voters):
        give_back(each, model, shape)
    return None


def _defined_by_script(recipe: bytes) -> bool:
    """Whether unpickling asks the script that is running for a name; weights and code may say anything."""
    return any(argument == SCRIPT for _, argument, _ in pickletools.genops(recipe))


@atexit.register
def _end_all() -> None:
    while _WAITING:
        _WAITING.pop().end()
