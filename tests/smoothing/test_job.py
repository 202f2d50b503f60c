"""What a worker is told: batches as promised, noise by the key, and no key in what is printed."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness
from soundsmooth.certification.certify import ModelChangedError
from soundsmooth.certification.looks import Group, Looks
from soundsmooth.certification.settings import Settings, settings
from soundsmooth.noise import Purpose
from soundsmooth.smoothing.job import VotingJob

SMOOTHING = ss.Smoother(brightness, "1/2", batch_size=100, threads=1, independence="assumed").smoothing
LOOKS = Looks((1000,), (Fraction(1, 1000),))
X = np.full((2, 2), 100, np.int16)


def job(chosen: Settings) -> VotingJob:
    return VotingJob(SMOOTHING.identity((2, 2), 100, chosen), chosen, (2, 2), 100, b"k" * 32)


def batches(chosen: Settings) -> list[int]:
    made = job(chosen)
    return [made.voting(SMOOTHING.replicas[0], each).batch for each in (Purpose.SELECTION, Purpose.ESTIMATION)]


def test_a_small_sample_is_one_batch_of_its_own_size() -> None:
    assert batches(settings(n0=30, n=1000)) == [30, 100]
    assert batches(settings(n0=300, n=70)) == [100, 70]
    assert batches(replace(settings(n0=30, n=1000), looks=LOOKS)) == [30, 100]


def test_batches_that_images_share_are_full() -> None:
    assert batches(replace(settings(n0=30, n=1000), looks=replace(LOOKS, group=Group(4, 800)))) == [100, 100]


@pytest.mark.parametrize(("noise", "same"), [("fresh", False), ("shared", True), ("batchwise", True)])
def test_images_share_their_noise_where_that_is_promised(noise: str, same: bool) -> None:
    source = job(settings(noise=noise)).noise(SMOOTHING.replicas[0])
    one, other = (source(number).noisy(Purpose.ESTIMATION, X, 0, 5).values for number in (3, 4))
    assert np.array_equal(one, other) == same


def test_the_key_is_not_printed() -> None:
    assert "kkk" not in repr(job(settings()))


def test_a_model_that_changed_is_refused() -> None:
    made, replica = job(settings()), SMOOTHING.replicas[0]
    made.check_model(replica, lambda: False)
    with pytest.raises(ModelChangedError, match="the model changed while it was certified"):
        made.check_model(replica, lambda: True)
    other = replace(made, identity=replace(made.identity, digest="00" * 32))
    with pytest.raises(ModelChangedError, match="must keep no state"):
        other.check_model(replica, lambda: False)
