"""Data files by themselves: whatever is wrong with an .npz is said in one line, which names the file and the array."""

import io
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from soundsmooth.core.grid import IMAGES
from soundsmooth.data.load import load

X = np.arange(32, dtype=np.uint8).reshape(2, 1, 4, 4)
Y = np.array([3, 1])


def npy(array: np.ndarray) -> bytes:
    """The array as a member of an .npz."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    return file.getvalue()


def header(text: str, version: int = 1) -> bytes:
    """A member with this header, and one byte of values."""
    return (
        b"\x93NUMPY"
        + bytes((version, 0))
        + struct.pack("<H" if version == 1 else "<I", len(text))
        + text.encode()
        + b"\0"
    )


def of_shape(shape: object) -> bytes:
    return header(f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}")


def written(folder: Path, *members: tuple[str, bytes]) -> Path:
    path = folder / "data.npz"
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "w") as file:  # it warns of names given twice
        for name, content in members:
            file.writestr(name, content)
    return path


DAMAGE = {
    "junk": b"junk",
    "nothing": b"",
    "only the magic": b"\x93NUMPY",
    "a version that is none": b"\x93NUMPY\x09\x00" + npy(X)[8:],
    "values cut short": npy(X)[:-5],
    "header cut short": npy(X)[:20],
    "a long header": header("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1)}" + " " * 20_000, version=2),
    "a header longer than the file": b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
    "a header that is no dictionary": header("[1, 2]"),
    "a header without an end": header("{'descr': '''"),
    "brackets without an end": header("((((("),
    "a deep header": header("-" * 9000 + "1"),
    "more values than there is memory": of_shape((2, 9_999_999_999_999_999)),
    "sizes beyond all integers": of_shape((1 << 80, 2)),
    "negative sizes": of_shape((-1, 2)),
    "a type that is none": header("{'descr': 'banana', 'fortran_order': False, 'shape': (1, 1)}"),
    "pickled objects": npy(np.array([[{}]], object)),
}


@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_array_is_named_with_its_file(damage: str, name: str, tmp_path: Path) -> None:
    members = {"x.npy": npy(X), "y.npy": npy(Y), f"{name}.npy": DAMAGE[damage]}
    path = written(tmp_path, *members.items())
    with pytest.raises(ValueError, match=f"^\"{name}\" in '{path}' cannot be read: .*$") as error:
        load(path, grid=IMAGES)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("second", ["x.npy", "x"])
def test_two_arrays_of_one_name_are_refused(second: str, tmp_path: Path) -> None:
    """Which of them is meant depends on who reads the file."""
    path = written(tmp_path, ("x.npy", npy(X)), (second, npy(X + 1)))
    with pytest.raises(ValueError, match='holds "x" more than once'):
        load(path, grid=IMAGES)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 no zip", b"\x80\x04N.", b"\x93NUMPY\x01"])
def test_a_file_that_is_no_npz(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^'{path}' cannot be read: .* an .npz of plain arrays without pickled"):
        load(path, grid=IMAGES)


@pytest.mark.parametrize(
    "kind", ["?", "c16", "U3", "S3", "M8[s]", "m8[s]", "V4", [("a", "u1"), ("b", "f4")]], ids=lambda kind: str(kind)[:4]
)
def test_images_of_other_kinds_are_refused(kind: object, tmp_path: Path) -> None:
    path = written(tmp_path, ("x.npy", npy(np.zeros((2, 3), kind))))
    with pytest.raises(ValueError, match=r"data\.npz, image 0: the image has dtype"):
        load(path, grid=IMAGES)


@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (2, 0)])
def test_there_must_be_images_and_pixels(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = written(tmp_path, ("x.npy", npy(np.zeros(shape, np.uint8))))
    with pytest.raises(ValueError, match=r'"x" in data.npz must be \[images, …\]'):
        load(path, grid=IMAGES)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["u1", "<i2", ">i4", ">u8"])
def test_order_and_width_of_the_integers_do_not_matter(order: str, kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, ("x.npy", npy(np.asarray(X.astype(kind), order=order))), ("y.npy", npy(Y)))
    inputs = load(path, grid=IMAGES)
    assert np.array_equal(np.stack(inputs.levels), X)
    assert inputs.labels == (3, 1)


@pytest.mark.parametrize(
    ("arrays", "keys", "labels"),
    [
        ({"x": X, "y": Y}, {}, (3, 1)),
        ({"x": X, "y": Y[:, None]}, {}, (3, 1)),
        ({"images": X, "labels": Y}, {}, (3, 1)),
        ({"x_train": X + 1, "y_train": Y + 1, "x_test": X, "y_test": Y}, {}, (3, 1)),
        ({"data": X}, {}, (None, None)),
        ({"photos": X, "target": Y}, {}, (3, 1)),
        ({"photos": X, "others": X + 1, "who": Y}, {"x_key": "photos", "y_key": "who"}, (3, 1)),
        ({"x": X + 1, "photos": X, "y": Y}, {"x_key": "photos"}, (3, 1)),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else None,
)
def test_arrays_of_other_names(arrays: dict, keys: dict, labels: tuple, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **arrays)
    for source in (tmp_path / "data.npz", arrays):
        data = load(source, **keys)
        assert np.array_equal(np.stack(data.levels), X)
        assert data.labels == labels


def test_arrays_that_may_be_labels_are_not_left_out_silently(tmp_path: Path) -> None:
    arrays = {"photos": X, "others": np.stack([X, X]), "who": Y}
    np.savez(tmp_path / "data.npz", **arrays)
    for source in (tmp_path / "data.npz", arrays):
        with pytest.warns(UserWarning, match="without labels, .*; 'who' may hold them: y_key='who', or --y-key who"):
            assert load(source, x_key="photos").labels == (None, None)


@pytest.mark.parametrize(
    ("arrays", "keys", "text"),
    [
        ({"a": X, "b": X}, {}, r"""images as "x" \(and the labels as "y"\), not as 'a', 'b'; or name them: x_key="""),
        ({"a": X}, {"x_key": "b"}, "has no 'b', not as 'a': name another with x_key"),
        ({"x": X}, {"y_key": "y"}, "has no 'y'"),
        ({"a": X, "y": Y, "label": Y}, {}, "which of 'y', 'label' are the labels"),
        ({"x": X, "y": np.eye(4, dtype=int)[Y]}, {}, r"one integer label for each of the 2 images, .*y\.argmax"),
        ({"x": X, "y": Y.astype(float)}, {}, "one integer label"),
        ({"x": X, "y": Y[:1]}, {}, "one integer label"),
        ({"x": X, "y": np.array([3, -1])}, {}, "image 1: label -1 is no class"),
    ],
)
def test_which_array_is_which_is_asked(arrays: dict, keys: dict, text: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(ValueError, match=text):
        load(tmp_path / "data.npz", **keys)


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(order: str, tmp_path: Path) -> None:
    path = tmp_path / "images.npy"
    np.save(path, np.asarray(X, order=order))
    assert np.array_equal(np.stack(load(path, labels=Y).levels), X)
    assert load(path, labels=Y).labels == (3, 1)
    with pytest.raises(ValueError, match="x_key='x' is for data with names"):
        load(path, x_key="x")


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_npy_is_named(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "images.npy"
    path.write_bytes(DAMAGE[damage])
    with pytest.raises(ValueError, match=r"images\.npy") as error:
        load(path)
    assert "\n" not in str(error.value)


def test_labels_of_other_images_are_not_taken(tmp_path: Path) -> None:
    x, path = np.zeros((2, 1, 2, 2), np.uint8), tmp_path / "d.npz"
    np.savez(path, x=x, x_test=x, y_test=[3, 4])
    assert load(path).labels == (None, None)
    assert load(path, x_key="x_test").labels == (3, 4)
