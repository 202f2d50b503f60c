"""Data sets and loaders: read in their order, and rejected if they would give other images the next time."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from soundsmooth.data.load import load

X = np.random.default_rng(2).integers(0, 256, (20, 1, 4, 4), np.uint8)
Y = [i % 3 for i in range(20)]


class Rows(torch.utils.data.Dataset):
    """As people write them: a method for one row, and a length."""

    def __init__(self, change: Any = lambda image: image) -> None:
        self.change, self.reads = change, 0

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        self.reads += 1
        return self.change(torch.from_numpy(X[number]).float() / 255), Y[number]


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[tuple[np.ndarray, int]]:
        return iter(zip(X, Y, strict=True))


class Named:
    """Rows as dictionaries, as Hugging Face has them: a length, rows, an iterator, features and a shape."""

    features, shape = {"img": "Image", "fine_label": "ClassLabel", "coarse_label": "ClassLabel"}, (20, 3)

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"img": X[number], "fine_label": Y[number], "coarse_label": 0}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[number] for number in range(len(self)))


SOURCES = {
    "rows": Rows(),
    "tensors": TensorDataset(torch.from_numpy(X), torch.tensor(Y)),
    "names": Named(),
    "a part": Subset(Rows(), range(20)),
    "a stream": Stream(),
    "a loader": DataLoader(Rows(), batch_size=7),
    "a loader without batches": DataLoader(Rows(), batch_size=None),
    "a loader of names": DataLoader(Named(), batch_size=6),
    "a loader of a stream": DataLoader(Stream(), batch_size=6),
    "a loader of labels [N, 1]": DataLoader(TensorDataset(torch.from_numpy(X), torch.tensor(Y)[:, None]), batch_size=3),
}


@pytest.mark.parametrize("name", SOURCES)
def test_images_and_labels_in_their_order(name: str) -> None:
    data = load(SOURCES[name])
    assert np.array_equal(np.stack(data.levels), X)
    assert data.labels == tuple(Y)
    assert data.indices == tuple(range(20))


def test_images_alone() -> None:
    assert load(TensorDataset(torch.from_numpy(X))).labels == (None,) * 20
    assert load(DataLoader(TensorDataset(torch.from_numpy(X)), batch_size=6)).labels == (None,) * 20


def test_only_rows_that_are_wanted_are_read() -> None:
    rows = Rows()
    assert load(rows, every=7, limit=2).indices == (0, 7)
    assert rows.reads == 2 * 16 + 2  # twice sixteen to compare, then each once


def test_names_of_the_parts() -> None:
    assert load(Named(), y_key="coarse_label").labels == (0,) * 20
    with pytest.raises(ValueError, match="it has no 'photo', only 'img', 'fine_label', 'coarse_label'"):
        load(Named(), x_key="photo")


def flip(image: torch.Tensor) -> torch.Tensor:
    return image.flip(-1) if random.random() < 0.5 else image


@pytest.mark.parametrize("make", [Rows, lambda change: DataLoader(Rows(change), batch_size=4)])
def test_augmented_images_are_rejected(make: Any) -> None:
    """A flip with probability 1/2 stays unseen with probability 2⁻¹⁶: no image here is its own mirror image."""
    assert all(not np.array_equal(image, image[..., ::-1]) for image in X[:16])
    with pytest.raises(ValueError, match=r"is another one each time it is read.*without random steps"):
        load(make(flip))


def test_augmentation_is_seen_in_few_images_as_well() -> None:
    with pytest.raises(ValueError, match="is another one each time"):
        load(Rows(flip), limit=1)


class Shuffled(Stream):
    def __iter__(self) -> Iterator[tuple[np.ndarray, int]]:
        rows = list(zip(X, Y, strict=True))
        random.shuffle(rows)
        return iter(rows)


@pytest.mark.parametrize(
    ("loader", "text"),
    [
        (DataLoader(Rows(), batch_size=4, shuffle=True), "the loader shuffles.*shuffle=False, or pass loader.dataset"),
        (DataLoader(Subset(Rows(), [0]), shuffle=True), "the loader shuffles"),
        (DataLoader(Rows(), sampler=torch.utils.data.WeightedRandomSampler([1.0] * 20, 20)), "the loader shuffles"),
        (DataLoader(Rows(), sampler=torch.utils.data.SubsetRandomSampler(range(20))), "the loader shuffles"),
        (DataLoader(Rows(), sampler=range(19, -1, -1)), "an order of its own"),
        (DataLoader(Rows(), batch_sampler=[[1, 0], [2, 3]]), "an order of its own"),
        (DataLoader(Rows(), batch_size=6, drop_last=True), "leaves out the last 2 of 20 images: .*drop_last=False"),
        (DataLoader(Stream(), batch_size=6, drop_last=True), "may leave out the last images, unseen"),
        (DataLoader(Shuffled(), batch_size=4), "is another one each time"),
        (Shuffled(), "is another one each time"),
    ],
)
def test_an_order_that_is_not_the_data_sets_is_rejected(loader: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        load(loader)


def broken(image: torch.Tensor) -> torch.Tensor:
    if torch.equal(image, torch.from_numpy(X[17]).float() / 255):
        raise OSError("cannot identify image file")
    return image


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (Rows(broken), "image 17 cannot be read: OSError: cannot identify image file"),
        (DataLoader(Rows(broken), batch_size=4), "breaks off after 4 rows or batches: OSError: cannot identify"),
        (DataLoader(Rows(broken), batch_size=4, collate_fn=lambda rows: 5), "the batch of image 0"),
        (DataLoader(Rows(), batch_size=4, collate_fn=lambda rows: ([0, 1], [0])), "2 images and 1 labels"),
    ],
)
def test_what_breaks_is_said(source: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        load(source)
