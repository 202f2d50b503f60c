"""What goes in: arrays, tensors and lists, with and without labels; the same levels make the same promise."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import soundsmooth as ss
from classifiers import brightness
from soundsmooth.certification.promise import Inputs
from soundsmooth.core.grid import IMAGES, Grid
from soundsmooth.data import items
from soundsmooth.data.load import load, open_all
from soundsmooth.runs import pipeline

X = np.random.default_rng(1).integers(0, 256, (6, 3, 4, 5), np.uint8)
Y = [2, 0, 1, 1, 0, 2]


def smoother(**options: Any) -> ss.Smoother:
    return ss.Smoother(brightness, "0.25", independence="assumed", **options)


def generated() -> Iterator[tuple[np.ndarray, int]]:
    yield from zip(X, Y, strict=True)


SOURCES = {
    "array": X,
    "wide integers": X.astype(">i8"),
    "other order in memory": np.asfortranarray(X),
    "tensor": torch.from_numpy(X),
    "tensor with gradient": (torch.from_numpy(X) / 255).requires_grad_(),
    "tensor, channels last": torch.from_numpy(X).contiguous(memory_format=torch.channels_last),
    "floats": X / np.float32(255),
    "list of arrays": list(X),
    "tuple of arrays": tuple(X),
    "list of tensors": list(torch.from_numpy(X)),
    "list of lists": X.tolist(),
    "list of pictures": [Image.fromarray(each.transpose(1, 2, 0)) for each in X],
    "list of pairs": list(zip(X, Y, strict=True)),
    "list of dictionaries": [{"image": x, "label": y} for x, y in zip(X, Y, strict=True)],
    "dictionary of arrays": {"x": X, "y": np.array(Y)},
    "dictionary of tensors": {"images": torch.from_numpy(X), "labels": torch.tensor(Y)[:, None]},
    "generator": None,
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_same_levels_make_the_same_promise(name: str) -> None:
    source = generated() if SOURCES[name] is None else SOURCES[name]
    labelled = name.startswith("dictionary") or name in ("generator", "list of pairs", "list of dictionaries")
    promise = smoother().commit(source, None if labelled else Y, seed="s", n=10)
    by_hand = Inputs(range(6), [IMAGES.on_grid(image) for image in X], Y)
    assert promise.values["inputs"] == by_hand.digest()
    assert promise == smoother().commit(X, Y, seed="s", n=10)


def test_a_generator_is_certified() -> None:
    """A run names its data by the type, and a generator has no name of its own."""
    run = smoother().certify_all(((x, y % 2) for x, y in generated()), seed="s", n=10, n0=5)
    assert [each.truth for each in run] == [y % 2 for y in Y]


@pytest.mark.parametrize(
    ("many", "said"),
    [("photos/1.png", r"PIL.Image.open\('photos/1.png'\)"), (Path("x.npy"), "PIL.Image.open"),
     (torch.utils.data.DataLoader(list(X)), "DataLoader .* certify_all takes data sets"),
     (torch.utils.data.TensorDataset(torch.from_numpy(X)), "TensorDataset .* certify_all takes data sets"),
     (load(X), "Inputs .* certify_all takes data sets")],
    ids=["text", "path", "loader", "data set", "loaded"],
)  # fmt: skip
def test_many_images_are_not_one(many: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        smoother().certify(many)


def test_what_was_loaded_is_taken_as_it_is() -> None:
    data = ss.load(X, labels=[1, 0, 1, 1, 0, 0], every=2)
    assert repr(data) == "<3 images of shape [3, 4, 5], with labels>"
    run = smoother().certify_all(data, n=10)
    assert [each.index for each in run] == [0, 2, 4]
    assert [each.truth for each in run] == [1, 1, 0]
    assert load(data) is data
    with pytest.raises(ValueError, match="give labels, layout, every, limit and the other options"):
        smoother().certify_all(data, Y)
    with pytest.raises(ValueError, match="loaded for another grid"):
        smoother(grid=Grid(16, 15)).commit(data, seed="s")


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (Y[:5], "6 images and 5 labels do not match"),
        ([*Y, 1], "6 images and 7 labels do not match"),
        (np.eye(3, dtype=int)[Y], r"look one-hot: give y\.argmax\(axis=1\)"),
        (np.array(Y, float), "image 0: label must be an integer, not .*2.0"),
        (["cat"] * 6, "image 0: label must be an integer, not 'cat'"),
        ([0, 1, -1, 0, 0, 0], "image 2: label -1 is no class"),
        ([0, 1, 2**63, 0, 0, 0], "image 2: label 9223372036854775808 is no class"),
        ([0, True, 0, 0, 0, 0], "image 1: label must be an integer, not True"),
        ("012345", "one for each image, not '012345'"),
        (5, "one for each image, not 5"),
    ],
)
def test_labels_that_are_none(labels: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        load(X, labels=labels)


@pytest.mark.parametrize(
    "labels", [Y, np.array(Y), np.array(Y, np.uint8)[:, None], torch.tensor(Y), torch.tensor(Y)[:, None]]
)
def test_labels_in_the_usual_forms(labels: Any) -> None:
    assert load(X, labels=labels).labels == tuple(Y)
    assert load(X, labels=labels, every=4).labels == (2, 0)


def test_labels_for_what_has_no_length() -> None:
    bare = [x for x, _ in generated()]
    assert load(iter(bare), labels=Y).labels == tuple(Y)
    assert load(iter(bare), labels=Y, limit=2).labels == (2, 0)
    for wrong in (Y[:4], [*Y, 0]):
        with pytest.raises(ValueError, match="labels do not match the images"):
            load(iter(bare), labels=wrong)


def test_given_labels_count_instead_of_the_sources() -> None:
    assert load(list(zip(X, Y, strict=True)), labels=[5] * 6).labels == (5,) * 6


@pytest.mark.parametrize("source", [X, list(X), iter(X), list(zip(X, Y, strict=True)), torch.from_numpy(X)], ids=type)
def test_names_for_what_has_none(source: Any) -> None:
    with pytest.raises(ValueError, match="y_key='label' is for data with names"):
        load(source, y_key="label")


LEVELS = X / np.float32(255)
#: The floats of image 4 are within rounding of the grid, and not on it.
NEARLY = np.where(np.arange(6)[:, None, None, None] == 4, np.nextafter(LEVELS, np.float32(2)), LEVELS)


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (X, {}),
        (X, {"every": 2, "limit": 2}),
        (X, {"layout": "nhwc-to-nchw"}),
        (LEVELS, {}),
        (NEARLY, {"every": 2}),
        (X.reshape(6, -1)[:, :1], {}),
        (X.reshape(6, -1)[:, 0], {}),
        (X.reshape(6, -1).view(np.matrix), {}),
    ],
)
@pytest.mark.parametrize("elements", [1, 2 * X[0].size, 1 << 20])
def test_rows_that_are_read_together_are_the_same(
    elements: int, source: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of an array are read several at once, or each alone where one pays for rounding: with the same result
    as those of a list.
    """
    monkeypatch.setattr(items, "ELEMENTS_TOGETHER", elements)
    together, alone = (load(each, labels=np.array(Y), **options) for each in (source, list(source)))
    assert together.digest() == alone.digest()
    assert (together.indices, together.labels, together.shape) == (alone.indices, alone.labels, alone.shape)
    assert together.rounded == alone.rounded
    assert bool(together.rounded) == (source is NEARLY)
    assert together.given(IMAGES) == alone.given(IMAGES)


