"""The promise, its commitment and the key: checked against hashlib and hmac, and against the documented vector."""

import hashlib
import hmac
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness
from soundsmooth.certification.promise import FIELDS, Inputs, Promise, Secret, secret
from soundsmooth.certification.settings import settings
from soundsmooth.core.grid import IMAGES, Grid
from soundsmooth.models.callables import CallableModel
from soundsmooth.models.digest import callable_digest
from soundsmooth.noise import Gaussian
from soundsmooth.runs.plan import plan_run, promise_of
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.worker import ModelSurvey, WorkerKind
from soundsmooth.smoothing.classifier import Smoothing
from soundsmooth.smoothing.prediction import predict

DOCS = Path(__file__).parents[2] / "docs" / "noise.md"


def some_promise(**changes: str) -> Promise:
    return Promise({name: changes.get(name, f"value of {name}") for name in FIELDS})


def hkdf_by_hand(ikm: bytes, salt: bytes, info: bytes) -> bytes:
    """RFC 5869 for 32 bytes of output: extract, then one block of expand."""
    pseudorandom = hmac.new(salt, ikm, hashlib.sha256).digest()
    return hmac.new(pseudorandom, info + b"\x01", hashlib.sha256).digest()


def test_commitment_is_the_sha256_of_the_text() -> None:
    promise = some_promise()
    lines = ["soundsmooth promise v1", *(f"{name}: value of {name}" for name in FIELDS)]
    text = "".join(f"{line}\n" for line in lines).encode("ascii")
    assert promise.commitment == hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_is_committed_to(field: str) -> None:
    assert some_promise(**{field: "another value"}).commitment != some_promise().commitment


@pytest.mark.parametrize("bad", ["two\nlines", "tab\t", "umläut", " space before", ""[:0] + "bell\a"])
def test_values_cannot_break_the_format(bad: str) -> None:
    with pytest.raises(ValueError, match="plain text"):
        some_promise(model=bad)


def test_fields_are_fixed_in_number_and_order() -> None:
    values = dict(some_promise().values)
    with pytest.raises(ValueError, match="in this order"):
        Promise(dict(reversed(values.items())))
    values.pop("n")
    with pytest.raises(ValueError, match="in this order"):
        Promise(values)


def test_key_is_hkdf_of_seed_and_nonce_salted_with_the_commitment() -> None:
    promise, seed, nonce = some_promise(), bytes(range(32)), bytes(range(32, 64))
    salt = bytes.fromhex(promise.commitment)
    assert Secret(seed, nonce).key(promise) == hkdf_by_hand(seed + nonce, salt, b"soundsmooth noise v1")
    assert Secret(seed).key(promise) == hkdf_by_hand(seed, salt, b"soundsmooth noise v1")


