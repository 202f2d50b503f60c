"""`--engine processes` and `--engine ray`: the workers are other processes, here or on a cluster."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from ..limits import seconds
from ..machine import cores, gpus
from ..settings import Settings
from .choices import Choices
from .options import To, dashed
from .shared import inputs, recipe

if TYPE_CHECKING:
    from ..recipe import SmootherRecipe
    from ..runs.crew import Muster
    from ..runs.processes import Processes
    from ..runs.ray_engine import RayCrew
    from ..runs.store import Terms

ENGINES = ("local", "processes", "ray")


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
        seconds(timeout)  # what cannot be is refused before anything is made
    hangs = timeout is not None and not choices.get("untrusted")  # an untrusted model has a process of its own
    return "processes" if name == "local" and hangs else name


def votes_elsewhere(choices: Choices) -> bool:
    return engine_name(choices) != "local"


@contextmanager
def muster(choices: Choices, chosen: Settings, begun: "Terms | None") -> "Iterator[tuple[Muster, bool]]":
    """The crew, whose first worker has built the model; and whether workers of several kinds may take part."""
    from ..runs.crew import Muster

    how = recipe(choices)
    if begun is not None and choices.get("batch_size") is None:  # as it was found to fit when the run began
        how = how.with_batch(int(begun.promise.values["batch"]))
    images = inputs(choices, how.grid)
    with _crew(choices, how) as crew:
        yield Muster.of(crew, how, images, chosen, choices.get("timeout")), bool(choices.get("allow_mixed"))


def _crew(choices: Choices, how: "SmootherRecipe") -> "AbstractContextManager[Processes | RayCrew]":
    workers: int | None = choices.get("workers")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    if engine_name(choices) == "processes":
        from ..runs.processes import Processes

        there = gpus() if how.on_gpu else 0
        return Processes(workers or there or max(1, cores() // how.threads), there)
    from ..runs.ray_engine import Need, RayCrew

    cpus = choices.get("cpus_per_worker", 1 if how.on_gpu else how.threads)
    need = Need(float(cpus), float(choices.get("gpus_per_worker", 1 if how.on_gpu else 0)))
    return RayCrew(need, workers, choices.get("address"))