@pytest.mark.parametrize("elements", [1, 2 * X[0].size, 1 << 20])
def test_rows_that_are_read_together_are_named_one_by_one(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "ELEMENTS_TOGETHER", elements)
    off = LEVELS.copy()
    off[3, 1, 2, 0] = 0.5
    with pytest.raises(ValueError, match=r"^image 3: pixel \(1, 2, 0\) is 0\.5"):
        load(off)
    for label in (-1, 1 << 63):
        with pytest.raises(ValueError, match=f"^image 5: label {label} is no class"):
            load(X, labels=np.array([*Y[:5], label], dtype=np.int64 if label < 0 else np.uint64))
    with pytest.raises(ValueError, match=r"^image 0: .* are for image files"):
        load(X, crop=2)


@pytest.mark.parametrize(("every", "limit", "numbers"), [(1, None, range(6)), (2, None, (0, 2, 4)), (4, 1, (0,))])
@pytest.mark.parametrize("make", [lambda: X, lambda: list(X), lambda: iter(X)])
def test_images_keep_their_numbers(make: Any, every: int, limit: int | None, numbers: Any) -> None:
    data = load(make(), every=every, limit=limit)
    assert data.indices == tuple(numbers)
    assert np.array_equal(np.stack(data.levels), X[list(numbers)])


