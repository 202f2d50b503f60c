"""Base classifiers that are not one function of one row: their certificates say nothing."""

from dataclasses import replace
from typing import NamedTuple

from .certifiers import Array, Certifier, CertifierTask, MakeScores, Ours, Refused
from .contradicting_pairs import Pair, judge
from .trial import Finding, Trial


class Asked(NamedTuple):
    """One question to a certifier: which classifier, at which point, with how many copies."""

    make: MakeScores
    x: Array
    task: CertifierTask


def try_deployment(entry: str, certifier: Certifier, certified: Asked, deployed: Asked, note: str) -> Trial:
    """VOID where the deployed smoothed classifier contradicts the certificate, both with confidence 1 − α.

    Not FALSE (point): the theorem is about one function of one row, and this base classifier is none.
    """
    try:
        first = certifier.certify(certified.make, 2, certified.x, certified.task)
        second = certifier.certify(deployed.make, 2, deployed.x, deployed.task)
    except Refused as refusal:
        return Trial(entry, certifier.name, Finding.REFUSED, note=str(refusal))
    pair = Pair(certified.make, certified.x, deployed.x)
    finding = judge(first, second, pair.squared)
    finding = Finding.VOID if finding is Finding.FALSE_POINT else finding
    said = f"{note}: certified as {first.label}, yet the answer is {second.label}" if finding is Finding.VOID else note
    return Trial(entry, certifier.name, finding, first.radius, pair.distance, (first.counts, second.counts), said)


def proving(certifiers: list[Certifier]) -> list[Certifier]:
    """The same certifiers, ours with the demand that independence and absence of memory be proved."""
    return [replace(one, independence="proved") if isinstance(one, Ours) else one for one in certifiers]
