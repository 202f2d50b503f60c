"""The clean pass: the model's own answers, once, after the last vote, and never at the price of a run."""

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import soundsmooth as ss
from soundsmooth.core.grid import IMAGES
from soundsmooth.models.callables import Scores
from soundsmooth.noise import Gaussian, Keystream, Purpose, Sampler
from soundsmooth.runs import clean_pass, scheduler
from soundsmooth.runs.pools import LocalPool, LocalWorker, WorkerDied

LEVELS = (40, 90, 120, 135, 220)
PICTURES = np.stack([np.full((2, 2), level, np.uint8) for level in LEVELS])


class Watched:
    """Is the row's mean above one half? It remembers all rows, and may fail on some."""

    def __init__(self, fails_without_noise: bool = False) -> None:
        self.batches: list[npt.NDArray[np.float32]] = []
        self._fails = fails_without_noise

    def __call__(self, batch: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        self.batches.append(batch.copy())
        if self._fails and is_clean(batch):
            raise RuntimeError("no noise, no answer")
        mean = batch.reshape(len(batch), -1).mean(axis=1)
        return np.stack([0.5 - mean, mean - 0.5], axis=1)


def is_clean(batch: npt.NDArray[np.float32]) -> bool:
    """All four values of a row are equal only without noise."""
    return bool((batch == batch[:, :1, :1]).all())


def certify(model: Scores, **how: object) -> ss.Run:
    smooth = ss.Smoother(model, "0.5", independence="assumed", batch_size=20)
    return smooth.certify_all(PICTURES, n0=20, n=100, seed="s", **how)  # type: ignore[arg-type]


def test_it_counts_what_the_model_gets_right_after_the_last_vote() -> None:
    model = Watched()
    run = certify(model, labels=[0, 0, 1, 1, 1])
    assert run.clean_accuracy == Fraction(4, 5)
    clean = [is_clean(batch) for batch in model.batches]
    assert clean == [False] * (5 * 6) + [True]  # one batch, of the size of selection, and no vote after it
    np.testing.assert_array_equal(model.batches[-1][:5], IMAGES.values(PICTURES.astype(np.int16)))


def test_no_image_is_looked_up_only_to_fill_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU 495 more of them would be made on the CPU, and sent there."""
    looked_up, usual = list[int](), Sampler.values

    def values(sampler: Sampler, levels: npt.NDArray[np.int16]) -> npt.NDArray[np.float32]:
        looked_up.append(len(levels))
        return usual(sampler, levels)

    monkeypatch.setattr(Sampler, "values", values)
    assert certify(Watched(), labels=[0, 0, 1, 1, 1]).clean_accuracy == Fraction(4, 5)
    assert looked_up == [5]


def test_all_images_are_asked_about_in_several_batches_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_pass, "TOGETHER", 2)
    assert certify(Watched(), labels=[0, 0, 0, 1, 0]).clean_accuracy == Fraction(4, 5)


def test_without_labels_there_is_none() -> None:
    model = Watched()
    assert certify(model).clean_accuracy is None
    assert not any(map(is_clean, model.batches))


def test_a_model_that_fails_without_noise_costs_nothing_but_the_number(tmp_path: Path) -> None:
    run = certify(Watched(fails_without_noise=True), labels=[0, 0, 0, 1, 1], out=tmp_path / "run.db")
    assert run.clean_accuracy is None
    assert len(run) == 5
    assert not run.failures


def test_it_is_counted_once(tmp_path: Path) -> None:
    for _ in range(2):
        model = Watched()
        assert certify(model, labels=[0, 0, 0, 1, 1], out=tmp_path / "run.db").clean_accuracy == 1
    assert not model.batches  # the second time


def too_bright_now_and_then(batch: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if os.environ.get("FAIL") and not is_clean(batch) and batch.mean() > 0.7:
        raise RuntimeError("too bright")
    mean = batch.reshape(len(batch), -1).mean(axis=1)
    return np.stack([0.5 - mean, mean - 0.5], axis=1)


def test_an_image_that_is_still_to_be_tried_again_keeps_it_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its votes would come after it."""
    monkeypatch.setenv("FAIL", "1")
    with pytest.warns(UserWarning, match="the model failed on 1 images"):
        run = certify(too_bright_now_and_then, labels=[0, 0, 0, 1, 1], out=tmp_path / "run.db")
    assert run.clean_accuracy is None
    run.close()
    monkeypatch.delenv("FAIL")
    assert certify(too_bright_now_and_then, labels=[0, 0, 0, 1, 1], out=tmp_path / "run.db").clean_accuracy == 1


def test_its_floats_are_those_of_no_noise() -> None:
    """At σ so small that no noise ever leaves its level, noisy copies are the clean image."""
    sampler = Sampler(Gaussian("0.00001", 6), 1)
    levels = np.arange(256, dtype=np.int16)
    noisy = sampler.noisy(Keystream(bytes(32), Purpose.ESTIMATION, 0), levels, 0, 3).values
    np.testing.assert_array_equal(noisy, sampler.values(np.stack([levels] * 3)))


@pytest.mark.parametrize(
    ("answers", "share"),
    [
        ([WorkerDied("gone")], None),
        ([RuntimeError("no")], None),
        ([], None),  # it hangs
        ([(0,)], None),  # fewer answers than images
        ([[], (0, 0, 0, 1, 0)], Fraction(4, 5)),  # after outcomes of an image that was given up
    ],
)
def test_a_worker_that_dies_hangs_or_errs_ends_no_run(
    answers: list[object], share: Fraction | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = LocalWorker.call

    def call(self: LocalWorker, method: str, *arguments: object) -> None:
        if method == "clean":
            self.answers.extend(answers)
        else:
            before(self, method, *arguments)

    monkeypatch.setattr(LocalWorker, "call", call)
    monkeypatch.setattr(LocalPool, "timeout", 0.01)
    monkeypatch.setattr(scheduler, "LOOK", 0.01)
    run = certify(Watched(), labels=[0, 0, 0, 1, 1])
    assert run.clean_accuracy == share
    assert len(run) == 5
