"""The noise: exactly docs/noise.md, on every device, in any batch split, in any order."""

from .gpu import GpuSampler
from .keystream import SHARED_STREAM, Keystream, Purpose
from .law import Law, law
from .reference import reference_noise
from .sampler import Noise, Noisy, Sampler

__all__ = [
    "SHARED_STREAM",
    "GpuSampler",
    "Keystream",
    "Law",
    "Noise",
    "Noisy",
    "Purpose",
    "Sampler",
    "law",
    "reference_noise",
]
