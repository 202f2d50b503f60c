"""The pleasant surface: one object that certifies and predicts."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from .certification.certificate import Certificate, Prediction
from .certification.promise import Promise, secret
from .certification.settings import settings
from .core.grid import IMAGES, Grid, unmasked
from .core.independence import parse_demand
from .core.limits import thread_count
from .core.machine import gpus
from .core.warn import IndependenceWarning, warn_user
from .exact import Rational, positive
from .models import model_of
from .models.load import recipe_of
from .noise import Gaussian, Law
from .runs.data import inputs_of
from .runs.engines import remote_pool
from .runs.lone_image import certify_image
from .runs.pipeline import Advance
from .runs.plan import RunPlan, plan_run
from .runs.pools import LocalPool, WorkerPool
from .runs.run import OnResult, Run, begun_terms, check_run_path, finish_run, run_secret, start_run
from .runs.store import Store
from .runs.stored import RunTerms
from .smoothing.classifier import Smoothing
from .smoothing.prediction import predict
from .smoothing.recipe import SmootherRecipe

if TYPE_CHECKING:
    import torch

    from .models.callables import Scores

#: Values of an image lie in [0, 1]; a σ far beyond that was probably meant for 0 … 255.
LARGE_SIGMA = 4


class Smoother:
    """A classifier smoothed with exact discretized Gaussian noise: F ∘ g_k of the paper.

    `model` is a torch.nn.Module, a path to an .onnx file, "package.module:factory", or a callable from float32
    batches [B, *shape] to scores [B, classes]. `sigma` and `k` are in units of value 1 (the range of an image); or give
    the `law` of the noise, which knows them and its grid.

    The model sees values, not levels: level t arrives as t/255, so a clean image lies in [0, 1] and a noisy one in
    [−k, 1 + k]. Normalisation by mean and deviation belongs inside the model, as its first layer.

    An `untrusted` model is an .onnx file; it runs in a process that never holds the key, the seed or the store, and is
    ended if it takes more than `timeout` seconds (default 600) for a batch.

    `independence` says how it is made sure that rows of a batch do not see each other: "auto" (proved if it can be,
    else measured for a graph or a torch module, checked for others), "proved" (or rejected), "measured" (`again` rows
    of each image are voted again, alone), "checked", "assumed".
    """

    def __init__(
        self,
        model: "torch.nn.Module | Scores | str | Path",
        sigma: Rational | None = None,
        *,
        law: Law | None = None,
        k: Rational = 6,
        grid: Grid = IMAGES,
        batch_size: int | None = None,
        device: str | None = None,
        dtype: str | None = None,
        channels_last: bool = False,
        compile: str = "none",
        threads: SupportsIndex | None = None,
        workers: int | None = None,
        weights: str | Path | None = None,
        independence: str = "auto",
        untrusted: bool = False,
        timeout: float | None = None,
        again: SupportsIndex | None = None,
    ) -> None:
        threads = thread_count(threads)
        if (sigma is None) == (law is None):
            raise ValueError("give either sigma, or the law of the noise: a number, or ss.Gaussian(number)")
        if sigma is not None:
            warn_if_large(sigma, grid)
            law = Gaussian(sigma, k, grid)
        assert law is not None
        self._model = model
        self._options: dict[str, Any] = {
            "device": device,
            "dtype": dtype,
            "channels_last": channels_last,
            "compile": compile,
            "threads": threads,
            "independence": parse_demand(independence, again),
            "weights": weights,
            "untrusted": untrusted,
            "timeout": timeout,
        }
        base = model_of(model, **self._options)
        self._workers = workers
        if workers is None:
            workers = gpus() if base.placement is not None and device in (None, "cuda") else 1
        self.smoothing = Smoothing.of(base, law, batch_size, threads, workers)
        self._told = False

    def certify(
        self,
        image: npt.ArrayLike,
        *,
        label: SupportsIndex | None = None,
        n0: int = 100,
        n: int = 100_000,
        alpha: Rational = "0.001",
        bound: str = "clopper-pearson",
        seed: str | bytes | None = None,
        nonce: str | bytes | None = None,
    ) -> Certificate:
        """Certify one image of integer levels (uint8); `label` is its true class, if you want it promised.

        A false certificate is issued with probability at most `alpha`. Without a `nonce` from a verifier it claims
        nothing against an issuer who tries many seeds, and says `key: self-chosen`. One worker votes.
        """
        labels = None if label is None else [label]
        inputs, chosen = inputs_of(self.smoothing.law.grid, [unmasked(image)], labels), settings(n0, n, alpha, bound)
        plan = plan_run(LocalPool(self.smoothing), inputs, chosen, secret(seed, nonce))
        self._tell(plan)
        return certify_image(plan, self.smoothing.replicas[0])

    def certify_all(
        self,
        images: npt.ArrayLike,
        labels: Sequence[SupportsIndex] | None = None,
        *,
        out: str | Path | None = None,
        n0: int = 100,
        n: int = 100_000,
        alpha: Rational = "0.001",
        bound: str = "clopper-pearson",
        noise: str = "fresh",
        engine: str = "local",
        seed: str | bytes | None = None,
        nonce: str | bytes | None = None,
        progress: bool = False,
        on_result: OnResult | None = None,
    ) -> Run:
        """Certify the images [N, …] under one promise, and return the run when every image is finished or has failed.

        A false certificate is issued with probability at most `alpha` for each image. `noise` is "fresh" for every
        image, "shared" by all, or "batchwise" (shared, batch by batch over all images).

        `out` is a .db file that survives interruption: the same call continues it, with its seed unless one is given.
        Without it the run is in memory. `engine` is "local", "processes" or "ray". `on_result` is called with each
        certificate, or failure, as soon as it is stored. Failures are wrong answers, and a warning names the first.
        """
        path, inputs = check_run_path(out), inputs_of(self.smoothing.law.grid, np.atleast_1d(unmasked(images)), labels)
        chosen, begun = settings(n0, n, alpha, bound, noise), begun_terms(path)
        hidden, takes_over = run_secret(begun, seed, nonce), begun is None and seed is None
        with self.pool(engine, begun) as pool, ExitStack() as on_error:
            plan, store = start_run(pool, inputs, chosen, hidden, path, may_take_over=takes_over)
            on_error.callback(store.close)
            self._tell(plan)
            with show_progress(plan, store) if progress else nullcontext(_nothing) as advance:
                run = finish_run(plan, store, on_result or _nothing, advance)
            on_error.pop_all()
        warn_of_failures(run)
        return run

    def commit(
        self,
        images: npt.ArrayLike,
        labels: Sequence[SupportsIndex] | None = None,
        *,
        seed: str | bytes,
        n0: int = 100,
        n: int = 100_000,
        alpha: Rational = "0.001",
        bound: str = "clopper-pearson",
        noise: str = "fresh",
        engine: str = "local",
    ) -> Promise:
        """The promise that `certify_all` makes with the same arguments; no coin is tossed.

        Give its `commitment` to the verifier, who then draws a nonce; then certify with this seed and that nonce.
        """
        inputs = inputs_of(self.smoothing.law.grid, np.atleast_1d(unmasked(images)), labels)
        with self.pool(engine) as pool:
            chosen = settings(n0, n, alpha, bound, noise)
            return plan_run(pool, inputs, chosen, secret(seed), try_rows=False).promise

    def predict(self, image: npt.ArrayLike, *, n: int = 1000, alpha: Rational = "0.001") -> Prediction:
        """The smoothed classifier's answer under the same noise law, with fresh randomness for every call.

        A wrong answer (one that is not the smoothed classifier's) has probability at most `alpha`; otherwise it
        abstains. A certificate does not bound how often that happens.
        """
        return predict(self.smoothing, 0, self.smoothing.law.grid.on_grid(unmasked(image)), n, alpha)

    def _tell(self, plan: RunPlan) -> None:
        """Warn before the first vote, once, if rows are measured or checked because there is no proof."""
        if self.smoothing.model.demand == "auto" and plan.notice is not None and not self._told:
            warn_user(plan.notice, IndependenceWarning)
            self._told = True

    def recipe(self) -> SmootherRecipe:
        """How another process makes the same smoother."""
        made = recipe_of(self._model, **self._options)
        return SmootherRecipe(made, self.smoothing.law, self.smoothing.batch)

    def pool(self, engine: str = "local", begun: RunTerms | None = None) -> WorkerPool:
        """The pool that votes. A run that has begun keeps its batch: what fits on a GPU was found by trying."""
        if engine != "local":
            return remote_pool(engine, self.recipe().with_batch(begun and begun.batch), self._workers)
        if begun is None or self.smoothing.batch is not None or self.smoothing.model.placement is None:
            return LocalPool(self.smoothing)
        return LocalPool(replace(self.smoothing, batch=begun.batch))


def _nothing(_: object) -> None:
    pass


@contextmanager
def show_progress(plan: RunPlan, store: Store) -> Iterator[Advance]:
    """A progress bar over the noisy copies of a run, from where it stands."""
    from .core.progress import progress_bar

    bar = progress_bar()
    task = bar.add_task("certifying", total=len(plan.inputs.levels) * (plan.settings.n0 + plan.settings.n))
    bar.advance(task, store.copies_voted())
    with bar:
        yield partial(bar.advance, task)


def warn_of_failures(run: Run) -> None:
    """A warning about images that count as wrong answers because the model failed on them."""
    failures = run.failures
    if failures:
        many, first = len(failures), failures[0]
        text = f"the model failed on {many} images, which count as wrong answers; image {first.index}: {first.error}"
        warn_user(text)


def warn_if_large(sigma: Rational, grid: Grid) -> None:
    """A warning about a σ that was probably meant for 0 … 255."""
    if positive(sigma, "sigma") > LARGE_SIGMA and grid == IMAGES:
        warn_user(f"sigma = {sigma} is very large: it is in units of the [0, 1] range, not of 0 … 255")
