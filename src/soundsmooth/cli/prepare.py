"""What certify, commit and predict work with: the classifier, the images, the settings, and where votes are cast."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import embedded
from ..certification.promise import Inputs
from ..certification.settings import Settings, settings
from ..core.grid import Grid
from ..core.limits import seconds
from ..data.load import load
from ..exact import positive
from ..models.compiled import AUTO
from ..runs.artifact_file import artifact_path, chosen_way
from ..runs.database import is_run
from ..runs.engines import ENGINES, remote_pool
from ..runs.pools import WorkerPool
from ..runs.stored import RunTerms
from ..smoother import Smoother
from ..smoothing.recipe import SmootherRecipe
from .options import DEMO_COPIES, DEMO_IMAGES, SIGMA, Choices, To, dashed


def is_demo(choices: Choices) -> bool:
    """Neither a model nor data were named: everything embedded."""
    return choices.get("model") is None and choices.get("data") is None


def model_file(choices: Choices) -> str | Path:
    """The model that was named, or the embedded one for the noise."""
    named: str | None = choices.get("model")
    return embedded.model_for(positive(choices.get("sigma", SIGMA), "sigma")) if named is None else named


def data_file(choices: Choices) -> Path:
    """The data that was named, or the embedded images."""
    return choices.path("data") or embedded.IMAGES


def named_files(choices: Choices) -> tuple[str, str]:
    """Model and data as they were named; of embedded ones the name alone, since where they lie says nothing."""
    model, data = choices.get("model"), choices.get("data")
    return (
        f"{Path(model_file(choices)).name} (embedded)" if model is None else str(model),
        f"{data_file(choices).name} (embedded)" if data is None else str(data),
    )


def smoother(choices: Choices) -> Smoother:
    return Smoother(**_keywords(choices), artifact=choices.path("artifact"))


def artifact_file(choices: Choices) -> Path | None:
    """Where tuned kernels are kept: in the file that was named, or beside the run."""
    out = choices.path("out")
    return choices.path("artifact") or (artifact_path(out) if out is not None and is_run(out) else None)


def _keywords(choices: Choices) -> dict[str, Any]:
    """What `Smoother` is made of."""
    found = {"sigma": SIGMA, "model": model_file(choices), **choices.going_to(To.SMOOTHER)}
    if choices.get("require_proof"):
        found["independence"] = "proved"
    if not choices.get("untrusted"):
        found.pop("timeout", None)  # then it is for the workers of the run
    return found


def inputs(choices: Choices, grid: Grid) -> Inputs:
    """The images that were named, or some of the embedded ones."""
    if choices.get("model") is not None and choices.get("data") is None:
        raise ValueError("name the data as well: soundsmooth certify MODEL DATA")
    demo = {"limit": DEMO_IMAGES} if is_demo(choices) else {}
    return load(data_file(choices), grid=grid, **{**demo, **choices.going_to(To.DATA)})


def chosen_settings(choices: Choices) -> Settings:
    """Copies, α, bound and noise."""
    asked = choices.going_to(To.SETTINGS)
    if is_demo(choices):
        asked.setdefault("n", DEMO_COPIES)
    return settings(**asked)


def engine_name(choices: Choices) -> str:
    """local (threads), processes or ray. Only another process can be ended when a model hangs."""
    name: str = choices.get("engine", "ray" if choices.get("address") else "local")
    if name not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, not {name!r}")
    for option, value in choices.going_to(To.RAY).items():
        if name != "ray" and value:
            raise ValueError(f"{dashed(option)} goes with --engine ray")
    timeout = choices.get("timeout")
    if timeout is not None:
        seconds(timeout)  # what cannot be is rejected before anything is made
    hangs = timeout is not None and not choices.get("untrusted")  # an untrusted model has a process of its own
    return "processes" if name == "local" and hangs else name


@contextmanager
def pool_and_images(choices: Choices, begun: RunTerms | None) -> Iterator[tuple[WorkerPool, Inputs]]:
    """Who votes, and on what. Elsewhere the first worker loads the model, and not this process."""
    name = engine_name(choices)
    if name == "local":
        smooth = smoother(choices)
        yield smooth.pool("local", begun, artifact_file(choices)), inputs(choices, smooth.smoothing.law.grid)
        return
    named = choices.path("artifact") is not None
    way = chosen_way(begun, choices.get("compile", AUTO), artifact_file(choices), named)
    how = SmootherRecipe.of(**_keywords(choices)).with_batch(None if begun is None else begun.batch).with_way(**way)
    images = inputs(choices, how.grid)
    with remote_pool(name, how, **choices.going_to(To.POOL)) as pool:
        yield pool, images
