"""What certify and predict have in common: which classifier, which images."""

from pathlib import Path
from typing import Any

from .. import embedded
from ..exact import positive
from ..grid import Grid
from ..promise import Inputs
from ..runs.data import read_npz
from ..smoother import Smoother
from ..smoothing.recipe import SmootherRecipe
from .options import Choices

DEMO_IMAGES = 20
FOR_THE_SMOOTHER = (
    "k",
    "batch_size",
    "device",
    "dtype",
    "channels_last",
    "compile",
    "threads",
    "workers",
    "weights",
    "independence",
    "untrusted",
    "timeout",
    "again",
)


def is_demo(choices: Choices) -> bool:
    """Neither a model nor data were named: everything embedded."""
    return choices.get("model") is None and choices.get("data") is None


def smoother(choices: Choices) -> Smoother:
    model, sigma = _model_and_sigma(choices)
    return Smoother(model, sigma, **_options(choices))


def recipe(choices: Choices) -> SmootherRecipe:
    """The same smoother, to be made elsewhere."""
    model, sigma = _model_and_sigma(choices)
    return SmootherRecipe.of(model, sigma, **_options(choices))


def _options(choices: Choices) -> dict[str, Any]:
    proof = {"independence": "proved"} if choices.get("require_proof") else {}
    found = choices.only_given(*FOR_THE_SMOOTHER) | proof
    if not choices.get("untrusted"):
        found.pop("timeout", None)  # then it is for the workers of the run
    return found


def _model_and_sigma(choices: Choices) -> tuple[str | Path, str]:
    sigma = choices.get("sigma", "0.25")
    model = choices.get("model")
    return embedded.model_for(positive(sigma, "sigma")) if model is None else model, sigma


def inputs(choices: Choices, grid: Grid) -> Inputs:
    if choices.get("model") is not None and choices.get("data") is None:
        raise ValueError("name the data as well: soundsmooth certify MODEL DATA.npz")
    return read_npz(
        choices.path("data") or embedded.IMAGES,
        grid,
        choices.get("layout", "as-is"),
        choices.get("skip", 1),
        choices.get("limit", DEMO_IMAGES if is_demo(choices) else None),
    )
