"""Proposition 4.1: a classifier with a certified radius of 3 at every test image, and one perturbation that flips all.

M remembers the test images by their floats, see `proposition_4_1`. Where noise is added in integers nothing is
remembered; the first pixel decides everywhere, and its honest radius is below 0.5. The whole of the paper's experiment,
on CIFAR-10, is experiments/cifar10/proposition.py.
"""

import math
from collections.abc import Iterator

from ..certifiers import Certifier, CertifierTask, Refused
from ..images import load_images
from ..options import Options
from ..proposition_4_1 import SIGMA, Case, ask, cases, tally
from ..trial import Finding, Trial

CLAIM = "M of Proposition 4.1 at σ = 1: radius 3 at every test image, and p with ‖p‖₂ < 1 on the grid flips them all"
SHOWN = 10  # of each class; all, if n is given
COPIES = 6000  # radius 3 needs 5114, all of them right


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """Some images by default, all that are remembered if n is given; H remembers all of them either way."""
    zeros, ones = cases(*load_images(options.data))
    shown = None if options.n else SHOWN
    chosen = [*zeros[:shown], *ones[:shown]]
    of_all = f"{len(chosen)} of {len(zeros)} + {len(ones)} images"
    for certifier in certifiers:
        try:
            yield survey(certifier, chosen, CertifierTask(SIGMA, options.n or COPIES, n0=500), of_all)
        except Refused as refusal:
            yield Trial("proposition", certifier.name, Finding.REFUSED, note=str(refusal))


def survey(certifier: Certifier, chosen: list[Case], task: CertifierTask, of_all: str) -> Trial:
    """Certify all images, establish the class of all perturbed ones, count, and show the image with the largest radius.

    FALSE, if one certificate is contradicted that also holds at α divided by the number of images: a sound certifier
    gets that with probability 2α at most. The radius that is shown and counted is the one at α.
    """
    outcomes = [ask(certifier, case, task, len(chosen)) for case in chosen]
    count = tally(outcomes, task)
    finding = Finding.ABSTAINS if count.silent == count.images else Finding.HOLDS
    if count.contradicted:
        finding = Finding.FALSE_POINT
    note = f"{of_all}, n = {task.n}: {count.right} certified as their class, {count.large} with radius ≥ 3; "
    note += f"{count.contradicted} contradicted, {count.silent} abstain"
    shown = max(
        outcomes, key=lambda each: (each.finding(task, len(chosen)) == finding, each.first.radius, each.squared)
    )
    votes = (shown.first.counts, shown.second.counts)
    distance = math.sqrt(shown.squared)
    return Trial("proposition", certifier.name, finding, shown.first.radius, distance, votes, note)
