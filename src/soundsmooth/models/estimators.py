"""Fitted classifiers as scikit-learn has them, recognised by their methods: nothing is imported."""

import copy
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.errors import describe_error
from ..core.grid import Floats
from ..core.independence import Independence
from .callables import CallableModel, Scores
from .model_source import Factory
from .options import ModelOptions

#: The scores, by the first of these methods that an estimator has.
METHODS = ("decision_function", "predict_proba")
PAIRS = 'a support vector machine needs decision_function_shape="ovr"'


class EstimatorModel(CallableModel):
    """A fitted estimator: it gets each image as one row of floats, and its scores vote.

    Its classes are 0, 1, 2, …: they are what labels are compared with. For two classes a `decision_function` returns
    one logit per row, and votes by the rule for these.

    A copy votes: whoever fits the estimator again does not change what was promised.
    """

    def __init__(self, source: Any, independence: str | Independence = "auto", made_by: Factory | None = None) -> None:
        try:
            private = copy.deepcopy(source)
        except Exception as error:  # it is their code: anything can happen
            raise ValueError(
                f"the estimator cannot be copied ({describe_error(error)}); give a function that calls it instead"
            ) from error
        super().__init__(private, independence, made_by)
        self.classes = len(private.classes_)

    @classmethod
    def accepts(cls, source: object, options: ModelOptions) -> bool:
        can = any(hasattr(source, method) for method in METHODS)
        return can and hasattr(source, "fit") and not isinstance(source, type)

    @classmethod
    def scores_of(cls, source: Any) -> Scores:
        classes = getattr(source, "classes_", None)
        if classes is None:
            raise ValueError(f"this {type(source).__name__} has no classes: fit it first, with estimator.fit(x, y)")
        if isinstance(classes, list) or np.asarray(classes).tolist() != list(range(len(classes))):
            raise ValueError(
                f"the estimator's classes must be 0, 1, 2, …, not {_some(classes)}: fit it with these numbers, "
                "y = np.unique(y, return_inverse=True)[1]"
            )
        method = next(method for method in METHODS if hasattr(source, method))
        if method == "decision_function" and len(classes) == 3 and _compares_pairs(source):
            raise ValueError(f"this {type(source).__name__} has scores of pairs of classes; {PAIRS}")
        return partial(_scores_of_rows, getattr(source, method), len(classes))


def _scores_of_rows(method: Any, classes: int, batch: Floats) -> npt.NDArray[Any]:
    """The scores; a ValueError unless there is one for each class, or one logit for two."""
    scores = np.asarray(method(batch.reshape(len(batch), -1)))
    found = 2 if scores.ndim == 1 else scores.shape[-1]
    if found != classes:
        raise ValueError(f"the estimator returns {found} scores per row for {classes} classes; {PAIRS}")
    return scores


def _compares_pairs(source: Any) -> bool:
    """Whether it is, or ends in, a machine whose scores are of pairs of classes. Three classes have three pairs: their
    number does not tell.
    """
    best = getattr(source, "best_estimator_", source)  # of a search
    found = best.get_params(deep=True) if hasattr(best, "get_params") else {}
    return any(name.endswith("decision_function_shape") and value == "ovo" for name, value in found.items())


def _some(classes: Any) -> str:
    return f"{list(classes)!s:.60}"
