"""The surface for users: what `import soundsmooth as ss` offers, and that it is enough for a run from Python."""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness
from soundsmooth import embedded

MODEL = embedded.MODELS[Fraction(1, 4)]
DATA = np.load(embedded.IMAGES)
X, Y = DATA["x"][:4], DATA["y"][:4]


def smoother() -> ss.Smoother:
    return ss.Smoother(MODEL, "0.25", threads=1)


def test_everything_that_is_named_is_there() -> None:
    for name in ss.__all__:
        assert getattr(ss, name) is not None
    assert set(dir(ss)) == set(ss.__all__)


def test_importing_it_is_cheap() -> None:
    heavy = ("numpy", "torch", "onnx", "flint", "rich")
    code = f"import sys, soundsmooth; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_run_from_python(tmp_path: Path) -> None:
    """Certify, stop, continue, open, count, export, verify: without an import from inside."""
    path, results = tmp_path / "run.db", []

    class StoppedError(Exception):
        pass

    def stop(record: object) -> None:
        results.append(record)
        raise StoppedError

    with pytest.raises(StoppedError):
        smoother().certify_all(X, Y, out=path, n=500, on_result=stop)
    with ss.open_run(path) as begun:
        assert len(begun) == 1
    run = smoother().certify_all(X, Y, out=path, n=500, on_result=results.append)
    assert len(run) == len(results) == 4
    assert [each.index for each in run] == [0, 1, 2, 3]
    assert run[2] == list(run)[2]
    with pytest.raises(KeyError):
        run[17]
    assert run.votes == 4 * 600
    assert run.failures == []
    (share,) = run.accuracy([0])
    assert share == Fraction(sum(each.correct for each in run), 4)
    assert run.export(tmp_path / "run.tsv") == 4
    assert run.commitment == results[0].commitment
    again = ss.open_run(path)
    assert list(again) == list(run)
    audit = ss.verify(path, model=MODEL, data=(X, Y), replay="all", commitment=run.commitment, threads=1)
    assert audit.ok
    assert any(each.startswith("replay: ") for each in audit.shown)
    assert any(each.startswith("nonce: ") for each in audit.not_shown)
    assert not ss.verify(path, commitment="0" * 64).ok


def test_a_run_in_memory_is_the_same(tmp_path: Path) -> None:
    kept = smoother().certify_all(X, Y, out=tmp_path / "run.db", n=300, seed="s")
    loose = smoother().certify_all(X, Y, n=300, seed="s")
    essence = [(each.label, each.radius, each.estimation, each.promise) for each in kept]
    assert [(each.label, each.radius, each.estimation, each.promise) for each in loose] == essence
    assert loose.path is None
    assert kept.path == tmp_path / "run.db"


def test_the_promise_before_the_run(tmp_path: Path) -> None:
    promise = smoother().commit(X, Y, seed="s", n=300)
    assert promise == smoother().certify_all(X, Y, seed="s", n=300).promise


def test_other_processes_from_python() -> None:
    here = smoother().certify_all(X[:2], n=200, seed="s")
    there = ss.Smoother(MODEL, "0.25", threads=1, workers=1).certify_all(X[:2], n=200, seed="s", engine="processes")
    assert [each.estimation for each in there] == [each.estimation for each in here]


def test_the_law_of_the_noise_instead_of_sigma() -> None:
    by_law = ss.Smoother(brightness, law=ss.Gaussian("0.5", k=3))
    by_sigma = ss.Smoother(brightness, "0.5", k=3)
    image = np.full((2, 2), 99, np.uint8)
    assert by_law.certify(image, n=100, seed="s").promise == by_sigma.certify(image, n=100, seed="s").promise
    for wrong in ({}, {"sigma": "0.5", "law": ss.Gaussian("0.5")}):
        with pytest.raises(ValueError, match="give either sigma, or the law"):
            ss.Smoother(brightness, **wrong)


def test_a_run_that_has_another_name_than_a_run() -> None:
    with pytest.raises(ValueError, match=r"kept in a \.db file"):
        smoother().certify_all(X, out="run.tsv")


def fails_on_bright(batch: np.ndarray) -> np.ndarray:
    if batch.mean() > 0.8:
        raise RuntimeError("too bright")
    return brightness(batch)


def test_images_on_which_the_model_fails_are_warned_about() -> None:
    images = np.stack([np.full((2, 2), level, np.uint8) for level in (20, 250)])
    smooth = ss.Smoother(fails_on_bright, "0.01", independence="assumed")
    with pytest.warns(UserWarning, match="the model failed on 1 images, .* image 1: RuntimeError: too bright"):
        run = smooth.certify_all(images, [0, 1], n=100)
    assert [each.index for each in run] == [0]
    assert run.accuracy([0]) == [Fraction(1, 2)]
    with pytest.raises(ValueError, match="the model failed: RuntimeError: too bright"):
        smooth.certify(images[1], n=100)


class FailsLate:
    """Votes on its first batches and fails on all later ones."""

    def __init__(self) -> None:
        self.left = 3

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("out of memory")
        return brightness(batch)


def test_a_lone_image_that_fails_late_is_an_error() -> None:
    """Its first blocks are in the store by then; a StopIteration would end a caller's map in silence."""
    model = FailsLate()
    smooth = ss.Smoother(model, "0.5", independence="assumed")
    with pytest.raises(ValueError, match="the model failed: RuntimeError: out of memory"):
        smooth.certify(np.full((2, 2), 99, np.uint8), n=20_000)
