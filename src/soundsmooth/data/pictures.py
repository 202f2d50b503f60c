"""Pictures: what Pillow decodes, resized and cropped if that is asked for, as integers [channels, height, width].

The ball of a certificate lives after all this: it holds the arrays that come out of here, not the files.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..core.integers import integer
from ..core.plain_files import plain_file

if TYPE_CHECKING:
    from PIL import Image

#: What is read of a folder, and the decoders that may be used: none of them starts a program.
SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP")
#: No picture is resized to more pixels: Pillow opens none that has more.
MOST_PIXELS = 178_956_970
#: Greyscale as it is; all others become RGB, if eight bits are enough for them.
GREY = ("L", "1")
COLOURED = ("RGB", "RGBA", "RGBX", "P", "PA", "LA", "La", "RGBa", "CMYK", "YCbCr", "LAB", "HSV")


@dataclass(frozen=True)
class Pictures:
    """How pictures become arrays: the short side is resized to `resize` pixels, then `crop` × `crop` are taken.

    Guarantee: each value is an integer 0 … 255. The short side is resized with Pillow's bilinear filter and the crop is
    from the middle, with the rounding of torchvision's Resize and CenterCrop. Rotation by EXIF is ignored.
    """

    resize: int | None = None
    crop: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("resize", self.resize), ("crop", self.crop)):
            if value is not None and not 1 <= integer(value, name) <= 1 << 15:
                raise ValueError(f"{name} must be a number of pixels, not {value}")

    @property
    def words(self) -> list[str]:
        """What is done to a picture after it was decoded, as it is recorded."""
        steps = (("resize", self.resize), ("crop", self.crop))
        return [f"{name}={value}" for name, value in steps if value is not None]

    def array(self, picture: Any) -> npt.NDArray[np.uint8]:
        """The picture as integers, channels first; a ValueError of one line for one that cannot be decoded."""
        with _plainly():
            made = np.asarray(self._cropped(self._resized(in_eight_bits(picture))), np.uint8)
        return made[None] if made.ndim == 2 else made.transpose(2, 0, 1)

    def _resized(self, picture: "Image.Image") -> "Image.Image":
        if self.resize is None or min(picture.size) == self.resize:
            return picture
        short = min(picture.size)
        size = (int(self.resize * picture.width / short), int(self.resize * picture.height / short))
        if size[0] * size[1] > MOST_PIXELS:
            raise ValueError(
                f"resize={self.resize} would make {size[0]} × {size[1]} pixels of it: more than there may be"
            )
        return picture.resize(size, resample=2)  # bilinear

    def _cropped(self, picture: "Image.Image") -> "Image.Image":
        if self.crop is None:
            return picture
        if min(picture.size) < self.crop:
            raise ValueError(f"it has {picture.width} × {picture.height} pixels, too few for crop={self.crop}")
        left, top = round((picture.width - self.crop) / 2), round((picture.height - self.crop) / 2)
        return picture.crop((left, top, left + self.crop, top + self.crop))


def is_picture(image: object) -> bool:
    """Whether it is an image of Pillow, which is not imported for the answer."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(image, module.Image)


def decoder() -> str:
    """What decoded pictures, as it is recorded."""
    import PIL

    return f"pictures by Pillow {PIL.__version__}"


def in_eight_bits(picture: Any, mode: str | None = None) -> Any:
    """The picture in greyscale or in RGB; a ValueError where that would cut values off, or where decoding would."""
    if picture.mode not in GREY + COLOURED or _is_cut(picture):
        raise ValueError(
            f"it has more than eight bits (mode {picture.mode}): store it as an array, and certify on a finer grid"
        )
    return picture.convert(mode or ("L" if picture.mode in GREY else "RGB"))


def _is_cut(picture: Any) -> bool:
    """Whether decoding will cut sixteen bits of a colour to eight: Pillow has no mode for them, and says nothing.

    What was decoded before does not tell any more.
    """
    for codec, _, _, how in getattr(picture, "tile", ()):
        raw, *more = how if isinstance(how, tuple) else (how,)
        if codec.startswith("ppm") and more and more[0] > 255:  # the largest value
            return True
        if ";16" in str(raw) and not raw.startswith("BGR"):  # which is a BMP's, with sixteen bits for all three
            return True
    return False


@contextmanager
def opened(path: Path) -> "Iterator[Image.Image]":
    """The picture in a plain file. Whatever is wrong with it is a ValueError of one line."""
    image = pillow()
    with (
        _plainly(),
        plain_file(path.resolve(), "image") as file,
        image.open(file, formats=FORMATS) as picture,
    ):
        if getattr(picture, "n_frames", 1) != 1:
            raise ValueError(f"it has {picture.n_frames} frames, and an image has one")
        yield picture


@contextmanager
def _plainly() -> Iterator[None]:
    """Whatever goes wrong with a picture that anybody may have made is a ValueError of one line."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:  # of any decoder, on a file that anybody may have written
        raise ValueError(f"it cannot be decoded: {' '.join(str(error).split()) or type(error).__name__}") from None


def pillow() -> Any:
    """Pillow's module Image; a ValueError says how to get it."""
    try:
        from PIL import Image
    except ImportError:
        raise ValueError("image files are read with Pillow: pip install pillow") from None
    return Image
