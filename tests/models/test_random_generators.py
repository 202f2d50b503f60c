"""Every generator that is found is seeded from the row, once."""

import hashlib
import random

import numpy as np
import pytest
import torch

from soundsmooth.models.random_generators import find_generators, seed_generators, seed_of

ROW, OTHER = np.zeros((1, 2, 2), np.float32), np.ones((1, 2, 2), np.float32)


@pytest.fixture(scope="module")
def found() -> list[object]:
    return find_generators()


def draws() -> list[float]:
    return [random.random(), np.random.random(), float(torch.rand(()))]


def test_global_generators_draw_by_the_row(found: list[object]) -> None:
    seed_generators(found, seed_of(ROW.tobytes()))
    first = draws()
    seed_generators(found, seed_of(OTHER.tobytes()))
    other = draws()
    seed_generators(found, seed_of(ROW.tobytes()))
    assert draws() == first
    assert not set(first) & set(other)


def test_each_generator_is_found_once_and_what_others_draw_from_comes_last() -> None:
    own = np.random.default_rng(0)
    found = find_generators()
    assert len({id(each) for each in found}) == len(found)
    sources = [isinstance(each, np.random.BitGenerator) for each in found]
    assert sources == sorted(sources)
    for each in (random._inst, np.random.mtrand._rand, torch.default_generator, own.bit_generator):
        assert any(each is one for one in found)


def test_seeds_are_those_of_earlier_versions(found: list[object]) -> None:
    """An auditor re-votes rows of old runs: these draws are part of F."""
    seed_generators(found, seed_of(ROW.tobytes()))
    digest = hashlib.sha256(b"soundsmooth row v1" + ROW.tobytes()).digest()
    number = int.from_bytes(digest[:8], "little") >> 1
    assert random.random() == random.Random(number).random()
    assert np.random.random() == np.random.RandomState(np.random.MT19937(number)).random_sample()
    assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(number))


@pytest.mark.parametrize("kind", [np.random.MT19937, np.random.PCG64, np.random.Philox, np.random.SFC64])
def test_a_source_has_the_state_of_one_that_is_made_from_the_number(kind: type[np.random.BitGenerator]) -> None:
    seed = seed_of(OTHER.tobytes())
    own = kind(1)
    own.random_raw()
    seed_generators([own], seed)
    fresh = kind(int.from_bytes(seed[:8], "little") >> 1)
    assert [own.random_raw() for _ in range(700)] == [fresh.random_raw() for _ in range(700)]


def test_the_older_generators_are_seeded_with_what_they_draw_from_and_once() -> None:
    own = np.random.RandomState(5)
    own.standard_normal()  # it keeps the other one of a pair
    found = find_generators()
    assert any(each is own for each in found)
    assert not any(each is own._bit_generator for each in found)
    seed = seed_of(ROW.tobytes())
    seed_generators(found, seed)
    fresh = np.random.RandomState(np.random.MT19937(int.from_bytes(seed[:8], "little") >> 1))
    assert own.standard_normal() == fresh.standard_normal()