def test_documented_vector() -> None:
    """The vector in docs/noise.md is what the code gives, so an outsider can check an implementation by it."""
    blocks = dict(
        re.findall(r"```(promise-text|promise-vector)\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    )
    title, *lines = blocks["promise-text"].splitlines()
    assert title == "soundsmooth promise v1"
    promise = Promise(dict(line.split(": ", 1) for line in lines))
    vector = dict(line.split(": ", 1) for line in blocks["promise-vector"].splitlines())
    assert promise.text == blocks["promise-text"]
    assert promise.commitment == vector["commitment"] == hashlib.sha256(blocks["promise-text"].encode()).hexdigest()
    hidden = Secret(bytes.fromhex(vector["seed"]), bytes.fromhex(vector.get("nonce", "")))
    assert hidden.key(promise).hex() == vector["key"]
    assert promise.values["seed"] == hidden.digest


def test_documented_vector_of_given_floats() -> None:
    """By hashlib alone, and by the code: the digest of floats as given, the prices, and the promise with its line."""
    (block,) = re.findall(r"```given-vector\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    vector = dict(line.split(": ", 1) for line in block.splitlines())
    floats, levels = np.array([0, 1, 6, 255], np.float32) * np.float32(1 / 255), np.full(4, 7, np.uint8)
    first = hashlib.sha256(b"float32 1 2 2\n" + bytes.fromhex(vector["floats"])).digest()
    second = hashlib.sha256(b"int16 1 2 2\n" + np.full(4, 7, "<i2").tobytes()).digest()
    assert floats.astype("<f4").tobytes().hex() == vector["floats"]
    found = [IMAGES.snap(image.reshape(1, 2, 2)) for image in (floats, levels)]
    images = Inputs((0, 5), [each.levels for each in found], (3, None), [each.rounded for each in found])
    given = images.given(IMAGES)
    assert given == vector["given"] == f"{hashlib.sha256(first + second).hexdigest()} tolerance=1/4194304"
    assert images.digest() == vector["inputs"]
    prices = [images.paid(place, IMAGES) for place in range(2)]
    assert [price and price.hex() for price in prices] == [vector["paid, first"], vector["paid, second"]]
    plain = re.findall(r"```promise-text\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)[0]
    values = {**Promise.of_text(plain).values, "inputs": images.digest(), "given": given}
    text = plain.replace(Promise.of_text(plain).values["inputs"], images.digest()) + f"given: {given}\n"
    assert Promise(values).text == text
    assert Promise.of_text(text).commitment == vector["commitment"] == hashlib.sha256(text.encode()).hexdigest()


def test_lines_that_are_optional_come_last_and_once() -> None:
    values, line = dict(some_promise().values), {"given": f"{'ab' * 32} tolerance=1/4194304"}
    assert Promise({**values, **line}).text == some_promise().text + f"given: {line['given']}\n"
    for wrong in ({**line, **values}, {**values, **line, "more": "1"}):
        with pytest.raises(ValueError, match="in this order"):
            Promise(wrong)


def test_given_floats_depend_on_their_type_shape_and_order_but_not_on_how_levels_came() -> None:
    """Images on the grid count as their levels, whatever type they have. How bytes lie in memory counts nowhere."""
    near = np.full((2, 2), 6, np.float32) * np.float32(1 / 255)
    near[0, 0] = 0
    others = [near, near.astype(np.float64), near.T[::-1], near.reshape(4)]
    digests = {of(image) for image in others}
    assert len(digests) == len(others)
    assert of(near.astype(">f4")) == of(np.asfortranarray(near)) == of(near)
    grey = np.full((2, 2), 51, np.uint8)
    assert len({of(near, each) for each in (grey, grey.astype(np.int64), grey / 255, (grey / 255).astype("f4"))}) == 1
    assert of(near, grey) != of(grey, near)
    assert of(grey, grey / 255) is None


def of(*images: np.ndarray) -> str | None:
    found = [IMAGES.snap(image) for image in images]
    labels = [None] * len(found)
    inputs = Inputs(range(len(found)), [each.levels for each in found], labels, [each.rounded for each in found])
    return inputs.given(IMAGES)


def test_roundings_are_as_many_as_images() -> None:
    found = IMAGES.snap(np.full((2, 2), 6, np.float32) * np.float32(1 / 255))
    with pytest.raises(ValueError, match="do not match"):
        Inputs((0,), (found.levels,), (None,), (found.rounded, None))
    assert Inputs((0,), (found.levels,), (None,), (None,)).rounded == ()


def test_seed_is_hexadecimal_or_hashed_text_or_random() -> None:
    digits = "ab" * 32
    assert secret(digits).seed == bytes.fromhex(digits) == secret(digits.upper()).seed
    assert secret("any text").seed == hashlib.sha256(b"any text").digest()
    assert secret("ab" * 31).seed == hashlib.sha256(b"ab" * 31).digest()
    assert secret().seed != secret().seed
    assert len(secret().seed) == 32
    with pytest.raises(ValueError, match="32 bytes"):
        secret(b"short")


def test_nonce_is_32_bytes_or_nothing() -> None:
    assert secret(nonce=None).nonce == b""
    assert secret("s", "cd" * 32).nonce == bytes.fromhex("cd" * 32)
    for bad in ("cd", "not hexadecimal", b"x" * 31, "", b""):  # empty: a variable of the shell that was never set
        with pytest.raises(ValueError, match="nonce"):
            secret("s", bad)


def test_a_nonce_without_a_seed_proves_nothing_and_is_refused() -> None:
    """The seed, and with it the commitment, would be drawn after the nonce."""
    with pytest.raises(ValueError, match="give the seed as well"):
        secret(nonce="cd" * 32)


def inputs(levels: int = 7, label: int | None = 3, index: int = 5) -> Inputs:
    return Inputs((index,), (np.full((1, 2, 2), levels, np.int16),), (label,))


def test_inputs_digest_byte_for_byte() -> None:
    image = np.full(4, 7, "<i2").tobytes()
    by_hand = (5).to_bytes(8, "little") + (3).to_bytes(8, "little", signed=True) + image
    assert inputs().digest() == hashlib.sha256(by_hand).hexdigest()
    unlabelled = (5).to_bytes(8, "little") + (-1).to_bytes(8, "little", signed=True) + image
    assert inputs(label=None).digest() == hashlib.sha256(unlabelled).hexdigest()


def test_index_levels_and_labels_are_all_in_the_digest() -> None:
    digests = {inputs().digest(), inputs(levels=8).digest(), inputs(label=4).digest(), inputs(index=6).digest()}
    assert len(digests) == 4


def test_the_order_of_the_inputs_is_in_the_digest() -> None:
    images = (np.zeros((1, 2, 2), np.int16), np.ones((1, 2, 2), np.int16))
    assert Inputs((4, 9), images, (0, 1)).digest() != Inputs((9, 4), images[::-1], (1, 0)).digest()


def test_inputs_must_fit_together() -> None:
    image = np.zeros((1, 2, 2), np.int16)
    with pytest.raises(ValueError, match="do not match"):
        Inputs((0, 1), (image,), (None,))
    with pytest.raises(ValueError, match="numbers of classes"):
        Inputs((0,), (image,), (-1,))  # would read like "no label"
    for indices in ((3, 3), (0, 2**64 - 1), (-1, 0)):  # two images would share their noise; or the shared stream
        with pytest.raises(ValueError, match="number of its own"):
            Inputs(indices, (image, image), (None, None))
    with pytest.raises(ValueError, match="no image"):
        Inputs((), (), ())
    with pytest.raises(ValueError, match="same shape"):
        Inputs((0, 1), (image, image[:, :1]), (None, None))


def test_what_is_promised_cannot_be_changed_afterwards() -> None:
    """Neither by who made the arrays, nor by who reads them: the votes would be on another image."""
    whole, labels = np.full((3, 2, 2), 40, np.int16), [0, 1, 2]
    inputs = Inputs([0, 1, 2], [whole[0], whole[1].T, IMAGES.snap(whole[2]).levels], labels)
    promised = inputs.digest()
    whole[...], labels[0] = 220, 5
    assert inputs.digest() == promised
    assert inputs.labels == (0, 1, 2)
    for image in inputs.levels:
        with pytest.raises(ValueError, match="read-only"):
            image[0, 0] = 1


@pytest.mark.parametrize(
    "levels", [np.full((2, 2), 300, np.int16), np.full((2, 2), -1, np.int16), np.full((2, 2), 65576), np.ones((2, 2))]
)
def test_only_levels_of_the_grid_are_promised(levels: np.ndarray) -> None:
    """An int64 of 65576 would be hashed, and voted on, as 40."""
    smoothing = ss.Smoother(brightness, "0.25").smoothing
    with pytest.raises(ValueError, match=r"take them from Grid.on_grid"):
        plan_run(LocalPool(smoothing), Inputs((0,), (levels,), (None,)), settings(n=10), secret("s"))
    with pytest.raises(ValueError, match=r"take them from Grid.on_grid"):
        predict(smoothing, 0, levels, 10, "0.1")


def test_radii_in_another_norm_do_not_pay_for_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is paid is a Euclidean distance."""
    smooth, near = ss.Smoother(brightness, "0.25"), np.full((2, 2), 6, np.float32) * np.float32(1 / 255)
    monkeypatch.setattr(Gaussian, "norm", "‖δ‖₁")
    with pytest.raises(ValueError, match="radii in ‖δ‖₁ do not pay for that: give levels"):
        smooth.commit([near], seed="s")
    smooth.commit([np.full((2, 2), 6, np.uint8)], seed="s")


def test_promise_of_a_run_word_for_word() -> None:
    """Every field, for a model, inputs and settings that are known."""
    grid, levels = Grid(16, 15, Fraction(1, 2)), np.arange(4, dtype=np.int16).reshape(2, 2)
    smoothing = Smoothing.of(CallableModel(halves), Gaussian("1/3", 2, grid), batch=7)
    images = Inputs((4,), (levels,), (1,))
    hidden = Secret(bytes(32))
    identity, kind = smoothing.model.identity(), WorkerKind("cpu", "any", "")
    survey = ModelSurvey(identity, smoothing.law, 7, kind, {})
    promise = promise_of(survey, images, settings(5, 60, "0.01", "runner-up", "shared"), hidden)
    assert promise.text.splitlines() == [
        "soundsmooth promise v1",
        "spec: 1",
        "model kind: callable",
        f"model: {callable_digest(halves).sha256}",
        f"inputs: {images.digest()}",
        "input count: 1",
        "input shape: 2 2",
        "grid: levels=16 q=15 offset=1/2",
        "margin: 30",
        "sigma: 1/3",
        "n0: 5",
        "n: 60",
        "alpha: 1/100",
        "bound: runner-up",
        "noise: shared",
        "batch: 7",
        "precision: float32",
        "device: cpu",
        "flags: digest=2",
        "independence: checked",
        f"seed: {hashlib.sha256(bytes(32)).hexdigest()}",
    ]


def halves(batch: np.ndarray) -> np.ndarray:
    mean = batch.reshape(len(batch), -1).mean(axis=1)
    return np.stack([0.5 - mean, mean - 0.5], axis=1)


def test_certificate_follows_from_promise_seed_and_nonce_alone() -> None:
    """The same seed and nonce give the same counts; another nonce, or any other promise, gives other noise."""
    smooth, image = ss.Smoother(halves, sigma="0.5"), np.full((2, 2), 140, np.uint8)
    first = smooth.certify(image, n=500, seed="s", nonce="11" * 32)
    again = smooth.certify(image, n=500, seed="s", nonce="11" * 32)
    assert (first.selection, first.estimation) == (again.selection, again.estimation)
    others = [
        smooth.certify(image, n=500, seed="s", nonce="22" * 32),
        smooth.certify(image, n=500, seed="t", nonce="11" * 32),
        smooth.certify(image, n=500, seed="s", nonce="11" * 32, label=1),
        smooth.certify(image, n=500, seed="s", nonce="11" * 32, alpha="0.002"),
    ]
    keys = {Secret(bytes.fromhex(c.seed), bytes.fromhex(c.nonce)).key(c.promise) for c in [first, *others]}
    assert len(keys) == 5
