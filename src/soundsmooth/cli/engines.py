"""`--engine`: threads of this process, other processes of this machine, or a Ray cluster."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..certification.promise import Inputs
from ..core.limits import seconds
from ..runs.engines import ENGINES, remote_pool
from ..runs.pools import WorkerPool
from ..runs.stored import Terms
from .options import Choices, To, dashed
from .shared import inputs, recipe, smoother


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


def votes_elsewhere(choices: Choices) -> bool:
    return engine_name(choices) != "local"


@contextmanager
def pool_and_images(choices: Choices, begun: Terms | None) -> Iterator[tuple[WorkerPool, Inputs]]:
    """Who votes, and on what. Elsewhere the first worker loads the model, and not this process."""
    name = engine_name(choices)
    if name == "local":
        smooth = smoother(choices)
        yield smooth.pool("local", begun), inputs(choices, smooth.smoothing.law.grid)
        return
    how = recipe(choices).with_batch(begun and begun.batch)
    images = inputs(choices, how.grid)
    with remote_pool(name, how, **choices.going_to(To.POOL)) as pool:
        yield pool, images