@pytest.mark.parametrize(
    "bad", [{"every": 0}, {"limit": 0}, {"every": 1.5}, {"layout": "chw"}, {"resize": 0}, {"crop": -1}]
)
def test_options_that_cannot_be(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        load(X, **bad)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ([X[0], X[1][:, :3]], r"image 1: its shape is \[3, 3, 5\], and that of image 0 is \[3, 4, 5\].*the same shape"),
        ([Image.new("RGB", (4, 4)), Image.new("L", (4, 4))], r'image 1: .* some are grey: .*image\.convert\("RGB"\)'),
        ([Image.new("RGB", (4, 4)), Image.new("RGB", (4, 5))], "image 1: .*resize= and crop= make them equal"),
        ((X, np.array(Y)), r"image 1: .* if these are labels, give them apart, as labels="),
        ([X[0], X[1] + 0.5], "image 1: pixel"),
        ([X[0], None], "image 1: the image has dtype object"),
        ([X[0], np.ma.masked_array(X[1], X[1] > 9)], "image 1: the image is a masked array"),
        ([X[0], (X[1], 1, 2)], "image 1 cannot be read: .*it has 3 parts"),
        ([X[0], {"photo": X[1]}], "image 1 cannot be read: .*which of 'photo' is the image"),
        ([{"image": X[0], "img": X[1]}], "is the image 'image' or 'img'"),
        (Image.new("RGB", (4, 4)), "this is one image"),
        ({"train": [X[0]], "test": [X[1]]}, r"'train', 'test': pass one data set, such as data\['test'\]"),
        ([], "there is no image"),
        (X[:0], "there is no image"),
        (5, "data of type int cannot be read: pass arrays, tensors"),
        (torch.zeros(2, 3, dtype=torch.bfloat16), "bfloat16 is too coarse"),
        (torch.zeros(2, 3).to_sparse(), "cannot be read as an array|image 0"),
    ],
)
def test_what_is_broken_is_named(source: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        load(source)


def test_a_broken_item_ends_it_before_any_vote() -> None:
    calls = []

    def counted(batch: np.ndarray) -> np.ndarray:
        calls.append(1)
        return brightness(batch)

    with pytest.raises(ValueError, match="image 1"):
        ss.Smoother(counted, "0.25").certify_all([X[0], X[1] + 0.5], n=10)
    assert not calls


def test_a_run_in_the_layout_of_the_model() -> None:
    last = X.transpose(0, 2, 3, 1)
    promise = smoother().commit(X, seed="s", n=10)
    assert smoother(layout="nhwc-to-nchw").commit(last, seed="s", n=10) == promise
    assert smoother().commit(ss.load(last, layout="nhwc-to-nchw"), seed="s", n=10) == promise
    certificate = smoother(layout="nhwc-to-nchw").certify(last[0], n=10)
    assert certificate.promise.values["input shape"] == "3 4 5"
    assert smoother(layout="nhwc-to-nchw").predict(last[0], n=10).n == 10
    with pytest.raises(ValueError, match="layout must be one of"):
        smoother(layout="hwc")


def test_torch_users_get_the_hint_for_channels_last() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.Flatten(), torch.nn.Linear(2 * 6 * 6, 2))
    smooth = ss.Smoother(net, "0.25", independence="assumed")
    with pytest.raises(ValueError, match="look channels-last: try layout='nhwc-to-nchw' in Python, or --layout"):
        smooth.certify(np.zeros((8, 8, 3), np.uint8), n=10)


def test_a_lone_picture() -> None:
    picture = Image.fromarray(X[0].transpose(1, 2, 0))
    certificate = smoother().certify(picture, n=10, seed="s")
    assert certificate.promise == smoother().certify(X[0], n=10, seed="s").promise
    assert certificate.environment["data"].startswith("pictures by Pillow")


def test_a_label_that_is_no_class_is_an_error(tmp_path: Path) -> None:
    """It would only show as a bad result."""
    text = "label 2 is no class of the model: its classes are 0 to 1"
    with pytest.raises(ValueError, match=text):
        smoother().certify_all(X, Y, n=10)
    path = tmp_path / "run.db"
    with pytest.raises(ValueError, match=f"{text}.*; delete '{path}', which holds no votes yet, and begin again"):
        smoother().certify_all(X, Y, n=10, out=path)
    path.unlink()
    assert len(smoother().certify_all(X, [0] * 6, n=10, out=path)) == 6
    with pytest.raises(ValueError, match=text):
        smoother().certify(X[0], label=2, n=10)
    assert smoother().certify(X[0], label=1, n=10).truth == 1


