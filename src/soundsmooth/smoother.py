"""The pleasant surface: one object that certifies and predicts."""

import copy
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from .certification.certificate import Certificate
from .certification.goal import LooksAsked, Radii
from .certification.prediction import Prediction
from .certification.promise import Inputs, Promise, secret
from .certification.settings import settings
from .core.grid import IMAGES, Grid
from .core.independence import DemandName, parse_demand
from .core.layouts import Layout, check_layout
from .core.limits import thread_count
from .core.machine import gpus
from .core.warn import IndependenceWarning, warn_user
from .data.load import load, load_image
from .exact import BoundName, Rational, positive
from .models import model_of
from .models.compiled import TUNED, Compilation
from .models.load import recipe_of
from .models.options import Precision
from .noise import Gaussian, Law
from .noise.sources import NoiseMode
from .runs.artifact_file import artifact_path, chosen_way, keep_artifact
from .runs.engines import Engine, remote_pool
from .runs.information import names_of
from .runs.lone_image import certify_image
from .runs.plan import RunPlan, plan_run
from .runs.pools import LocalPool, WorkerPool
from .runs.reader import terms_at
from .runs.run import OnResult, Run, check_run_path, finish_run, meter_of, run_secret, start_run
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

    `weights` is a file for a module or a factory: .safetensors or a checkpoint. Of several outputs, the one called
    `output` votes, or the one with that number, from 0.

    An `untrusted` model is an .onnx file; it runs in a process that never holds the key, the seed or the store, and is
    ended if it takes more than `timeout` seconds (default 600) for a batch.

    `independence` says how it is made sure that rows of a batch do not see each other: "auto" (proved if it can be,
    else measured for a graph or a torch module, checked for others), "proved" (or rejected), "measured" (`again` rows
    of each image are voted again, alone), "checked", "assumed".

    `layout` reorders the axes of every image before anything else: "nhwc-to-nchw" for channels-last data.

    `compile` says how a torch model runs: as it is ("none"), as a "cuda-graph", compiled ("torch-compile"), or with
    kernels that are chosen by timing, once ("tuned"). "auto" compiles for long runs on a GPU. Tuned kernels are kept in
    the `artifact`'s file, or beside the run, and the next run that names the file takes them from there. They are
    code: take only your own.
    """

    def __init__(
        self,
        model: "torch.nn.Module | Scores | str | Path",
        sigma: Rational | None = None,
        *others: object,
        law: Law | None = None,
        k: Rational = 6,
        grid: Grid = IMAGES,
        layout: Layout = "as-is",
        batch_size: int | None = None,
        device: str | None = None,
        dtype: Precision | None = None,
        channels_last: bool = False,
        compile: Compilation = "auto",
        artifact: str | Path | None = None,
        threads: SupportsIndex | None = None,
        workers: int | None = None,
        weights: str | Path | None = None,
        output: str | int | None = None,
        independence: DemandName = "auto",
        untrusted: bool = False,
        timeout: float | None = None,
        again: SupportsIndex | None = None,
    ) -> None:
        reject_positional(
            others, "Smoother(model, sigma) takes the rest by name, and finds the number of classes itself"
        )
        threads = thread_count(threads)
        check_layout(layout)
        law = _law_of(sigma, law, k, grid)
        self._model, self._layout = model, layout
        self._artifact, self._kept = None if artifact is None else Path(artifact), False
        self._options: dict[str, Any] = {
            "device": device,
            "dtype": dtype,
            "channels_last": channels_last,
            "compile": compile,
            "threads": threads,
            "independence": parse_demand(independence, again),
            "weights": weights,
            "output": output,
            "untrusted": untrusted,
            "timeout": timeout,
        }
        base = model_of(model, **self._options)
        for remark in base.remarks:
            warn_user(remark)
        self._workers = workers
        if workers is None:
            workers = gpus() if base.placement is not None and device in (None, "cuda") else 1
        self.smoothing = Smoothing.of(base, law, batch_size, threads, workers)
        self._told = set[str]()
        """What was said of rows (`notice`) and of the speed (`slower`)."""

    def certify(
        self,
        image: Any,
        *others: object,
        label: SupportsIndex | None = None,
        n0: int | float = 100,
        n: int | float = 100_000,
        alpha: Rational = "0.001",
        bound: BoundName | None = None,
        radii: Radii | None = None,
        width: Rational | None = None,
        patience: float | None = None,
        looks: LooksAsked | None = None,
        skip_wrong: bool = False,
        seed: str | bytes | None = None,
        nonce: str | bytes | None = None,
    ) -> Certificate:
        """Certify one image, as levels (uint8) or as their floats; `label` is its true class, if you want it promised.

        A false certificate is issued with probability at most `alpha`. Without a `nonce` from a verifier it claims
        nothing against an issuer who tries many seeds, and says `key: self-chosen`. One worker votes.

        `radii` or `width` stop as soon as the answer is clear, as in `certify_all`.
        """
        reject_positional(others, "certify(x, n0=100, n=100_000, alpha=0.001) takes its settings by name")
        asked = _asked(radii, width, patience, looks, skip_wrong)
        inputs, chosen = self._one(image, label), settings(n0, n, alpha, bound, **asked)
        plan = plan_run(self.pool(), inputs, chosen, secret(seed, nonce))
        self._keep(plan)
        self._tell(plan)
        return certify_image(plan, self.smoothing.replicas[0])

    def certify_all(
        self,
        data: Any,
        labels: Any = None,
        *others: object,
        out: str | Path | None = None,
        n0: int | float = 100,
        n: int | float = 100_000,
        alpha: Rational = "0.001",
        bound: BoundName | None = None,
        radii: Radii | None = None,
        width: Rational | None = None,
        patience: float | None = None,
        looks: LooksAsked | None = None,
        skip_wrong: bool = False,
        noise: NoiseMode = "fresh",
        engine: Engine = "local",
        every: int = 1,
        limit: int | None = None,
        seed: str | bytes | None = None,
        nonce: str | bytes | None = None,
        progress: bool = False,
        on_result: OnResult | None = None,
    ) -> Run:
        """Certify all images of the data under one promise; returns when each is finished or has failed.

        `data` is whatever `soundsmooth.load` takes, or what it returned. `labels` count instead of those in it. `every`
        and `limit` mean what they mean there.

        A false certificate is issued with probability at most `alpha` for each image. `noise` is "fresh" for every
        image, "shared" by all, or "batchwise" (shared, batch by batch over all images).

        `radii` says which radii the table has: one, several, or "steps" of 0.25. An image then stops voting as soon as
        they are decided, and `n` is the most that may be spent. `patience` is how many votes one more certified radius
        is worth. `width` stops within that share of the radius instead, say "1%". `looks` are the numbers of copies at
        which votes are counted. With `skip_wrong`, an image whose selected class is not its label ends at once. The
        guarantee stays the same: docs/looks.md.

        `out` is a .db file that survives interruption: the same call continues it, with its seed unless one is given.
        Without it the run is in memory. `engine` is "local", "processes" or "ray". `on_result` is called with each
        certificate, or failure, as soon as it is stored. Failures are wrong answers, and a warning names the first.
        """
        reject_positional(others, "certify_all(data, labels, n0=100, n=100_000) takes its settings by name")
        path, inputs = check_run_path(out), self._all(data, labels, every, limit)
        asked = _asked(radii, width, patience, looks, skip_wrong)
        chosen, begun = settings(n0, n, alpha, bound, noise, **asked), terms_at(path)
        hidden, takes_over = run_secret(begun, seed, nonce), begun is None and seed is None
        kept = self.artifact_for(path)
        with self.pool(engine, begun, kept) as pool, ExitStack() as on_error:
            names = names_of(self._model, data)
            plan, store = start_run(
                pool, inputs, chosen, hidden, path, begun=begun, may_take_over=takes_over, names=names, artifact=kept
            )
            on_error.callback(store.close)
            self._tell(plan)
            with meter_of(plan, store) if progress else nullcontext() as meter:
                run = finish_run(plan, store, on_result or _nothing, meter)
            on_error.pop_all()
        warn_of_failures(run)
        return run

    def commit(
        self,
        data: Any,
        labels: Any = None,
        *,
        seed: str | bytes,
        n0: int | float = 100,
        n: int | float = 100_000,
        alpha: Rational = "0.001",
        bound: BoundName | None = None,
        radii: Radii | None = None,
        width: Rational | None = None,
        patience: float | None = None,
        looks: LooksAsked | None = None,
        skip_wrong: bool = False,
        noise: NoiseMode = "fresh",
        engine: Engine = "local",
        every: int = 1,
        limit: int | None = None,
    ) -> Promise:
        """The promise that `certify_all` makes with the same arguments; no coin is tossed.

        Give its `commitment` to the verifier, who then draws a nonce; then certify with this seed and that nonce.
        """
        inputs = self._all(data, labels, every, limit)
        with self.pool(engine) as pool:
            asked = _asked(radii, width, patience, looks, skip_wrong)
            chosen = settings(n0, n, alpha, bound, noise, **asked)
            plan = plan_run(pool, inputs, chosen, secret(seed), try_rows=False)
        self._keep(plan)
        return plan.promise

    def predict(
        self,
        image: Any,
        *others: object,
        n: int | float = 1000,
        alpha: Rational = "0.001",
        looks: LooksAsked | None = None,
    ) -> Prediction:
        """The smoothed classifier's answer under the same noise law, with fresh randomness for every call.

        A wrong answer (one that is not the smoothed classifier's) has probability at most `alpha`; otherwise it
        abstains. A certificate does not bound how often that happens. Floats within rounding of the grid are answered
        as their grid point, and `rounded` says how far that is.

        With `looks` it answers as soon as the votes decide, and `n` is the most that may vote. They are "auto", or the
        numbers of copies at which votes are counted, and need rows that are proved to be independent. The answer's
        `votes` says how many have voted.
        """
        reject_positional(others, "predict(x, n=1000, alpha=0.001) takes its settings by name")
        found = self._one(image)
        rounded = found.rounded[0] if found.rounded else None
        return predict(self.smoothing, 0, found.levels[0], n, alpha, rounded, looks)

    def _one(self, image: Any, label: SupportsIndex | None = None) -> Inputs:
        return load_image(image, label, self.smoothing.law.grid, self._layout)

    def _all(self, data: Any, labels: Any, every: int, limit: int | None) -> Inputs:
        grid = self.smoothing.law.grid
        return load(data, labels=labels, grid=grid, layout=self._layout, every=every, limit=limit)

    def _keep(self, plan: RunPlan) -> None:
        """Keep tuned kernels in the file that was named, once."""
        if plan.survey.artifact is not None and self._artifact is not None and not self._kept:
            keep_artifact(self._artifact, plan.survey.artifact)
            self._kept = True

    def _tell(self, plan: RunPlan) -> None:
        """Warn before the first vote, each once, if rows are measured or checked because there is no proof, and if what
        votes is slower than the module.
        """
        if "notice" not in self._told and self.smoothing.model.demand == "auto" and plan.notice is not None:
            warn_user(plan.notice, IndependenceWarning)
            self._told.add("notice")
        if "slower" not in self._told and plan.survey.slower is not None:
            warn_user(plan.survey.slower)
            self._told.add("slower")

    def with_batch_size(self, batch_size: int) -> "Smoother":
        """The same model and noise, with batches of another size."""
        other = copy.copy(self)
        other.smoothing = replace(self.smoothing, batch=batch_size)
        return other

    def recipe(self) -> SmootherRecipe:
        """How another process makes the same smoother."""
        made = recipe_of(self._model, **self._options)
        return SmootherRecipe(made, self.smoothing.law, self.smoothing.batch)

    def artifact_for(self, out: Path | None) -> Path | None:
        """The file of tuned kernels: the one that was named, or the one beside a run."""
        return self._artifact or (None if out is None else artifact_path(out))

    def pool(self, engine: str = "local", begun: RunTerms | None = None, artifact: Path | None = None) -> WorkerPool:
        """The pool that votes. A run that has begun keeps its batch and how the model runs: both were tried out."""
        tuned = self.smoothing.model.artifact if begun is None else None  # by an earlier call
        asked = self._options["compile"] if tuned is None else TUNED
        kept = artifact or self._artifact if tuned is None else None
        way = chosen_way(begun, asked, kept, named=self._artifact is not None)
        if engine != "local":
            way["artifact"] = way["artifact"] or tuned
            recipe = self.recipe().with_batch(None if begun is None else begun.batch).with_way(**way)
            return remote_pool(engine, recipe, self._workers)
        if begun is not None or way["artifact"] is not None:
            for replica in self.smoothing.replicas:
                replica.model.run_as(way["compile"], way["artifact"])
        if begun is None or self.smoothing.batch is not None or self.smoothing.model.placement is None:
            return LocalPool(self.smoothing)
        return LocalPool(replace(self.smoothing, batch=begun.batch))


def _law_of(sigma: Rational | None, law: Law | None, k: Rational, grid: Grid) -> Law:
    """The law that was given, or the normal one of this σ."""
    if (sigma is None) == (law is None):
        raise ValueError(
            'give either sigma, or the law of the noise: ss.Smoother(model, "0.25"), or law=ss.Gaussian("0.25")'
        )
    if law is not None:
        return law
    assert sigma is not None
    if positive(sigma, "sigma") > LARGE_SIGMA and grid == IMAGES:
        warn_user(f"sigma = {sigma} is very large: it is in units of the [0, 1] range, not of 0 … 255")
    return Gaussian(sigma, k, grid)


def _asked(
    radii: Radii | None, width: Rational | None, patience: float | None, looks: LooksAsked | None, skip_wrong: bool
) -> dict[str, Any]:
    """What is asked of each image, as keywords of `settings`."""
    return {"radii": radii, "width": width, "patience": patience, "looks": looks, "skip_wrong": skip_wrong}


def _nothing(_: object) -> None:
    pass


def reject_positional(others: tuple[object, ...], how: str) -> None:
    """A TypeError for a call that looks like one of the scripts of the field."""
    if others:
        raise TypeError(f"{how}; soundsmooth.compat.Smooth(model, num_classes, sigma) has the signatures of older code")


def warn_of_failures(run: Run) -> None:
    """A warning about images that count as wrong answers because the model failed on them."""
    failures = run.failures
    if failures:
        many, first = len(failures), failures[0]
        text = f"the model failed on {many} images, which count as wrong answers; image {first.index}: {first.error}"
        warn_user(text)
