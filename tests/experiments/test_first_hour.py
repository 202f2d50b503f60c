"""Scripts as people write them: they run with soundsmooth after at most three changed lines, which the page shows."""

import difflib
import runpy
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "first_hour"
NAMES = ["loader", "checkpoint", "vit"]
IMAGES = np.random.default_rng(20).integers(0, 256, (2, 1, 28, 28), np.uint8)


def changes(name: str) -> list[str]:
    before, after = ((FOLDER / f"{name}_{each}.py").read_text().splitlines() for each in ("before", "after"))
    compared = difflib.unified_diff(before, after, n=0, lineterm="")
    return [line for line in compared if not line.startswith(("---", "+++", "@@"))]


@pytest.mark.parametrize("name", NAMES)
def test_at_most_three_lines_change_and_the_page_shows_them(name: str) -> None:
    found = changes(name)
    assert 1 <= sum(line.startswith("+") for line in found) <= 3
    assert "```diff\n" + "\n".join(found) + "\n```" in (ROOT / "docs" / "from-smoothing.md").read_text()


def torchvision() -> dict[str, ModuleType]:
    """What the script uses of torchvision: two images, and a transform that makes of each what ToTensor does."""
    top, datasets, transforms = map(ModuleType, ("torchvision", "torchvision.datasets", "torchvision.transforms"))

    class FashionMNIST(torch.utils.data.Dataset):
        def __init__(self, root: str, train: bool, transform: object) -> None:
            self.transform = transform

        def __len__(self) -> int:
            return len(IMAGES)

        def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
            return self.transform(IMAGES[i]), i

    datasets.FashionMNIST, transforms.ToTensor = FashionMNIST, lambda: lambda image: torch.from_numpy(image).div(255)
    top.datasets, top.transforms = datasets, transforms
    return {each.__name__: each for each in (top, datasets, transforms)}


def run(name: str, *words: object) -> None:
    """The script, with what it imports from its folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        patch.setattr(sys, "argv", [name, *map(str, words)])
        for module, value in torchvision().items():
            patch.setitem(sys.modules, module, value)
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        for module in ("core", "network"):
            sys.modules.pop(module, None)


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    """A network that says 3 of every image, so that both procedures must."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        network = runpy.run_path(str(FOLDER / "network.py"))["Network"]()
    with torch.no_grad():
        network.layers[-1].bias[3] = 100
    return network.state_dict()


@pytest.mark.parametrize("which", ["before", "after"])
def test_a_loader(which: str, weights: dict[str, torch.Tensor], tmp_path: Path) -> None:
    torch.save(weights, tmp_path / "network.pt")
    run(f"loader_{which}", tmp_path / "network.pt", 0.25, tmp_path / "out.tsv", "--N0", 10, "--N", 200, "--batch", 100)
    head, *rows = (tmp_path / "out.tsv").read_text().splitlines()
    assert head == "idx\tlabel\tpredict\tradius\tcorrect\ttime"
    assert [row.split("\t")[:3] for row in rows] == [["0", "0", "3"], ["1", "1", "3"]]
    assert {row.split("\t")[3] for row in rows} == {"0.456"}  # 0.25 · Φ⁻¹(0.001^(1/200)) = 0.4564…


@pytest.mark.parametrize("which", ["before", "after"])
def test_a_checkpoint(
    which: str, weights: dict[str, torch.Tensor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, data = tmp_path / "checkpoint.pth.tar", tmp_path / "images.npz"
    torch.save({"epoch": 90, "state_dict": {f"module.{name}": each for name, each in weights.items()}}, path)
    np.savez(data, x=IMAGES)
    run(f"checkpoint_{which}", path, data, 1)
    prediction, radius = capsys.readouterr().out.split()
    assert prediction == "3"
    assert radius.startswith("0.6158156536")  # 0.25 · Φ⁻¹(0.001^(1/1000))
