"""The end of a run that nobody continues: what its unfinished images prove at their last full look (docs/looks.md)."""

from dataclasses import asdict
from math import prod

from ..certification.certificate import Certificate
from ..certification.certify import certify
from ..certification.promise import Promise
from ..core.grid import Grid
from ..exact import price_above
from ..noise.law import promised_law
from .image_votes import ImageVotes
from .leases import Leases
from .store import Store
from .stored import RunTerms


def conclude(store: Store) -> list[Certificate]:
    """End the run, and certify each unfinished image that has a full look; those without one stay as they are.

    The certificates say `aborted`. A run that has one is not continued. Nothing votes here, and what was concluded
    before stays as it is.

    Guarantee: a certificate is false with probability at most α over the key, whoever asks for this, and when. All of
    them are stored, or none is.
    """
    why_not = why_not_concluded(store.terms)
    if why_not is not None:
        raise ValueError(why_not)
    with Leases(store) as leases, store.db.transaction():
        if leases.others_at_work():
            raise ValueError("another process is at work on the run: end it first, or wait for it")
        votes = ((place, store.votes(place)) for place in store.unfinished())
        issued = [_certify(store, place, each) for place, each in votes if each.looks and each.missing]
        if issued:
            store.note_time()
        return issued


def why_not_concluded(terms: RunTerms) -> str | None:
    """Why a run on these terms cannot be concluded; None if it can."""
    if terms.settings.looks is None:
        return "the run promised no looks, so an unfinished image has proved nothing: only certify ends it"
    if terms.promise.independence.measured:
        return (
            f"independence is {terms.promise.independence}: rows of each image have still to vote alone, and only "
            "certify does that"
        )
    return None


def _certify(store: Store, place: int, votes: ImageVotes) -> Certificate:
    terms, (number, truth) = store.terms, store.image(place)
    law, paid = promised_law(terms.promise.values), _most_paid(terms.promise)
    found = certify(votes.selection, votes.estimation, law, terms.settings, None, paid, votes.looks)
    certificate = Certificate(
        index=number,
        **asdict(found),
        truth=truth,
        selection=votes.selection,
        estimation=votes.estimation,
        looks=votes.looks,
        aborted=True,
        promise=terms.promise,
        seed=terms.secret.seed.hex(),
        nonce=terms.secret.nonce.hex(),
        environment=store.recorded_environment(place),
        seconds=store.seconds(place),
        paid=paid,
    )
    store.add_certificate(place, certificate)
    store.note_mixed(place)
    return certificate


def _most_paid(promise: Promise) -> float | None:
    """What the radius is less by where floats were rounded to the grid: the most, since they are not at hand here."""
    if "given" not in promise.values:
        return None
    tolerance = Grid.of_text(promise.values["grid"]).tolerance
    size = prod(map(int, promise.values["input shape"].split()))
    return price_above(tolerance**2 * size, tolerance, size)
