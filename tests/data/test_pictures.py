"""Pictures: decoded, resized and cropped as torchvision does it; what cannot be eight bits is rejected."""

import io
import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

from soundsmooth.data.load import load
from soundsmooth.data.pictures import Pictures, is_picture, pillow

PIXELS = np.random.default_rng(4).integers(0, 256, (37, 50, 3), np.uint8)
WIDE = Image.fromarray(PIXELS)


def test_channels_come_first() -> None:
    assert np.array_equal(Pictures().array(WIDE), PIXELS.transpose(2, 0, 1))
    assert np.array_equal(Pictures().array(WIDE.convert("L")), np.asarray(WIDE.convert("L"))[None])


@pytest.mark.parametrize(
    ("mode", "channels"), [("L", 1), ("1", 1), ("RGB", 3), ("RGBA", 3), ("P", 3), ("CMYK", 3), ("YCbCr", 3), ("LA", 3)]
)
def test_modes(mode: str, channels: int) -> None:
    made = Pictures().array(WIDE.convert("L").convert(mode) if mode == "LA" else WIDE.convert(mode))
    assert made.shape == (channels, 37, 50)
    assert made.dtype == np.uint8


@pytest.mark.parametrize("mode", ["I", "F", "I;16"])
def test_more_than_eight_bits_are_rejected(mode: str) -> None:
    """Pillow would cut them off at 255."""
    with pytest.raises(ValueError, match="more than eight bits"):
        Pictures().array(Image.new(mode, (4, 4)))


def png(depth: int, colour: int, row: bytes) -> bytes:
    """A picture of 2 × 1 pixels."""
    size = struct.pack(">IIBBBBB", 2, 1, depth, colour, 0, 0, 0)
    parts = ((b"IHDR", size), (b"IDAT", zlib.compress(b"\0" + row)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(held)) + name + held + zlib.crc32(name + held).to_bytes(4, "big") for name, held in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def tiff(bits: int, raw: bytes) -> bytes:
    """A picture of 2 × 1 pixels in RGB, not compressed."""
    tags = (256, 2), (257, 1), (258, 122), (259, 1), (262, 2), (273, 128), (277, 3), (278, 1), (279, len(raw))
    entries = b"".join(struct.pack("<HHII", tag, 3, 3 if tag == 258 else 1, value) for tag, value in tags)
    return (
        b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + entries + bytes(4) + struct.pack("<3H", *[bits] * 3) + raw
    )


COLOURS = bytes(range(100, 116))


@pytest.mark.parametrize(
    "content",
    [
        png(16, 2, COLOURS[:12]),
        png(16, 6, COLOURS),
        png(16, 4, COLOURS[:8]),
        tiff(16, COLOURS[:12]),
        b"P6 2 1 65535\n" + COLOURS[:12],
        b"P6 2 1 256\n" + bytes(12),
    ],
    ids=["png", "png with alpha", "grey png with alpha", "tiff", "ppm", "ppm of nine bits"],
)
def test_colours_of_sixteen_bits_are_rejected(content: bytes) -> None:
    """Pillow has no mode for them, and decodes the upper eight."""
    assert Image.open(io.BytesIO(content)).mode in ("RGB", "RGBA")
    with pytest.raises(ValueError, match="image 0: it has more than eight bits"):
        load([Image.open(io.BytesIO(content))])


@pytest.mark.parametrize(
    "content",
    [png(8, 2, COLOURS[:6]), tiff(8, COLOURS[:6]), b"P6 2 1 255\n" + COLOURS[:6]],
    ids=["png", "tiff", "ppm"],
)
def test_colours_of_eight_bits_are_as_they_are(content: bytes) -> None:
    (levels,) = load([Image.open(io.BytesIO(content))]).levels
    assert levels.transpose(1, 2, 0).ravel().tolist() == [*COLOURS[:6]]


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "PPM"])
def test_long_rows_are_no_sixteen_bits(kind: str) -> None:
    file = io.BytesIO()
    WIDE.resize((300, 20)).save(file, kind)
    assert load([Image.open(file)]).shape == (3, 20, 300)


def test_a_strip_is_not_resized_to_more_than_memory_holds() -> None:
    with pytest.raises(ValueError, match="image 0: resize=224 would make 13440000 × 224 pixels of it"):
        load([Image.new("L", (60_000, 1))], resize=224, crop=224)


def test_a_picture_that_breaks_off_is_named() -> None:
    file = io.BytesIO()
    WIDE.save(file, "PNG")
    with pytest.raises(ValueError, match="image 1: it cannot be decoded: image file is truncated"):
        load([WIDE, Image.open(io.BytesIO(file.getvalue()[:900]))])


@pytest.mark.parametrize("size", [(50, 37), (37, 50), (37, 37)])
@pytest.mark.parametrize("resize", [20, 37, 64])
def test_the_short_side_is_resized(size: tuple[int, int], resize: int) -> None:
    """The long side is cut off to whole pixels, as torchvision's Resize does it."""
    channels, height, width = Pictures(resize=resize).array(WIDE.resize(size)).shape
    assert (channels, min(height, width), max(height, width)) == (3, resize, int(resize * max(size) / min(size)))
    assert (width > height) == (size[0] > size[1])


@pytest.mark.parametrize(("crop", "top", "left"), [(36, 0, 7), (34, 2, 8), (37, 0, 6), (1, 18, 24)])
def test_the_crop_is_from_the_middle(crop: int, top: int, left: int) -> None:
    """Half pixels are rounded to even, as torchvision's CenterCrop does it."""
    inside = PIXELS[top : top + crop, left : left + crop]
    assert np.array_equal(Pictures(crop=crop).array(WIDE), inside.transpose(2, 0, 1))


def test_what_cannot_be_cropped_or_resized() -> None:
    with pytest.raises(ValueError, match=r"image 0: it has 50 × 37 pixels, too few for crop=38"):
        load([WIDE], crop=38)
    with pytest.raises(ValueError, match=r"image 0: resize=8 and crop=4 are for image files.*of shape \[37, 50, 3\]"):
        load(PIXELS[None], resize=8, crop=4)


def test_exif_is_ignored() -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    file = io.BytesIO()
    WIDE.save(file, "PNG", exif=turned)
    assert np.array_equal(Pictures().array(Image.open(file)), PIXELS.transpose(2, 0, 1))


def test_pillow_is_asked_for_only_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "PIL.Image")
    assert not is_picture(WIDE)
    with pytest.raises(ValueError, match="pip install pillow"):
        pillow()
    assert len(load(PIXELS)) == 37
