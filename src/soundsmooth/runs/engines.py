"""Which pool votes: threads of this process, other processes of this machine, or a Ray cluster."""

from typing import Literal, get_args

from ..core.machine import cores, gpus
from ..smoothing.recipe import SmootherRecipe
from .pools import WorkerPool

Engine = Literal["local", "processes", "ray"]
ENGINES: tuple[Engine, ...] = get_args(Engine)


def remote_pool(
    engine: str,
    recipe: SmootherRecipe,
    workers: int | None = None,
    timeout: float | None = None,
    address: str | None = None,
    cpus_per_worker: float | None = None,
    gpus_per_worker: float | None = None,
) -> WorkerPool:
    """A pool whose workers make the smoother again by its recipe. The last three are for a Ray cluster."""
    if engine not in ENGINES[1:]:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    on_gpu = recipe.on_gpu
    if engine == "processes":
        from .process_pool import ProcessPool

        there = gpus() if on_gpu else 0
        return ProcessPool(recipe, workers or there or max(1, cores() // recipe.threads), there, timeout)
    from .ray_pool import Need, RayPool

    cpus = (1 if on_gpu else recipe.threads) if cpus_per_worker is None else cpus_per_worker
    share = (1 if on_gpu else 0) if gpus_per_worker is None else gpus_per_worker
    return RayPool(recipe, Need(float(cpus), float(share)), workers, address, timeout)