def test_a_run_that_began_with_such_labels_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before they were an error, they were promised."""

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as before:
        before.setattr(pipeline, "check_labels", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            smoother().certify_all(X, Y, n=10, out=tmp_path / "run.db", on_result=stop)
    assert len(smoother().certify_all(X, Y, n=10, out=tmp_path / "run.db")) == 6


def test_where_the_values_come_from_is_beside_the_certificate_and_not_promised(tmp_path: Path) -> None:
    pictures = [Image.fromarray(each.transpose(1, 2, 0)) for each in X]
    resized = ss.load(pictures, resize=3, crop=3)
    assert resized.shape == (3, 3, 3)
    run = smoother().certify_all(resized, n=10, out=tmp_path / "run.db", seed="s")
    (line,) = {each.environment["data"] for each in run}
    assert line.endswith(", resize=3, crop=3")
    arrays = np.stack(resized.levels)
    assert run.promise == smoother().commit(arrays, n=10, seed="s")
    assert "data" not in smoother().certify(arrays[0], n=10).environment
    assert ss.verify(tmp_path / "run.db", data=resized).ok
    assert not ss.verify(tmp_path / "run.db", data=ss.load(pictures, resize=4, crop=3)).ok


class Counted(list[np.ndarray]):
    """Images that note which of them were read. The last one is no image."""

    def __init__(self) -> None:
        super().__init__([*X, np.full(X[0].shape, 0.3)])
        self.read: set[int] = set()

    def __getitem__(self, number: int) -> np.ndarray:  # type: ignore[override]
        self.read.add(number)
        return super().__getitem__(number)


def test_images_that_are_asked_for_by_number_are_read_and_no_others() -> None:
    source = Counted()
    opened = open_all(source, labels=[*Y, 0])
    assert len(opened) == 7
    found = opened.pick([4, 1])
    assert source.read == {4, 1}
    assert (found.indices, found.labels) == ((4, 1), (Y[4], Y[1]))
    assert np.array_equal(np.stack(found.levels), X[[4, 1]])
    with pytest.raises(ValueError, match=r"^image 6: pixel .* is not on the grid"):
        opened.pick([0, 6])


@pytest.mark.parametrize("source", [X, list(X), iter(X), torch.from_numpy(X), load(X), LEVELS, NEARLY])
def test_some_of_all_images_are_those_of_all(source: Any) -> None:
    numbers = [5, 4, 0]
    some, all_of_them = open_all(source).pick(numbers), load(NEARLY if source is NEARLY else X)
    picked = all_of_them.pick(numbers)
    assert some.indices == picked.indices == tuple(numbers)
    assert some.digest() == picked.digest()
    assert some.rounded == picked.rounded


def test_the_auditors_data_is_all_of_it(tmp_path: Path) -> None:
    smoother().certify_all(ss.load(X, every=2), n=10, out=tmp_path / "run.db")
    assert ss.verify(tmp_path / "run.db", data=X).ok
    others_off = np.where(np.arange(6)[:, None, None, None] % 2, np.float32(0.3), LEVELS)
    assert ss.verify(tmp_path / "run.db", data=others_off).ok  # nothing is said of images that the run has not
    with pytest.raises(ValueError, match="all of it: load it without every and limit"):
        ss.verify(tmp_path / "run.db", data=ss.load(X, every=2))


@pytest.mark.parametrize(
    "labels",
    [
        dict(enumerate(Y)),
        {7, 8, 9, 10, 11, 12},
        np.array(3),
        np.ma.array(Y, mask=[0, 1, 0, 0, 0, 0]),
        np.zeros((0, 2), int),
    ],
    ids=["by number", "a set", "one", "masked", "none"],
)
def test_labels_without_an_order_or_under_a_mask(labels: Any) -> None:
    """Keys of a dictionary, the order of a set and what lies under a mask would count as labels."""
    with pytest.raises(ValueError, match="labels"):
        load(X, labels=labels)


@pytest.mark.parametrize("late", [{"labels": Y}, {"every": 2}, {"limit": 1}])
def test_choices_for_data_that_was_loaded_before(late: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"give labels, layout, every, limit and the other options to ss\.load"):
        load(load(X), **late)
