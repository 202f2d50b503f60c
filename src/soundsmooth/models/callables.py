"""Any Python function on NumPy batches, as a model."""

import pickle
from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..core.independence import Independence, check_independence, demanded, unproved
from ..grid import Floats
from ..machine import Place
from .digest import callable_digest
from .protocol import Identity, Votes, votes
from .recipe import Factory, ModelRecipe

Scores = Callable[[Floats], npt.ArrayLike]


class CallableModel:
    """A function from a float32 batch [B, *shape] to scores [B, classes].

    It is assumed to be honest: it runs in this process and could read anything, the key included.
    """

    batch: int | None = None
    shape: tuple[int, ...] | None = None
    place: Place | None = None

    def __init__(
        self, scores: Scores, independence: str | Independence = "auto", made_by: Factory | None = None
    ) -> None:
        self._scores, self.demand = scores, demanded(independence)
        check_independence(self.demand, "a Python callable")
        self._digest = callable_digest(scores)
        self._made_by = made_by
        if unproved(self.demand).measured and made_by is None:
            recipe: ModelRecipe = pickle.loads(self.recipe())
            self._scores = recipe.source  # type: ignore[assignment]  # the caller's own object never votes

    def identity(self) -> Identity:
        digest, independence = self._digest, unproved(self.demand)
        return Identity(
            "callable",
            digest.sha256,
            independence=independence,
            first_digest=digest.first,
            open_ends=digest.open_ends,
        )

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
        return ModelRecipe(self._made_by or self._scores, digest=self._digest.sha256).frozen()

    def vote(self, values: Floats) -> Votes:
        scores = self._scores(values)
        if scores is None:
            raise ValueError("the model returned None; it must return scores, [batch, classes]")
        return votes(np.asarray(scores), len(values))
