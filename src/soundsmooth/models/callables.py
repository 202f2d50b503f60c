"""Any Python function on NumPy batches, as a model."""

import pickle
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.grid import Floats
from ..core.independence import Independence, check_independence, parse_demand, unproved_independence
from .digest import ModelDigest, callable_digest
from .model_source import Factory, ModelSource
from .options import ModelOptions
from .protocol import CLOSED, OPEN, Identity, Model, ModelKind, Votes, votes
from .recipe import ModelRecipe

Scores = Callable[[Floats], npt.ArrayLike]


class CallableModel(Model):
    """A function from a float32 batch [B, *shape] to scores [B, classes]: in NumPy, JAX or torch, or as lists.

    It is assumed to be honest: it runs in this process and could read anything, the key included.
    """

    kind = ModelKind(
        "callable", flags={"digest": (CLOSED, OPEN)}, optional=("digest",), software=("jax", "keras", "tensorflow")
    )

    def __init__(self, source: Any, independence: str | Independence = "auto", made_by: Factory | None = None) -> None:
        self._source, self.demand = source, parse_demand(independence)
        check_independence(self.demand, "a Python callable")
        self._digest = self.digest_of(source)
        self._made_by = made_by
        if unproved_independence(self.demand).measured and made_by is None:
            recipe: ModelRecipe = pickle.loads(self.recipe())
            self._source = recipe.source  # the caller's own object never votes
        self._scores = self.scores_of(self._source)

    @classmethod
    def accepts(cls, source: object, options: ModelOptions) -> bool:
        return callable(source)

    @classmethod
    def of(cls, source: ModelSource, options: ModelOptions) -> "CallableModel":
        options.reject(
            ("device", "dtype", "channels_last", "compile", "artifact", "output"),
            "a callable gets float32 batches in NumPy; device, dtype and the rest are its own affair",
        )
        return cls(source.model, options.independence, source.made_by)

    @classmethod
    def scores_of(cls, source: Any) -> Scores:
        """The function that votes."""
        scores: Scores = source
        return scores

    @classmethod
    def digest_of(cls, source: Any) -> ModelDigest:
        return callable_digest(source)

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
        return ModelRecipe(type(self).of, self._made_by or self._source, digest=self._digest.sha256).frozen()

    def vote(self, values: Floats) -> Votes:
        try:
            scores = self._scores(values)
        except (TypeError, AttributeError) as error:
            if "torch" in sys.modules and "numpy.ndarray" in str(error):
                raise ValueError(WANTS_TENSORS) from error
            raise
        if scores is None:
            raise ValueError("the model returned None; it must return scores, [batch, classes]")
        found = votes(in_numpy(scores), len(values))
        self.classes = found.classes
        return found


WANTS_TENSORS = (
    "the function wants torch tensors, but a function gets NumPy batches: give the torch.nn.Module itself, which can "
    "be proved; or begin the function with batch = torch.from_numpy(batch)"
)


def in_numpy(scores: Any) -> npt.NDArray[Any]:
    """The same numbers in NumPy, from wherever they are; bfloat16 as float32, which holds each of them."""
    if hasattr(scores, "detach"):
        scores = scores.detach().cpu()
        scores = scores.float() if str(scores.dtype) == "torch.bfloat16" else scores
    array = np.asarray(scores)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
