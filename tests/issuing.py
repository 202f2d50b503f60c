"""Certificates for inputs, without a file: the one way in which tests ask for them."""

from collections.abc import Callable, Iterator

import soundsmooth as ss
from soundsmooth.promise import Inputs, Secret
from soundsmooth.runs.engine import Smoothing, certify_inputs
from soundsmooth.settings import Settings


def issue(
    smoothing: Smoothing,
    inputs: Inputs,
    settings: Settings,
    secret: Secret,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[ss.Certificate]:
    """A certificate for every input, in order."""
    return certify_inputs(smoothing, inputs, settings, secret, progress)
