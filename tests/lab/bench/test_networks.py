"""The networks have moved, and promises that were made before still name them."""

from importlib import import_module

import pytest

from soundsmooth.lab.bench.networks import Normalize, Residual
from soundsmooth.models.first_digest import MOVED, code_digest, full_name


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        (Normalize, "82687b4a9a0838c61fd101fccbeac0a2ed7f528edbd2864f94f8b0aaee64e888"),
        (Residual, "ffbdd80752b1bb4818f04873c9b0457195ed031cf4cbbc7fcc18b0904990c372"),
    ],
)
def test_digests_know_the_classes_as_before_the_move(kind: type, digest: str) -> None:
    """The digests are those of `soundsmooth.bench.networks`; the stored runs promise them with the weights."""
    assert full_name(kind) == f"soundsmooth.bench.networks.{kind.__name__}"
    assert code_digest(kind) == digest


@pytest.mark.parametrize("module", MOVED)
def test_what_has_moved_is_there(module: str) -> None:
    assert import_module(module)
