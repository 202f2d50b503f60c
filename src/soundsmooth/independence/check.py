"""Independence, checked: the same rows, voted in other batches, must get the same votes.

This catches honest mistakes: a mean or a softmax over the batch, a special first row, a counter. It proves nothing: a
model that recognises the check can behave while it lasts (docs/independence.md, "Checked").
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arrays import Fetched, concatenate
from ..core.errors import describe_error
from ..core.grid import Levels
from ..models import Identity, Model
from ..models.protocol import vote_tolerance
from ..noise import Purpose
from ..noise.gpu import AnySampler
from ..noise.sources import FreshNoise

#: Larger batches are checked with so many rows, unless the model can run no other batch.
ROWS = 512
#: And smaller ones several times.
LEAST_ROWS = 32
IMAGES = 4
#: So many rows are voted alone.
SINGLES = 8
ATTEMPTS = 10
#: One row at all positions, so often.
UNIFORM = 3

Index = npt.NDArray[np.intp]
Trial = tuple[str, int, int]
Labels = npt.NDArray[np.int64]
_HOW_OUT = (
    "A base classifier must be one fixed function of each row. If it draws at random, anew for each row, "
    "independence assumed leaves this check out, and the certificate says so"
)


def check_first(model: Model, identity: Identity) -> bool:
    """Whether rows are to be checked before the run: also where they are measured without having been asked for, since
    an error now tells more than votes that are lost.
    """
    return identity.independence.checked or (model.demand == "auto" and not identity.independence.proved)


def some(images: Sequence[Levels]) -> list[Levels]:
    """As many as are looked at, drawn by the operating system."""
    chosen = secrets.SystemRandom().sample(range(len(images)), min(IMAGES, len(images)))
    return [images[place] for place in chosen]


def check_rows(model: Model, sampler: AnySampler, images: Sequence[Levels], batch: int) -> None:
    """A ValueError if rows vote differently in another order, in other company, in smaller batches, or later.

    The noise is drawn by the operating system and has nothing to do with the run's.

    Guarantee: none. Near ties may fall either way, so a few votes may differ.
    """
    fixed = model.batch is not None or model.flags().get("compile", "none") != "none"
    size = batch if fixed else min(batch, ROWS)
    size = model.batch or size
    found = _attempt(model, sampler, images, size, fixed)
    names = list(dict.fromkeys(name for name, _, _ in found))
    compared = sum(total for _, _, total in found)
    changed = {each: sum(wrong for name, wrong, _ in found if name == each) for each in names}
    if sum(changed.values()) > vote_tolerance(model.identity().precision, compared):
        listed = ", ".join(f"{count} {name}" for name, count in changed.items() if count)
        raise ValueError(f"the vote of a row depends on its batch: of {compared} votes changed {listed}. {_HOW_OUT}")


def _attempt(model: Model, sampler: AnySampler, images: Sequence[Levels], size: int, fixed: bool) -> list[Trial]:
    """A model that fails now and then is asked again; what counts here is not what the certificate counts."""
    for left in reversed(range(ATTEMPTS)):
        try:
            rounds = range(max(1, LEAST_ROWS // size))
            found = [trial for _ in rounds for trial in _trials(model, sampler, images, size, fixed)]
            _check_positions(model, sampler, images, size)
            return found
        except ValueError:
            raise
        except Exception as error:
            if not left:
                raise ValueError(f"the model failed while its rows were checked: {describe_error(error)}") from error
    raise AssertionError


def _trials(model: Model, sampler: AnySampler, images: Sequence[Levels], size: int, fixed: bool) -> Iterator[Trial]:
    """What was done to the rows, how many votes it changed, and of how many."""
    random = np.random.default_rng(secrets.randbits(128))
    rows = _noisy_rows(sampler, images, size, random)
    first = np.arange(size)
    expected = _labels(model, rows, first)
    yield "when voted again", *_compare(_labels(model, rows, first), expected)
    order = random.permutation(size)
    yield "in another order", *_compare(_labels(model, rows, order), expected[order])
    for guests in _guests(sampler, images, size):
        stays = random.permutation(size) < -(-size // 2)
        mixed = np.where(stays, first, first + size)
        with suppress(Exception):  # it may not bear such rows or batches, which the run would not show it
            labels = _labels(model, concatenate([rows, guests]), mixed)
            yield "in other company", *_compare(labels[stays], expected[stays])
    if not fixed and size > 1:
        singles = min(SINGLES, size - 1)
        cuts = [*range(1, singles + 1), (singles + size) // 2]
        with suppress(Exception):
            parts = [_labels(model, rows, part) for part in np.split(order, cuts) if len(part)]
            yield "in smaller batches", *_compare(np.concatenate(parts), expected[order])


def _guests(sampler: AnySampler, images: Sequence[Levels], size: int) -> Iterator[Any]:
    """Rows that move whatever is averaged over a batch: noisy copies of black, and of white."""
    for level in (0, sampler.law.grid.levels - 1):
        yield _noisy(sampler, np.full_like(images[0], level), size)


def _check_positions(model: Model, sampler: AnySampler, images: Sequence[Levels], size: int) -> None:
    """Copies of one row at all positions get one vote; the same position may not stand out for several rows."""
    random = np.random.default_rng(secrets.randbits(128))
    rows = _noisy_rows(sampler, images, UNIFORM, random)
    odd = np.zeros(size, np.int64)
    for number in range(UNIFORM):
        with suppress(Exception):
            labels = _labels(model, rows, np.full(size, number))
            values, counts = np.unique(labels, return_counts=True)
            odd += labels != values[counts.argmax()]
    if (odd > 1).any():
        place = int(odd.argmax())
        raise ValueError(
            f"votes depend on the row's position: of {size} equal rows the one at position {place} votes differently. "
            f"{_HOW_OUT}"
        )


def _noisy_rows(sampler: AnySampler, images: Sequence[Levels], count: int, random: np.random.Generator) -> Any:
    """Noisy copies of a few of the inputs, mixed."""
    places = random.permutation(len(images))[: random.integers(1, IMAGES + 1)]
    shares = [len(part) for part in np.array_split(np.arange(count), len(places))]
    parts = [_noisy(sampler, images[place], share) for place, share in zip(places, shares, strict=True) if share]
    return _take(concatenate(parts), random.permutation(count))


def _noisy(sampler: AnySampler, x: Levels, count: int) -> Any:
    return FreshNoise(sampler, secrets.token_bytes(32), 0).noisy(Purpose.PREDICTION, x, 0, count, sure=True).values


def _take(rows: Any, index: Index) -> Any:
    """These rows, in memory of their own."""
    if isinstance(rows, np.ndarray):
        return rows[index]
    import torch

    return rows[torch.as_tensor(index, device=rows.device)]


def _labels(model: Model, rows: Any, index: Index) -> Labels:
    return Fetched(model.vote(_take(rows, index)).labels).array()


def _compare(found: Labels, expected: Labels) -> tuple[int, int]:
    return int((found != expected).sum()), len(expected)
