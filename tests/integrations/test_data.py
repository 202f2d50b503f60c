"""Data of torchvision and Hugging Face: real folders, transforms, loaders and data sets give the levels of `load`.

Not part of the ordinary tests: `make test-integrations` runs it.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from soundsmooth.certification.promise import Inputs
from soundsmooth.data.load import load

CLASSES = ("Emu", "cat", "dog")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of many sizes, some grey, some JPEG."""
    root, chance = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for name in CLASSES:
        (root / name).mkdir()
        for number in range(6):
            width, height = chance.integers(33, 90, 2)
            picture = Image.fromarray(chance.integers(0, 256, (height, width, 3), np.uint8))
            path = root / name / f"{number}.{'png' if number % 2 else 'jpg'}"
            (picture.convert("L") if number == 3 else picture).save(path)
    return root


@pytest.fixture(scope="module")
def ours(folder: Path) -> Inputs:
    return load(folder, resize=32, crop=27)


@pytest.mark.parametrize("last", ["PILToTensor", "ToTensor"])
def test_a_folder_is_what_torchvision_makes_of_it(folder: Path, ours: Inputs, last: str) -> None:
    pytest.importorskip("torchvision")
    from torchvision import datasets, transforms

    steps = [transforms.Resize(32), transforms.CenterCrop(27), getattr(transforms, last)()]
    theirs = datasets.ImageFolder(folder, transforms.Compose(steps))
    assert load(theirs).digest() == ours.digest()
    assert load(torch.utils.data.DataLoader(theirs, batch_size=4, num_workers=1)).digest() == ours.digest()


@pytest.mark.parametrize("name", ["RandomHorizontalFlip", "RandomResizedCrop", "AutoAugment"])
def test_augmentation_is_rejected(folder: Path, name: str) -> None:
    """A flip stays unseen with probability 2⁻¹⁶; the other two are seen almost surely."""
    pytest.importorskip("torchvision")
    from torchvision import datasets, transforms

    change = transforms.RandomResizedCrop(32) if name == "RandomResizedCrop" else getattr(transforms, name)()
    steps = [transforms.Resize((32, 32)), change, transforms.ToTensor()]
    with pytest.raises(ValueError, match="another one each time"):
        load(datasets.ImageFolder(folder, transforms.Compose(steps)))


def test_hugging_face(folder: Path, ours: Inputs, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.load_dataset("imagefolder", data_dir=str(folder), split="train", cache_dir=str(tmp_path))
    with pytest.raises(ValueError, match="some are grey"):
        load(rows, resize=32, crop=27)
    coloured = rows.cast_column("image", datasets.Image(mode="RGB"))
    assert load(coloured, resize=32, crop=27).digest() == ours.digest()
    assert load(coloured.to_iterable_dataset(), resize=32, crop=27).digest() == ours.digest()
    with pytest.raises(ValueError, match=r"pass one data set, such as data\['test'\]"):
        load(datasets.DatasetDict(train=rows, test=rows))
