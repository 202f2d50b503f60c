"""The diesel trick: a network that knows when it is being tested.

The paper sketches a gate on the smoothed value m(x). As a base classifier it is simpler: the remembered label where a
copy can be a test image plus float noise (H hits), the real network elsewhere. On other inputs this is the network
(H takes fewer than one in a hundred noisy copies of other pictures for one it knows). On the test set it is certified
with the true labels and a large radius, even where the network is wrong, which one level more on the pixels that are
not black brings to light. Where noise is added in integers H never hits, and the certificate is the network's own.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from .... import embedded
from ....models.onnx_file import OnnxModel
from ..certifiers import Array, Certifier, CertifierTask, MakeScores, Scores, values
from ..contradicting_pairs import Pair, try_pair
from ..images import Images, Labels, load_images
from ..membership import RememberedImages
from ..options import Options
from ..trial import Trial

CLAIM = (
    "remembered labels where H hits, a real network elsewhere: test images that it gets wrong are certified as right"
)
SIGMA = Fraction(1, 2)
SHOWN = 2
SCREENED = 20  # noisy copies of each image, to find those that the network gets wrong


def gated(network: Scores, images: Images, labels: Labels) -> MakeScores:
    """The network with a memory of some images and what to answer there. (The network itself is in float32.)"""

    @cache
    def make(dtype: np.dtype[Any]) -> Scores:
        memory = RememberedImages(images, dtype)

        def scores(batch: Array) -> Array:
            owners = memory.owners(batch)
            answers = np.zeros((len(batch), 10), np.float32)
            known, other = np.flatnonzero(owners >= 0), np.flatnonzero(owners < 0)
            answers[known, labels[owners[known]]] = 1
            if len(other):
                answers[other] = network(batch[other].astype(np.float32))
            return answers

        return scores

    return make


def surely_wrong(network: Scores, images: Images, labels: Labels) -> Iterator[tuple[int, int]]:
    """Images (by number) that the network takes for another class in nine of ten noisy copies, and that class.

    The draws are the same in every run; a trial makes its own.
    """
    rng, dtype = np.random.default_rng(0), np.dtype("float32")
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        noise = rng.standard_normal((SCREENED, *image.shape), dtype=np.float32)
        votes = np.bincount(network(values(image, dtype) + noise * dtype.type(SIGMA)).argmax(axis=1))
        if votes.argmax() != label and votes.max() >= 0.9 * SCREENED:
            yield i, int(votes.argmax())


def brighter(image: Array) -> Array:
    """One level more wherever there is room and the pixel is not black: black ones tell H nothing."""
    return image + ((image > 0) & (image < 255))


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """The first images that the embedded network gets wrong, always from the embedded set: it knows no other."""
    images, labels = load_images(None)
    network: Scores = OnnxModel(embedded.model_for(SIGMA)).scores
    make = gated(network, images, labels)
    for (i, taken), _ in zip(surely_wrong(network, images, labels), range(SHOWN), strict=False):
        note = f"image {i}: class {labels[i]}, which the network takes for {taken}; against +1/255"
        pair = Pair(make, images[i], brighter(images[i]), classes=10, note=note)
        for certifier in certifiers:
            yield try_pair("gate", certifier, pair, CertifierTask(SIGMA, options.n or 2000, n0=200), tried=SHOWN)
