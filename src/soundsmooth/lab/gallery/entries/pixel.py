"""F_{a,i}(x) = [(x_i ⊖ a) ⊕ a = x_i], the paper's equation (2): one pixel of an image decides, all others are ignored.

Any image with level 210 at position i is certified as class 1, with a ball that holds the same image with level 0
there, which is class 0. The other pixels change nothing: the images are real ones.
"""

from collections.abc import Iterator
from fractions import Fraction

from ..certifiers import Array, Certifier, CertifierTask
from ..contradicting_pairs import Pair, try_pair
from ..images import load_images
from ..known_by_floats import reachable_from
from ..options import Options
from ..trial import Trial

CLAIM = "one pixel decides: every image with 210/255 at position i is certified against the same image with 0 there"
SIGMA = Fraction(1, 2)
LEVEL = 210
IMAGES = 2
N = 20_000


def with_pixel(image: Array, position: int, level: int) -> Array:
    """A copy of the image with another level at one position."""
    changed = image.copy()
    changed.flat[position] = level
    return changed


def pairs(images: Array) -> Iterator[Pair]:
    """Each image with level 210 and with level 0 at one position: another position for each image."""
    for number, image in enumerate(images):
        position = (image.size // 2 + 97 * number) % image.size
        yield Pair(
            reachable_from(LEVEL, position),
            with_pixel(image, position, LEVEL),
            with_pixel(image, position, 0),
            note=f"image {number}, position {position} of {image.size}",
        )


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """The first images of the data set. 20 000 copies certify 1.7, twice the distance; 100 000 certify 1.9."""
    images, _ = load_images(options.data)
    task = CertifierTask(SIGMA, options.n or N)
    for pair in pairs(images[:IMAGES]):
        for certifier in certifiers:
            yield try_pair("pixel", certifier, pair, task, tried=IMAGES)
