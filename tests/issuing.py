"""Certificates for inputs, without a file: the one way in which tests ask for them."""

from collections.abc import Iterator

import soundsmooth as ss
from soundsmooth.certification.promise import Inputs, Secret
from soundsmooth.certification.settings import Settings
from soundsmooth.runs.run import certify_inputs
from soundsmooth.smoothing.classifier import Smoothing


def issue(
    smoothing: Smoothing,
    inputs: Inputs,
    settings: Settings,
    secret: Secret,
) -> Iterator[ss.Certificate]:
    """A certificate for every input, in order."""
    return iter(certify_inputs(smoothing, inputs, settings, secret))
