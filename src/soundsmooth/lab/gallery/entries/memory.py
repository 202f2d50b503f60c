"""H_A(x) = max over a in A of G_a(x) of the paper's equation (4): a classifier that knows a whole set of images.

Every member of A is certified with a large radius, and 1/255 more at random positions of it is the other class. It is
tried twice: in NumPy, and as a plain network of linear layers and ReLU (ONNX, in onnxruntime) with the same answers.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from .. import relu
from ..certifiers import Array, Certifier, CertifierTask, MakeScores, Scores
from ..contradicting_pairs import Pair, try_pair
from ..images import load_images
from ..known_by_floats import brighter, enough_ink, reachable_from_any
from ..options import Options
from ..trial import Trial

CLAIM = "H_A knows a set of images, in NumPy and as a network of linear layers and ReLU only"
SIGMA = Fraction(1)
MEMBERS = 5
N, N_NETWORK = 10_000, 2_000
MOST_WEIGHTS = 30_000_000
NO_HALF = "standard-float16"


def darkest(images: Array, count: int = MEMBERS) -> Array:
    """The images with the fewest pixels that are not black (100 at least): they make the smallest network."""
    kept = enough_ink(images)
    ink = (kept > 0).reshape(len(kept), -1).sum(axis=1)
    chosen: Array = kept[np.argsort(ink, kind="stable")[:count]]
    return chosen


def as_network(members: Array) -> MakeScores:
    """Make H_A as an ONNX graph of linear layers and ReLU."""

    @cache
    def make(dtype: np.dtype[Any]) -> Scores:
        session = relu.session(relu.layers(members, dtype))

        def scores(batch: Array) -> Array:
            return np.asarray(session.run(None, {"image": batch.reshape(len(batch), -1)})[0])

        return scores

    return make


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """The first member in NumPy, the second by the network; onnxruntime has no half precision on the processor."""
    images, _ = load_images(options.data)
    members, rng = darkest(images), np.random.default_rng(4)
    size = relu.weights(members)
    kinds = [("NumPy", reachable_from_any(members), N, certifiers)]
    if size <= MOST_WEIGHTS:
        single = [certifier for certifier in certifiers if certifier.name != NO_HALF]
        kinds.append(("linear + ReLU", as_network(members), N_NETWORK, single))
    for (kind, make, n, chosen), a in zip(kinds, members, strict=False):
        other, changed = brighter(a, rng)
        n = options.n or n
        note = f"{kind}, {len(members)} images, {changed} positions, n = {n}"
        if size > MOST_WEIGHTS:
            note += f"; no network: a layer would have {size} weights"
        for certifier in chosen:
            yield try_pair(
                "memory", certifier, Pair(make, a, other, note=note), CertifierTask(SIGMA, n, n0=100), tried=len(kinds)
            )
