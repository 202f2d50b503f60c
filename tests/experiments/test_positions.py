"""Section 4.1's 512 positions: images that confirm the claim, images that refute it, and neither by chance."""

import numpy as np

from scripts import script
from soundsmooth.lab.gallery.images import load_images
from soundsmooth.lab.gallery.known_by_floats import enough_ink

positions = script("gallery/positions.py")


def test_images_confirm_and_refute() -> None:
    """The share at a′ is about 0.01 at the most on the first three, and 1 where no pixel can be brighter.

    To miss a verdict takes 70 hits of 500 at 0.02 (below 10⁻³⁵), or fewer than 133 where a′ is a itself, whose float64
    copies are all hits, but for one in a million.
    """
    images = enough_ink(load_images(None)[0])[:3]
    white = np.full_like(images[:1], 255)
    found = positions.measure(np.concatenate([images, white]), "float64")
    assert (found["images"], found["confirmed"], found["refuted"]) == (4, 3, [3])
    assert "| float64 | 4 | 3 | 1 | 0 |" in positions.rows({"float64": found})
