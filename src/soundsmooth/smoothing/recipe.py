"""How to make a smoother somewhere else: a model's recipe, and the noise and the batches that it is smoothed with."""

from dataclasses import dataclass, replace
from typing import Any, SupportsIndex

from ..core.grid import IMAGES, Grid
from ..core.independence import parse_demand
from ..core.limits import thread_count
from ..exact import Rational
from ..models.compiled import TUNED
from ..models.load import recipe_of
from ..models.recipe import ModelRecipe
from ..noise import Gaussian, Law
from .classifier import Smoothing


@dataclass(frozen=True)
class SmootherRecipe:
    """A smoother in a form that can be sent to another process or another machine.

    What is built from it is compared with what was promised, digest and all, before it votes. A factory
    ("package.module:factory") is imported where it is called: that code must be installed there.
    """

    model: ModelRecipe
    law: Law
    batch: int | None = None

    @classmethod
    def of(
        cls,
        model: object,
        sigma: Rational,
        *,
        k: Rational = 6,
        grid: Grid = IMAGES,
        batch_size: int | None = None,
        threads: SupportsIndex | None = None,
        workers: int | None = None,
        independence: str = "auto",
        again: SupportsIndex | None = None,
        **options: Any,
    ) -> "SmootherRecipe":
        """The recipe for `Smoother` with the same arguments. How many workers there are is not part of it."""
        threads = thread_count(threads)
        made = recipe_of(model, independence=parse_demand(independence, again), threads=threads, **options)
        return cls(made, Gaussian(sigma, k, grid), batch_size)

    @property
    def grid(self) -> Grid:
        return self.law.grid

    @property
    def on_gpu(self) -> bool:
        return str(self.model.options.get("device", "cpu")).startswith("cuda")

    @property
    def tunes(self) -> bool:
        """Whether the first worker chooses kernels by timing."""
        return self.model.options.get("compile") == TUNED and self.model.options.get("artifact") is None

    @property
    def threads(self) -> int:
        """Threads of the model on the CPU: part of what is promised, so the same everywhere."""
        return int(self.model.options.get("threads", 1))

    def with_batch(self, batch: int | None) -> "SmootherRecipe":
        """The same with this size of batches, unless it has one."""
        return self if self.batch is not None else replace(self, batch=batch)

    def with_way(self, **way: Any) -> "SmootherRecipe":
        """The same with these options of the model: how it runs."""
        given = {name: value for name, value in way.items() if value is not None}
        return replace(self, model=replace(self.model, options={**self.model.options, **given}))

    def build(self, gpu: int = 0) -> Smoothing:
        """Make the smoother, with one worker; on the GPU of that number if it was asked for on any."""
        model = self.model.build(**({"device": f"cuda:{gpu}"} if self.on_gpu else {}))
        return Smoothing.of(model, self.law, self.batch, self.model.options.get("threads"), workers=1)
