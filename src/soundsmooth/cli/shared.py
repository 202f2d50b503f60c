"""What certify and predict have in common: which classifier, which images."""

from typing import Any

from .. import embedded
from ..certification.promise import Inputs
from ..certification.settings import Settings, settings
from ..core.grid import Grid
from ..exact import positive
from ..runs.data import read_npz
from ..smoother import Smoother
from ..smoothing.recipe import SmootherRecipe
from .options import DEMO_COPIES, DEMO_IMAGES, SIGMA, Choices, To


def is_demo(choices: Choices) -> bool:
    """Neither a model nor data were named: everything embedded."""
    return choices.get("model") is None and choices.get("data") is None


def smoother(choices: Choices) -> Smoother:
    return Smoother(**_keywords(choices))


def recipe(choices: Choices) -> SmootherRecipe:
    """The same smoother, to be made elsewhere."""
    return SmootherRecipe.of(**_keywords(choices))


def _keywords(choices: Choices) -> dict[str, Any]:
    """What `Smoother` is made of."""
    found = {"sigma": SIGMA, "model": choices.get("model"), **choices.going_to(To.SMOOTHER)}
    if found["model"] is None:
        found["model"] = embedded.model_for(positive(found["sigma"], "sigma"))
    if choices.get("require_proof"):
        found["independence"] = "proved"
    if not choices.get("untrusted"):
        found.pop("timeout", None)  # then it is for the workers of the run
    return found


def inputs(choices: Choices, grid: Grid) -> Inputs:
    """The images that were named, or some of the embedded ones."""
    if choices.get("model") is not None and choices.get("data") is None:
        raise ValueError("name the data as well: soundsmooth certify MODEL DATA.npz")
    demo = {"limit": DEMO_IMAGES} if is_demo(choices) else {}
    return read_npz(choices.path("data") or embedded.IMAGES, grid, **{**demo, **choices.going_to(To.DATA)})


def chosen_settings(choices: Choices) -> Settings:
    """Copies, α, bound and noise."""
    asked = choices.going_to(To.SETTINGS)
    if is_demo(choices):
        asked.setdefault("n", DEMO_COPIES)
    return settings(**asked)
