"""The scripts of experiments/first_hour with the real torchvision and transformers, before and after the change.

Not part of the ordinary tests: `make test-integrations` runs it.
"""

import gzip
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

FOLDER = Path(__file__).parents[2] / "experiments" / "first_hour"


def run(name: str, *words: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        patch.setattr(sys, "argv", [name, *map(str, words)])
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        for module in ("core", "network"):
            sys.modules.pop(module, None)


def write_fashion_mnist(root: Path) -> None:
    """Two images, in the files that torchvision reads."""
    folder = root / "data" / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    images = np.random.default_rng(0).integers(0, 256, (2, 28, 28), np.uint8)
    sizes = b"".join(size.to_bytes(4, "big") for size in images.shape)
    for part in ("train", "t10k"):
        for name, content in {
            f"{part}-images-idx3-ubyte": b"\0\0\x08\x03" + sizes + images.tobytes(),
            f"{part}-labels-idx1-ubyte": b"\0\0\x08\x01" + (2).to_bytes(4, "big") + b"\3\4",
        }.items():
            (folder / name).write_bytes(content)
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))


@pytest.mark.parametrize("which", ["before", "after"])
def test_a_loader_of_torchvision(which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torchvision")
    write_fashion_mnist(tmp_path)
    monkeypatch.chdir(tmp_path)
    network = runpy.run_path(str(FOLDER / "network.py"))["Network"]()
    with torch.no_grad():
        network.layers[-1].bias[3] = 100
    torch.save(network.state_dict(), "network.pt")
    run(f"loader_{which}", "network.pt", 0.25, "out.tsv", "--N0", 10, "--N", 200, "--batch", 100)
    rows = [row.split("\t") for row in Path("out.tsv").read_text().splitlines()[1:]]
    assert [row[:4] for row in rows] == [["0", "3", "3", "0.456"], ["1", "4", "3", "0.456"]]


@pytest.mark.parametrize("which", ["before", "after"])
def test_a_vision_transformer_with_its_processor(
    which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Certified after the change: all 100 copies agree, so the radius is 0.25 · Φ⁻¹(0.001^(1/100)) less the price of
    floats that are near the grid, which is below 0.0001.
    """
    transformers = pytest.importorskip("transformers")
    from PIL import Image

    torch.manual_seed(0)
    config = transformers.ViTConfig(
        image_size=32, patch_size=8, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=48,
        num_labels=10,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config)
    with torch.no_grad():
        model.classifier.bias[7] = 100
    model.save_pretrained(tmp_path)
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    picture = tmp_path / "picture.png"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 48, 3), np.uint8)).save(picture)
    run(f"vit_{which}", tmp_path, picture)
    prediction, radius = capsys.readouterr().out.split()[-2:]
    assert prediction == "7"
    assert 0.3750 < float(radius) < 0.3752
