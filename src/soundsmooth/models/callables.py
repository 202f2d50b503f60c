"""Any Python function on NumPy batches, as a model."""

import hashlib
import inspect
import pickle
from collections.abc import Callable
from functools import cached_property
from types import CodeType

import numpy as np
import numpy.typing as npt

from ..grid import Floats
from ..machine import Place
from .protocol import Identity, Votes, check_independence, rows_again, unproved, votes
from .recipe import Factory, ModelRecipe

Scores = Callable[[Floats], npt.ArrayLike]


class CallableModel:
    """A function from a float32 batch [B, *shape] to scores [B, classes].

    It is assumed to be honest: it runs in this process and could read anything, the key included.
    """

    batch: int | None = None
    shape: tuple[int, ...] | None = None
    place: Place | None = None

    def __init__(self, scores: Scores, independence: str = "auto", made_by: Factory | None = None) -> None:
        check_independence(independence, "a Python callable")
        self._scores, self.demand = scores, independence
        self._identity = Identity("callable", code_digest(scores), independence=unproved(independence))
        self._made_by = made_by
        if rows_again(independence) is not None and made_by is None:
            recipe: ModelRecipe = pickle.loads(self.recipe())
            self._scores = recipe.source  # type: ignore[assignment]  # the caller's own object never votes

    def identity(self) -> Identity:
        return self._identity

    def prepare(self, shape: tuple[int, ...], batch: int) -> None:
        pass

    def changes(self) -> Callable[[], bool]:
        return lambda: False  # of a function, only what was there at first can be seen

    def replica(self, number: int) -> "CallableModel":
        raise ValueError("a Python function may not bear several threads; leave out workers")

    def largest_batch(self, shape: tuple[int, ...], wanted: int) -> int:
        return wanted

    def flags(self) -> dict[str, str]:
        return {}

    def recipe(self) -> bytes:
        return self._recipe

    @cached_property
    def _recipe(self) -> bytes:
        return ModelRecipe(self._made_by or self._scores, digest=self._identity.digest).frozen()

    def vote(self, values: Floats) -> Votes:
        scores = self._scores(values)
        if scores is None:
            raise ValueError("the model returned None; it must return scores, [batch, classes]")
        return votes(np.asarray(scores), len(values))


def code_digest(function: object) -> str:
    """SHA-256 of what can be seen of a Python function: its name and its code. Not binding.

    Data that the code reaches (globals, closures, attributes, files) are not in it.
    """
    target = function if inspect.isroutine(function) or inspect.isclass(function) else type(function)
    digest = hashlib.sha256(full_name(target).encode())
    try:
        digest.update(inspect.getsource(target).encode())
    except (OSError, TypeError):
        code = getattr(target, "__code__", None)
        if code is not None:
            _add_code(digest, code)
    return digest.hexdigest()


def full_name(target: object) -> str:
    """Of a function or a class, the same in every process."""
    module = str(getattr(target, "__module__", "?")).replace("__mp_main__", "__main__")  # a script in a new process
    return f"{module}.{getattr(target, '__qualname__', '?')}"


def _add_code(digest: "hashlib._Hash", code: CodeType) -> None:
    digest.update(code.co_code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(digest, constant)
        else:
            digest.update(repr(constant).encode())
