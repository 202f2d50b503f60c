"""UNSOUND, for comparison only: the paper's Algorithm 1, randomized smoothing as the field writes it (Cohen et al.).

The noise is a float, the image is a float, and their sum is rounded to a float. Which floats can be reached depends
on the image, so a classifier can tell images apart that the theorem says it cannot. With F(x) = [(x − a) + a = x],
a = 210/255 and σ = 0.5 (the paper's Listing 1) this module reports class 1 at a with a radius of 1.906, and class 0 at
0, which is 0.82 away. All steps are carried out in one precision: mixing two would hide the effect, not heal it.
"""

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ...exact import Rational
from .certify import Classifier, Counts, UnsoundSmooth, count_votes

DTYPES = ("float16", "float32", "float64")


class UnsoundStandard(UnsoundSmooth):
    """UNSOUND, for comparison only: Algorithm 1. The radius that `certify` reports may be false.

    `dtype` ("float16", "float32" or "float64") is the precision of everything: image, noise, sum, classifier's input.
    `backend` is "numpy" or "torch"; `device` is for torch. With a seed the object has a generator of its own; without
    one torch draws from its global generator, as the field does, which the classifier can read and reseed.
    """

    def __init__(
        self,
        classifier: Classifier,
        num_classes: int,
        sigma: Rational,
        *,
        dtype: str = "float32",
        backend: str = "numpy",
        device: str = "cpu",
        seed: int | None = None,
    ) -> None:
        super().__init__(classifier, num_classes, sigma)
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
        if backend not in ("numpy", "torch"):
            raise ValueError(f"backend must be numpy or torch, not {backend!r}")
        self._floats = _Numpy(dtype, seed) if backend == "numpy" else _Torch(dtype, device, seed)

    def sample_under_noise(self, x: Any, n: int, batch_size: int = 1000) -> Counts:
        """SampleUnderNoise(f, x, n, σ): x' ← x + ε in floats, and the classifier's votes on x'."""
        point = self._floats.point(x)

        def votes(first: int, copies: int) -> npt.NDArray[Any]:
            noisy = self._floats.under_noise(point, copies, float(self.sigma))
            return self._floats.votes(self._scores, noisy)

        return count_votes(votes, n, self.num_classes, batch_size)


class _Numpy:
    """Float arithmetic in one precision."""

    def __init__(self, dtype: str, seed: int | None) -> None:
        self.dtype = np.dtype(dtype)
        self.rng = np.random.default_rng(seed)

    def point(self, x: Any) -> npt.NDArray[Any]:
        """x in this precision."""
        return np.asarray(x, self.dtype)

    def under_noise(self, point: npt.NDArray[Any], copies: int, sigma: float) -> npt.NDArray[Any]:
        """The batch x + ε, ε ~ N(0, σ²I) as far as the generator can."""
        drawn = np.float64 if self.dtype == np.float64 else np.float32  # NumPy draws no half-precision normals
        noise = self.rng.standard_normal((copies, *point.shape), dtype=drawn)
        batch: npt.NDArray[Any] = noise.astype(self.dtype, copy=False)
        batch *= self.dtype.type(sigma)  # in place: a batch of images is large
        batch += point
        return batch

    def votes(self, scores: Classifier, batch: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The class that each row votes for."""
        return np.asarray(scores(batch).argmax(1))


class _Torch:
    """The same in torch, on any device."""

    def __init__(self, dtype: str, device: str, seed: int | None) -> None:
        self.torch: Any = importlib.import_module("torch")  # only when asked for
        self.dtype, self.device = getattr(self.torch, dtype), device
        self.generator = None if seed is None else self.torch.Generator(device).manual_seed(seed)

    def point(self, x: Any) -> Any:
        return self.torch.as_tensor(x, dtype=self.dtype, device=self.device)

    def under_noise(self, point: Any, copies: int, sigma: float) -> Any:
        batch = point.repeat(copies, *(1 for _ in point.shape))
        noise = self.torch.randn(batch.shape, dtype=self.dtype, device=self.device, generator=self.generator)
        return batch + noise * sigma

    def votes(self, scores: Classifier, batch: Any) -> npt.NDArray[Any]:
        with self.torch.no_grad():
            return np.asarray(scores(batch).argmax(1).cpu())
