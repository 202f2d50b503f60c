"""What cannot be asked of looks is rejected before anything is promised, written or voted on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness
from command import error_of
from golden.surface import DATA
from soundsmooth.runs import voter

X = np.array([[10, 220, 30, 40], [250, 40, 30, 20]], np.uint8).reshape(2, 1, 2, 2)

#: What is asked at n = 1000 and α = 0.001, and what is said to it.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"radii": 0, "looks": [200, 100, 1000]}, "looks must rise, each at more copies than the one before: 200, 100"),
    ({"radii": 0, "looks": [100, 100, 1000]}, "looks must rise"),
    ({"radii": 0, "looks": [0, 1000]}, "looks must rise"),
    ({"radii": 0, "looks": []}, "between 1 and 64 looks, not 0"),
    ({"radii": 0, "looks": [*range(1, 65), 1000]}, "between 1 and 64 looks, not 65"),
    ({"radii": 0, "looks": [100, 999]}, "the last look is at all n = 1000 copies, not at 999"),
    ({"radii": 0, "looks": [100, 1001]}, "the last look is at all n = 1000 copies, not at 1001"),
    ({"radii": 0, "looks": [100.5, 1000]}, "a look must be an integer, not 100.5"),
    ({"radii": 0, "looks": {100: "1/1000", 1000: "1/10000"}}, "spend 11/10000 in all, .* more than alpha = 1/1000"),
    ({"radii": 0, "looks": {100: 0, 1000: "1/1000"}}, "each look spends something of alpha: 0, 1/1000"),
    ({"radii": 0, "looks": {100: "-1/1000", 1000: "1/1000"}}, "each look spends something"),
    ({"radii": [0, "1/4", 1, 2]}, "n = 1000 copies cannot reach the radius 1: give a larger n"),
    ({"radii": 100}, "n = 1000 copies cannot reach the radius 100:"),
    ({"radii": "0.75", "bound": "clopper-pearson"}, "n = 1000 copies cannot reach the radius 3/4:"),
    ({"radii": "steps", "n": 5}, "n = 5 copies cannot reach the radius 0:"),
    ({"radii": ["1/4", 0]}, "radii must rise, from 0 on: 1/4, 0"),
    ({"radii": [0, 0]}, "radii must rise"),
    ({"radii": -1}, "radii must rise, from 0 on: -1"),
    ({"radii": []}, "between 1 and 256 radii"),
    ({"radii": range(257)}, "between 1 and 256 radii"),
    ({"radii": "some"}, "a radius"),
    ({"radii": 0, "width": "1%"}, "ask for radii or for a width, not for both"),
    ({"width": 0}, "the width is a share of the radius"),
    ({"width": "100%"}, "the width is a share of the radius, .* not 100%"),
    ({"looks": [100, 1000]}, "ask for radii or a width too"),
    ({"patience": 10}, "ask for radii or a width too"),
    ({"radii": 0, "patience": -1}, "the patience is a number of votes, from 0 on, not -1"),
    ({"radii": 0, "patience": float("nan")}, "the patience is a number of votes"),
    ({"radii": 0, "bound": "hoeffding"}, "the bound hoeffding holds for one look only"),
    ({"width": "1%", "bound": "hoeffding"}, "the bound hoeffding holds for one look only"),
    ({"radii": 0, "bound": "randomized"}, "the bound randomized holds for one look only"),
    ({"width": "1%", "bound": "group-sequential"}, "the bound group-sequential is for set radii: say which"),
    ({"skip_wrong": True, "bound": "group-sequential"}, "the bound group-sequential is for set radii: say which"),
    ({"bound": "group-sequential"}, "the bound group-sequential is for set radii"),
]

#: The same where rows are not proved to be independent, in batches of 100.
REFUSED_UNPROVED: list[tuple[dict[str, Any], str]] = [
    ({"radii": 0, "looks": [150, 1000]}, "each look must be at whole batches of 100 copies: .* not 150, 1000"),
    ({"radii": 0, "n": 1050}, "each look must be at whole batches of 100"),
    (
        {"radii": 0, "bound": "group-sequential"},
        "sequential needs rows that are proved|goes with the bound clopper-pearson",
    ),
    ({"bound": "randomized"}, "randomized needs rows that are proved|goes with the bound clopper-pearson"),
    ({"radii": 0, "alpha": "0.26"}, "alpha is at most 1/4 with looks, not 13/50"),
    ({"width": "1%", "alpha": "0.26"}, "alpha is at most 1/4 with looks"),
    ({"skip_wrong": True, "alpha": "0.26"}, "alpha is at most 1/4 with looks"),
]


@pytest.fixture(autouse=True)
def nobody_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_votes(*_: object) -> None:
        raise AssertionError("somebody has voted, or is about to")

    monkeypatch.setattr(voter.Voter, "__init__", no_votes)


def refused(smooth: ss.Smoother, asked: dict[str, Any], text: str, folder: Path) -> None:
    """In a run, for one image and in a commitment; and nothing is written."""
    how = {"n": 1000, **asked}
    with pytest.raises(ValueError, match=text):
        smooth.certify_all(X, [0, 1], out=folder / "run.db", **how)
    with pytest.raises(ValueError, match=text):
        smooth.certify(X[0], label=0, **how)
    with pytest.raises(ValueError, match=text):
        smooth.commit(X, [0, 1], seed="s", **how)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("asked", "text"), REFUSED, ids=str)
def test_what_cannot_be_asked_is_refused(asked: dict[str, Any], text: str, tmp_path: Path) -> None:
    refused(ss.Smoother(DATA / "linear.onnx", "1/4", threads=1), asked, text, tmp_path)


def test_without_labels_no_wrong_answer_is_skipped(tmp_path: Path) -> None:
    smooth = ss.Smoother(DATA / "linear.onnx", "1/4", threads=1)
    for asked in ({"skip_wrong": True}, {"skip_wrong": True, "radii": 0}):
        with pytest.raises(ValueError, match="is wrong needs labels, and these images have none"):
            smooth.certify_all(X, n=1000, out=tmp_path / "run.db", **asked)
        smooth.commit(X, [None, 0], n=1000, seed="s", **asked)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("asked", "text"), REFUSED_UNPROVED, ids=str)
@pytest.mark.parametrize("independence", ["assumed", "checked", "measured"])
def test_what_positions_do_not_allow_is_refused(
    independence: Any, asked: dict[str, Any], text: str, tmp_path: Path
) -> None:
    refused(ss.Smoother(brightness, "1/4", batch_size=100, independence=independence), asked, text, tmp_path)


@pytest.mark.parametrize("independence", ["assumed", "checked"])
def test_positions_allow_no_large_alpha_without_looks_either(independence: Any, tmp_path: Path) -> None:
    smooth = ss.Smoother(brightness, "1/4", batch_size=100, independence=independence)
    refused(smooth, {"alpha": "0.26"}, "alpha is at most 1/4, not 13/50", tmp_path)
    assert smooth.commit(X, n=1000, seed="s", alpha="0.25").values["alpha"] == "1/4"
    alone = ss.Smoother(brightness, "1/4", batch_size=100, independence="measured")
    assert alone.commit(X, n=1000, seed="s", alpha="0.26").values["alpha"] == "13/50"


def test_what_is_near_to_it_is_promised() -> None:
    """So that the refusals above are not those of everything."""
    proved = ss.Smoother(DATA / "linear.onnx", "1/4", threads=1)
    for asked in ({"looks": [100, 150, 1000]}, {"looks": {100: "1/2000", 1000: "1/2000"}}, {"alpha": "0.9"}):
        assert "looks" in proved.commit(X, n=1000, seed="s", radii=[0, "1/4"], **asked).values
    assumed = ss.Smoother(brightness, "1/4", batch_size=100, independence="assumed")
    for asked in ({"looks": [100, 200, 1000]}, {"alpha": "0.25"}):
        assert "looks" in assumed.commit(X, n=1000, seed="s", radii=[0, "1/4"], **asked).values


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--radii 0 --looks 200,100,1000", "looks must rise"),
        ("--radii 0 --looks 100=1/1000,1000=1/1000", "the looks spend 1/500 in all, which is more than alpha"),
        ("--radii 0 --looks 100=1/2000,1000", "give the level of each look, or of none"),
        ("--radii 0,0.25,2", "cannot reach the radius 2"),
        ("--radii 0 --width 1%", "ask for radii or for a width, not for both"),
        ("--radii 0 --bound hoeffding", "hoeffding holds for one look only"),
    ],
)
def test_the_command_line_says_the_same(words: str, text: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X, y=np.array([0, 1]))
    before = sorted(tmp_path.iterdir())
    done = error_of(
        "certify", str(DATA / "linear.onnx"), str(tmp_path / "x.npz"), "--sigma", "0.25", "--n", "1000", *words.split(),
        "--out", str(tmp_path / "run.db"),
    )  # fmt: skip
    assert text in done
    assert sorted(tmp_path.iterdir()) == before
