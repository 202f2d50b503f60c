"""Any Python function on NumPy batches, as a model."""

import pickle
from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..core.grid import Floats
from ..core.independence import Independence, check_independence, parse_demand, unproved_independence
from .digest import callable_digest
from .model_source import Factory, ModelSource
from .options import ModelOptions
from .protocol import CLOSED, OPEN, Identity, Model, ModelKind, Votes, votes
from .recipe import ModelRecipe

Scores = Callable[[Floats], npt.ArrayLike]


class CallableModel(Model):
    """A function from a float32 batch [B, *shape] to scores [B, classes].

    It is assumed to be honest: it runs in this process and could read anything, the key included.
    """

    kind = ModelKind("callable", flags={"digest": (CLOSED, OPEN)}, optional=("digest",))

    def __init__(
        self, scores: Scores, independence: str | Independence = "auto", made_by: Factory | None = None
    ) -> None:
        self._scores, self.demand = scores, parse_demand(independence)
        check_independence(self.demand, "a Python callable")
        self._digest = callable_digest(scores)
        self._made_by = made_by
        if unproved_independence(self.demand).measured and made_by is None:
            recipe: ModelRecipe = pickle.loads(self.recipe())
            self._scores = recipe.source  # the caller's own object never votes

    @classmethod
    def accepts(cls, source: object, options: ModelOptions) -> bool:
        return callable(source)

    @classmethod
    def of(cls, source: ModelSource, options: ModelOptions) -> "CallableModel":
        options.reject(
            ("device", "dtype", "channels_last", "compile", "output"),
            "a callable gets float32 batches in NumPy; device, dtype and the rest are its own affair",
        )
        return cls(source.model, options.independence, source.made_by)

    def identity(self) -> Identity:
        digest, independence = self._digest, unproved_independence(self.demand)
        return Identity(
            self.kind.name,
            digest.sha256,
            independence=independence,
            first_digest=digest.first,
            open_ends=digest.open_ends,
        )

    def recipe(self) -> bytes:
        return self._recipe

    @cached_property
    def _recipe(self) -> bytes:
        return ModelRecipe(CallableModel.of, self._made_by or self._scores, digest=self._digest.sha256).frozen()

    def vote(self, values: Floats) -> Votes:
        scores = self._scores(values)
        if scores is None:
            raise ValueError("the model returned None; it must return scores, [batch, classes]")
        return votes(np.asarray(scores), len(values))
