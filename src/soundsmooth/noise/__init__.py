"""The noise: exactly docs/noise.md, on every device, in any batch split, in any order."""

from .gpu import GpuSampler
from .keystream import SHARED_STREAM, Keystream, Purpose, coin_word
from .law import Gaussian, Law, promised_law
from .reference import reference_noise
from .sampler import Noise, Noisy, Sampler

__all__ = [
    "SHARED_STREAM",
    "Gaussian",
    "GpuSampler",
    "Keystream",
    "Law",
    "Noise",
    "Noisy",
    "Purpose",
    "Sampler",
    "coin_word",
    "promised_law",
    "reference_noise",
]
