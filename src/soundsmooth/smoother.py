"""The pleasant surface: one object that certifies and predicts."""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np
import numpy.typing as npt

from .certificate import Certificate, Prediction
from .core.independence import demanded
from .exact import Rational, positive
from .grid import IMAGES, Grid, unmasked
from .integers import integer
from .limits import thread_count
from .machine import gpus
from .models import Model, model_of
from .noise import law
from .promise import Inputs, secret
from .runs.engine import Smoothing, certify_inputs, predict_input
from .settings import settings

if TYPE_CHECKING:
    import torch

    from .models.callables import Scores

#: Values of an image lie in [0, 1]; a σ far beyond that was probably meant for 0 … 255.
LARGE_SIGMA = 4


class Smoother:
    """A classifier smoothed with exact discretized Gaussian noise: F ∘ g_k of the paper.

    `model` is a torch.nn.Module, a path to an .onnx file, "package.module:factory", or a callable from float32
    batches [B, *shape] to scores [B, classes]. `sigma` and `k` are in units of value 1 (the range of an image).

    The model sees values, not levels: level t arrives as t/255, so a clean image lies in [0, 1] and a noisy one in
    [−k, 1 + k]. Normalisation by mean and deviation belongs inside the model, as its first layer.

    An `untrusted` model is an .onnx file; it runs in a process that never holds the key, the seed or the store, and is
    ended if it takes more than `timeout` seconds (default 600) for a batch.

    `independence` says how it is made sure that rows of a batch do not see each other: "auto" (proved if it can be,
    else measured for a graph or a torch module, checked for others), "proved" (or refused), "measured" (`again` rows of
    each image are voted again, alone), "checked", "assumed".
    """

    def __init__(
        self,
        model: "torch.nn.Module | Scores | str | Path",
        sigma: Rational,
        *,
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
        warn_if_large(sigma, grid)
        base: Model = model_of(
            model,
            device=device,
            dtype=dtype,
            channels_last=channels_last,
            compile=compile,
            threads=threads,
            independence=demanded(independence, again),
            weights=weights,
            untrusted=untrusted,
            timeout=timeout,
        )
        if workers is None:
            workers = gpus() if base.place is not None and device in (None, "cuda") else 1
        self.smoothing = Smoothing.of(base, law(sigma, k, grid), batch_size, threads, workers)

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
        nothing against an issuer who tries many seeds, and says `key: self-chosen`.
        """
        labels = None if label is None else [label]
        images = unmasked(image)[np.newaxis]
        chosen = {"n0": n0, "n": n, "alpha": alpha, "bound": bound, "seed": seed, "nonce": nonce}
        return next(self.certify_all(images, labels, **chosen))  # type: ignore[arg-type]

    def certify_all(
        self,
        images: npt.ArrayLike,
        labels: Sequence[SupportsIndex] | None = None,
        *,
        n0: int = 100,
        n: int = 100_000,
        alpha: Rational = "0.001",
        bound: str = "clopper-pearson",
        noise: str = "fresh",
        seed: str | bytes | None = None,
        nonce: str | bytes | None = None,
    ) -> Iterator[Certificate]:
        """Certify the images [N, …] under one promise, one after the other; each as soon as it is finished.

        A false certificate is issued with probability at most `alpha` for each image. `noise` is "fresh" for every
        image, "shared" by all, or "batchwise" (shared, batch by batch over all images).
        """
        levels = tuple(self.smoothing.law.grid.fixed(image) for image in np.atleast_1d(unmasked(images)))
        truths = [None] * len(levels) if labels is None else [integer(label, "label") for label in labels]
        inputs = Inputs(tuple(range(len(levels))), levels, truths)
        return certify_inputs(self.smoothing, inputs, settings(n0, n, alpha, bound, noise), secret(seed, nonce))

    def predict(self, image: npt.ArrayLike, *, n: int = 1000, alpha: Rational = "0.001") -> Prediction:
        """The smoothed classifier's answer under the same noise law, with fresh randomness for every call.

        A wrong answer (one that is not the smoothed classifier's) has probability at most `alpha`; otherwise it
        abstains. A certificate does not bound how often that happens.
        """
        return predict_input(self.smoothing, 0, self.smoothing.law.grid.on_grid(unmasked(image)), n, alpha)


def warn_if_large(sigma: Rational, grid: Grid) -> None:
    """A warning about a σ that was probably meant for 0 … 255."""
    if positive(sigma, "sigma") > LARGE_SIGMA and grid == IMAGES:
        warnings.warn(
            f"sigma = {sigma} is very large: it is in units of the [0, 1] range, not of 0 … 255", stacklevel=3
        )
