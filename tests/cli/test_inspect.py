"""What `soundsmooth inspect` says applies to the model that it is about."""

from pathlib import Path

import pytest

from soundsmooth.cli.inspect import run_inspect

NETS = """
import torch

class Net(torch.nn.Module):
    def __init__(self, ways):
        super().__init__()
        self.ways = ways

    def forward(self, x):
        flat = x.flatten(1)
        if self.ways == "label":
            return flat.argmax(1)
        if self.ways == "two":
            return flat[:, :2], flat
        if self.ways == "branch" and bool(x.sum() > 0):
            flat = flat + 1
        return (flat.softmax(0) if self.ways == "softmax" else flat)[:, :2]

def two(): return Net("two").eval()
def label(): return Net("label").eval()
def branch(): return Net("branch").eval()
def softmax(): return Net("softmax").eval()
def plain(): return Net("plain").eval()
"""


def inspected(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, output: str | None = None) -> int:
    (folder / "nets_to_inspect.py").write_text(NETS)
    monkeypatch.syspath_prepend(str(folder))
    return run_inspect(f"nets_to_inspect:{name}", "1,4,4", 10, None, output, as_json=False, trusted=False)


def test_several_outputs_are_an_error_and_no_missing_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a model is rejected: its certificates say nothing, for there are none."""
    with pytest.raises(ValueError, match="the model has 2 outputs"):
        inspected("two", tmp_path, monkeypatch)
    assert inspected("two", tmp_path, monkeypatch, "0") == 0
    with pytest.raises(ValueError, match="these are labels"):
        inspected("label", tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("name", "advice", "other"),
    [("branch", "torch.where", "first axis"), ("softmax", "first axis", "torch.where"), ("plain", "proved", "advice")],
)
def test_only_advice_that_applies_is_given(
    name: str, advice: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert inspected(name, tmp_path, monkeypatch) == (name != "plain")
    said = " ".join(capsys.readouterr().out.split())
    assert advice in said
    assert other not in said
