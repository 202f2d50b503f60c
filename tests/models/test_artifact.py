"""The bytes of tuned kernels: written in one way, and anything else is rejected before a kernel is loaded."""

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundsmooth.models import artifact
from soundsmooth.models.artifact import MOST_OF_A_LINE, TITLE, Artifact, Way, compress

WAY = Way(4000, compiled=True, folded=True, timed=True)
KERNELS = b"\x00kernels\n of torch" * 100
ARTIFACT = Artifact("ab" * 32, "a card, torch 2", (3, 32, 32), WAY, "cd" * 32, compress(KERNELS))


def test_it_is_read_as_it_was_written() -> None:
    assert Artifact.of(ARTIFACT.content) == ARTIFACT
    assert ARTIFACT.digest == hashlib.sha256(ARTIFACT.content).hexdigest()


@given(
    st.builds(
        Artifact,
        st.text(),
        st.text(),
        st.lists(st.integers(1, 9), max_size=4).map(tuple),
        st.builds(Way, st.integers(1, 10**6), *[st.booleans()] * 5),
        st.text(),
        st.binary(max_size=30),
    )
)
def test_every_artifact_is_read_as_it_was_written(made: Artifact) -> None:
    assert Artifact.of(made.content) == made


def described(**changes: object) -> bytes:
    """The content with other entries in its description."""
    line, kernels = ARTIFACT.content[len(TITLE) :].split(b"\n", 1)
    return TITLE + json.dumps({**json.loads(line), **changes}, sort_keys=True).encode() + b"\n" + kernels


@pytest.mark.parametrize(
    "content",
    [
        b"",
        TITLE,
        TITLE + b"{}\n",
        TITLE + b"[]\n",
        TITLE + b"[" * 60_000 + b"\n",
        TITLE + b" " * MOST_OF_A_LINE + b"\n",
        ARTIFACT.content[1:],
        ARTIFACT.content.replace(b": ", b":  ", 1),
        ARTIFACT.content.replace(b"true", b"1"),
        described(more=1),
        described(shape=[3, 0, 32]),
        described(shape=[3.0, 32, 32]),
        described(shape=True),
        described(model=None),
        described(way={**WAY._asdict(), "batch": True}),
        described(way={**WAY._asdict(), "batch": -1}),
        described(way={**WAY._asdict(), "timed": 1}),
        described(way={**WAY._asdict(), "faster": True}),
        described(way={"folded": True}),
    ],
)
def test_anything_else_is_rejected(content: bytes) -> None:
    assert described() == ARTIFACT.content
    with pytest.raises(ValueError, match="artifact"):
        Artifact.of(content)


def test_kernels_are_kept_in_few_bytes() -> None:
    assert Artifact.of(ARTIFACT.content).kernels == KERNELS
    assert len(ARTIFACT.content) < len(KERNELS)
    assert replace(ARTIFACT, compressed=compress(b"")).kernels == b""


@pytest.mark.parametrize("damaged", [b"kernels", compress(KERNELS)[:-1], compress(KERNELS) + b"\0"])
def test_damaged_kernels_are_rejected(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="they are damaged"):
        _ = replace(ARTIFACT, compressed=damaged).kernels


def test_kernels_that_grow_without_end_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "MOST_OF_KERNELS", 1000)
    assert replace(ARTIFACT, compressed=compress(bytes(1000))).kernels == bytes(1000)
    with pytest.raises(ValueError, match="they have more than 1000 bytes"):
        _ = replace(ARTIFACT, compressed=compress(bytes(1001))).kernels


def test_an_artifact_of_another_version_is_told_from_other_files() -> None:
    with pytest.raises(ValueError, match="another version of soundsmooth made this artifact; a new run tunes"):
        Artifact.of(ARTIFACT.content.replace(b"artifact 2", b"artifact 1", 1))


def test_a_way_is_said_in_words() -> None:
    assert str(Way(7)) == "batches of 7"
    every = Way(7, compiled=True, folded=True, layouts=False, timed=True, recorded=True)
    assert str(every) == (
        "batches of 7, compiled, normalisation folded, layout kept, kernels chosen by timing, recorded as a CUDA graph"
    )
