"""G_a(x) = min_i [(x_i ⊖ a_i) ⊕ a_i = x_i], the paper's equation (3): a classifier that knows one image by its floats.

Standard smoothing certifies a with radius 3.81 (σ = 1, n = 100 000), and a′, which is one level brighter at up to 512
random positions and less than 0.09 away, as the other class. Pixels at level 0 carry no information, because
(v ⊖ 0) ⊕ 0 = v, and level 255 has no next level: a′ touches the others only.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from ..certifiers import Array, Certifier, CertifierTask
from ..contradicting_pairs import Pair, try_pair
from ..images import load_images
from ..known_by_floats import brighter, enough_ink, reachable_from_any
from ..options import Options
from ..trial import Trial

CLAIM = (
    "G_a knows the image a: certified with 3.81 (σ = 1, n = 100 000), yet 1/255 more at ≤ 512 pixels is another class"
)
SIGMA = Fraction(1)
N_FIRST, N_OTHERS, OTHERS = 100_000, 10_000, 2


def pairs(images: Array) -> Iterator[Pair]:
    """Each image a with its a′."""
    rng = np.random.default_rng(3)
    for number, image in enumerate(images):
        other, changed = brighter(image, rng)
        yield Pair(reachable_from_any(image[None]), image, other, note=f"image {number}: +1/255 at {changed} positions")


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """One image with the paper's number of copies and two with a tenth of it, unless n is given."""
    images, _ = load_images(options.data)
    kept = enough_ink(images)
    left_out = f"{len(images) - len(kept)} of {len(images)} images left out as too black"
    for number, pair in enumerate(pairs(kept[: 1 + OTHERS])):
        n = options.n or (N_OTHERS if number else N_FIRST)
        noted = Pair(pair.make, pair.a, pair.other, note=f"{pair.note}; n = {n}; {left_out}")
        for certifier in certifiers:
            yield try_pair("image", certifier, noted, CertifierTask(SIGMA, n, n0=1000), tried=1 + OTHERS)
