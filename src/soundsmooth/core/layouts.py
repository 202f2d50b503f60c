"""Layouts: in which order an image has its axes, how they are put into another, and how to tell that they should be."""

from typing import Literal

import numpy as np
import numpy.typing as npt

Layout = Literal["as-is", "nhwc-to-nchw", "nchw-to-nhwc"]
#: What a layout does to the three axes of an image.
LAYOUTS: dict[Layout, tuple[int, int, int] | None] = {
    "as-is": None,
    "nhwc-to-nchw": (2, 0, 1),
    "nchw-to-nhwc": (1, 2, 0),
}
#: No image has more channels than this, and hardly one has fewer rows.
MOST_CHANNELS = 4


def check_layout(layout: str) -> None:
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")


def laid_out(images: npt.NDArray[np.generic], layout: Layout, before: int = 0) -> npt.NDArray[np.generic]:
    """An image with its axes in the other order, or images with an axis `before` theirs; a ValueError if they have not
    three.
    """
    axes = LAYOUTS[layout]
    if axes is None:
        return images
    if images.ndim != before + 3:
        raise ValueError(f"layout {layout} is for images with three axes, not of shape {list(images.shape[before:])}")
    return images.transpose(*range(before), *(before + axis for axis in axes))


def axes_hint(shape: tuple[int, ...]) -> str:
    """What to try if a model fails on images that look channels-last, or like a batch of one; nothing for others."""
    if len(shape) == 4 and shape[0] == 1 and shape[1] <= MOST_CHANNELS:
        return f"; an image of shape {list(shape)} looks like a batch of one: give x[0]"
    if len(shape) == 3 and shape[2] <= MOST_CHANNELS < min(shape[:2]):
        return f"; images of shape {list(shape)} look channels-last: {try_layout('nhwc-to-nchw')}"
    return ""


def try_layout(layout: Layout) -> str:
    """The words to write, in Python and on the command line."""
    return f"try layout={layout!r} in Python, or --layout {layout}"
