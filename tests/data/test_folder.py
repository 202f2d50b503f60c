"""Folders of images: classes by the names of folders, one shape, one number of channels, and errors that name files."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import soundsmooth as ss
from soundsmooth.data.load import load

PIXELS = np.random.default_rng(3).integers(0, 256, (8, 6, 7, 3), np.uint8)


def picture(path: Path, number: int, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(PIXELS[number]).convert(mode).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(["dog/2.png", "dog/10.PNG", "Cat/b.bmp", "Cat/deep/a.png", "Cat/.hidden.png"]):
        picture(tmp_path / name, number)
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    (tmp_path / ".cache").mkdir()
    (tmp_path / "classes.txt").write_text("no image")
    return tmp_path


def test_classes_have_the_sorted_order_of_their_names(folder: Path) -> None:
    data = load(folder)
    assert np.array_equal(np.stack(data.levels), PIXELS[[2, 3, 1, 0]].transpose(0, 3, 1, 2))
    assert data.labels == (0, 0, 1, 1)  # Cat before dog, and b.bmp before a deeper folder
    assert data.origin.startswith("pictures by Pillow ")
    assert load(folder, every=3).indices == (0, 3)
    assert load(folder, labels=[7, 7, 7, 8]).labels == (7, 7, 7, 8)
    assert load(str(folder), layout="nchw-to-nhwc").shape == (6, 7, 3)


def test_a_flat_folder_has_no_labels(folder: Path) -> None:
    data = load(folder / "dog")
    assert np.array_equal(np.stack(data.levels), PIXELS[[1, 0]].transpose(0, 3, 1, 2))
    assert data.labels == (None, None)


def test_one_file(folder: Path) -> None:
    data = load(folder / "dog" / "2.png")
    assert np.array_equal(data.levels[0], PIXELS[0].transpose(2, 0, 1))


def test_grey_stays_grey_only_if_all_are(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 0, "L")
    picture(tmp_path / "b.png", 1, "1")
    assert load(tmp_path).shape == (1, 6, 7)
    picture(tmp_path / "c.png", 2, "P")
    assert load(tmp_path).shape == (3, 6, 7)
    assert load(tmp_path, limit=1).shape == (3, 6, 7)  # what is left out has its say


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-60])


def other_size(path: Path) -> None:
    Image.new("RGB", (9, 9)).save(path)


def sixteen_bits(path: Path) -> None:
    Image.fromarray(np.full((6, 7), 60_000, np.uint16)).save(path)


def two_frames(path: Path) -> None:
    frames = [Image.new("L", (7, 6), shade) for shade in (3, 200)]
    frames[0].save(path, save_all=True, append_images=frames[1:])


def postscript(path: Path) -> None:
    """Pillow would start Ghostscript for it."""
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 7 6\n%%EndComments\n")


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere.png")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (cut_short, "it cannot be decoded"),
        (lambda path: path.write_bytes(b"junk"), "it cannot be decoded"),
        (lambda path: path.write_bytes(b""), "it cannot be decoded"),
        (other_size, r"its shape is \[3, 9, 9\], and that of a\.png is \[3, 6, 7\].*resize= and crop="),
        (sixteen_bits, r"more than eight bits \(mode I;16\)"),
        (two_frames, "it has 2 frames"),
        (postscript, "it cannot be decoded"),
        (dangling, "there is no image"),
        (pipe, "no plain file"),
    ],
)
def test_a_broken_file_is_named(damage: object, text: str, tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 0)
    picture(tmp_path / "b.png", 1)
    damage(tmp_path / "b.png")
    with pytest.raises(ValueError, match=rf"b\.png: .*{text}"):
        load(tmp_path)


def test_links_to_files_are_followed(tmp_path: Path) -> None:
    picture(tmp_path / "files" / "real.png", 0)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "a.png").symlink_to(tmp_path / "files" / "real.png")
    assert np.array_equal(load(tmp_path / "links").levels[0], PIXELS[0].transpose(2, 0, 1))


def test_folders_that_are_no_data_sets(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no image .* and no data set that is known"):
        load(tmp_path)
    picture(tmp_path / "train" / "cat" / "a.png", 0)
    picture(tmp_path / "val" / "cat" / "a.png", 0)
    with pytest.raises(ValueError, match=r"holds train, val: pass one of them, '.*val'"):
        load(tmp_path)
    (tmp_path / "val" / "dog").mkdir()
    with pytest.raises(ValueError, match=r"the class folder '.*dog' holds no image"):
        load(tmp_path / "val")
    picture(tmp_path / "val" / "loose.png", 0)
    with pytest.raises(ValueError, match=r"holds images and folders \('loose.png', 'cat'\)"):
        load(tmp_path / "val")
    with pytest.raises(ValueError, match="there is no data file"):
        load(tmp_path / "nowhere")


def test_a_file_of_no_known_kind(tmp_path: Path) -> None:
    (tmp_path / "data.h5").write_text("hello")
    with pytest.raises(ValueError, match=r"of no known kind: data are \.npz and \.npy files, folders of images"):
        ss.load(tmp_path / "data.h5")


def test_links_in_a_circle_are_told(tmp_path: Path) -> None:
    """Images would count more than once, and two such links would be followed for ever."""
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("L", (2, 2)).save(tmp_path / name / "1.png")
    (tmp_path / "cat" / "again").symlink_to(tmp_path / "cat")
    with pytest.raises(ValueError, match=r"links lead to '.*again' twice"):
        load(tmp_path)
