"""Whole certifications against the specification, in slow integers: the counts of each certificate, voted by hand.

Nothing is shared with the way through the program but the reference sampler: the key is derived here from the record's
own promise, seed and nonce, the noise is read by its address, and the clamp, the values and the votes are written out
once more. So a stream, a key, a copy or a batch that is not the promised one shows, whichever way was taken.
"""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

import soundsmooth as ss
from classifiers import brightness
from command import run_command
from soundsmooth.core.grid import nearest_float32
from soundsmooth.noise import Gaussian, reference_noise

SELECTION, ESTIMATION, SHARED = 0, 1, 2**64 - 1
MARGIN, N0, N, BATCH = 255, 41, 83, 6  # neither n0 nor n is a multiple of the batch
LAW = Gaussian("0.5", 1)
IMAGES = np.array([[[100, 150], [130, 120]], [[90, 160], [125, 127]], [[140, 128], [110, 150]]], np.uint8)
SEED, NONCE = "by hand", "5a" * 32
MODES = ("fresh", "shared", "batchwise")


def key_of(record: dict) -> bytes:
    """HKDF of seed and nonce, salted with the commitment (docs/noise.md, part 2)."""
    material = bytes.fromhex(record["seed"]) + bytes.fromhex(record["nonce"])
    return HKDF(SHA256(), 32, bytes.fromhex(record["commitment"]), b"soundsmooth noise v1").derive(material)


def counts_by_hand(record: dict, image: np.ndarray, purpose: int, copies: int) -> dict:
    """What so many noisy copies of the image vote, each alone."""
    key, found = key_of(record), [0, 0]
    stream = record["index"] if record["promise"]["noise"] == "fresh" else SHARED
    levels = [int(level) for level in image.reshape(-1)]
    for copy in range(copies):
        noise = [reference_noise(LAW, key, purpose, stream, copy * len(levels) + c) for c in range(len(levels))]
        noisy = [min(max(x + t, -MARGIN), 255 + MARGIN) for x, t in zip(levels, noise, strict=True)]
        row = np.array([nearest_float32(Fraction(level, 255)) for level in noisy], np.float32)
        found[int(brightness(row.reshape(1, *image.shape)).argmax())] += 1
    return {"classes": found, "nobody": 0}


def check(records: list[dict], noise: str, images: np.ndarray = IMAGES) -> None:
    assert [record["index"] for record in records] == list(range(len(images)))
    for record, image in zip(records, images, strict=True):
        assert record["promise"]["noise"] == noise
        assert record["nonce"] == NONCE
        assert record["selection"] == counts_by_hand(record, image, SELECTION, N0)
        assert record["estimation"] == counts_by_hand(record, image, ESTIMATION, N)


def smoother(**options: object) -> ss.Smoother:
    return ss.Smoother(brightness, "0.5", k=1, batch_size=BATCH, **{"independence": "assumed", **options})


def test_the_hand_can_tell_streams_apart() -> None:
    """Other streams give other counts. All three agree by chance with probability below 1/1000, for each purpose."""
    certificates = smoother().certify_all(IMAGES, n0=N0, n=N, seed=SEED, nonce=NONCE)
    pairs = [(certificate.to_dict(), image) for certificate, image in zip(certificates, IMAGES, strict=True)]
    assert any(record["selection"] != counts_by_hand(record, image, ESTIMATION, N0) for record, image in pairs)
    assert any(record["estimation"] != counts_by_hand(record, image, SELECTION, N) for record, image in pairs)


def test_a_lone_image() -> None:
    certificate = smoother().certify(IMAGES[0], n0=N0, n=N, seed=SEED, nonce=NONCE)
    check([certificate.to_dict()], "fresh", IMAGES[:1])


@pytest.mark.parametrize("noise", MODES)
def test_a_data_set(noise: str) -> None:
    certificates = smoother().certify_all(IMAGES, n0=N0, n=N, noise=noise, seed=SEED, nonce=NONCE)
    check([certificate.to_dict() for certificate in certificates], noise)


def test_measured_independence() -> None:
    smooth = smoother(independence="measured", again=3)
    check([each.to_dict() for each in smooth.certify_all(IMAGES, n0=N0, n=N, seed=SEED, nonce=NONCE)], "fresh")


@pytest.mark.parametrize("noise", MODES)
def test_a_kept_run(noise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", x=IMAGES)
    options = ("--sigma", "0.5", "--k", "1", "--n0", N0, "--n", N, "--batch-size", BATCH, "--independence", "assumed")
    asked = ("classifiers:make_brightness", "data.npz", *options, "--noise", noise, "--seed", SEED, "--nonce", NONCE)
    for words in (("certify", *asked, "--out", "run.db"), ("runs", "export", "run.db", "--to", "run.jsonl")):
        run_command(*words)
    check([json.loads(line) for line in Path("run.jsonl").read_text(encoding="utf-8").splitlines()], noise)
