"""The surface that users meet, and how it answers bad input."""

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness
from command import run_command
from soundsmooth import embedded
from soundsmooth.core import machine
from soundsmooth.noise import keystream
from soundsmooth.smoothing.recipe import SmootherRecipe

GREY = np.full((4, 4), 200, np.uint8)


def test_the_example_of_the_readme() -> None:
    smooth = ss.Smoother(brightness, sigma="0.25")
    certificate = smooth.certify(GREY, n=2000)
    assert certificate.label == 1
    assert certificate.radius > 0.5
    assert certificate.p_lower > 0.9
    assert not certificate.abstained
    assert "self-chosen" in str(certificate)
    assert smooth.predict(GREY).label == 1


def test_numpy_integers_are_integers() -> None:
    smooth = ss.Smoother(brightness, sigma="0.25")
    assert smooth.certify(GREY, n=np.int64(200), n0=np.int32(50), label=np.int64(1)).correct
    assert type(smooth.predict(GREY, n=np.uint8(200)).n) is int
    few = ss.Smoother(brightness, sigma="0.25", batch_size=np.int16(50))
    assert few.certify(GREY, n=200).promise.values["batch"] == "50"
    assert type(few.smoothing.batch) is int
    again = ss.Smoother(brightness, sigma="0.25", threads=np.int64(1), independence="measured", again=np.int64(5))
    assert again.smoothing.model.identity().independence.text == "measured m=5"
    with pytest.raises(ValueError, match="label must be an integer, not 'cat'"):
        smooth.certify(GREY, n=200, label="cat")


def test_a_data_set_is_certified_under_one_promise() -> None:
    images, labels = np.stack([GREY, GREY // 4, GREY]), np.array([1, 0, 0])
    records = list(ss.Smoother(brightness, sigma="0.25").certify_all(images, labels, n=300, seed="s", noise="shared"))
    assert [record.index for record in records] == [0, 1, 2]
    assert [record.correct for record in records] == [True, True, False]
    assert len({record.commitment for record in records}) == 1
    with pytest.raises(ValueError, match="do not match"):
        ss.Smoother(brightness, sigma="0.25").certify_all(images, labels[:2])


def test_some_images_of_a_data_set(tmp_path: Path) -> None:
    """They keep their numbers, and Python promises for them what the command line promises."""
    images, labels = np.arange(70, 77, dtype=np.uint8)[:, None, None] * np.uint8([[3, 1], [2, 3]]), [0, 1] * 3 + [1]
    np.savez(tmp_path / "data.npz", x=images, y=labels)
    smooth, some = ss.Smoother("golden.models:make_differences", "0.25"), {"every": 3, "limit": 2, "n": 20, "seed": "s"}
    run = smooth.certify_all(images, labels, **some, out=tmp_path / "run.db")
    assert [(each.index, each.truth) for each in run] == [(0, 0), (3, 1)]
    assert smooth.commit(tmp_path / "data.npz", **some) == run.promise
    words = [word for name, value in some.items() for word in (f"--{name}", value)]
    told = run_command("commit", "golden.models:make_differences", tmp_path / "data.npz", *words)
    assert told.stdout == run.promise.text
    with pytest.raises(ValueError, match="To continue it: add limit=2"):
        smooth.certify_all(images, labels, **some | {"limit": 3}, out=tmp_path / "run.db")


def test_a_batch_is_not_an_image() -> None:
    smooth = ss.Smoother(embedded.MODELS[min(embedded.MODELS)], "0.25")
    with pytest.raises(ValueError, match="looks like a batch of 8"):
        smooth.certify(np.zeros((8, 1, 28, 28), np.uint8), n=10)


def test_defaults() -> None:
    promise = ss.Smoother(brightness, sigma=0.25).certify(GREY).promise.values
    assert (promise["n0"], promise["n"], promise["alpha"], promise["margin"]) == ("100", "100000", "1/1000", "1530")
    assert promise["sigma"] == "1/4"


def test_prediction_abstains_on_the_boundary_and_discloses_its_key() -> None:
    smooth = ss.Smoother(lambda b: np.tile([[0.0, 1.0], [1.0, 0.0]], (len(b) // 2, 1)), "0.25")
    first, second = smooth.predict(GREY), smooth.predict(GREY)
    assert first.abstained
    assert first.key != second.key
    assert len(bytes.fromhex(first.key)) == 32


@pytest.mark.parametrize(("hits", "label"), [(55, None), (66, None), (67, 1), (80, 1)])
def test_prediction_answers_only_if_the_test_separates(hits: int, label: int | None) -> None:
    """Of 100 votes 66 against 34 have a two-sided P-value of 0.0018, and 67 against 33 one of 0.00087."""

    def some(batch: np.ndarray) -> np.ndarray:
        return np.eye(2)[(np.arange(len(batch)) < hits).astype(int)]

    smooth = ss.Smoother(some, "0.5", batch_size=100, independence="assumed")
    assert smooth.predict(np.zeros((2, 2), np.uint8), n=100, alpha="0.001").label == label


def test_prediction_never_names_nobody() -> None:
    smooth = ss.Smoother(lambda b: np.full((len(b), 2), np.nan), "0.25")
    prediction = smooth.predict(GREY)
    assert prediction.abstained
    assert prediction.counts.nobody == 1000


def test_embedded_model_certifies() -> None:
    with np.load(embedded.IMAGES) as data:
        image, label = data["x"][1], int(data["y"][1])
    certificate = ss.Smoother(embedded.MODELS[min(embedded.MODELS)], sigma="0.25").certify(image, n=500, label=label)
    assert certificate.correct
    assert certificate.promise.values["model kind"] == "onnx"


def bad(text: str, **changes: object) -> object:
    return pytest.param(changes, text, id=text)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        bad("sigma must be greater than 0", sigma=0),
        bad("sigma must be greater than 0", sigma="-0.1"),
        bad("sigma must be a number", sigma="big"),
        bad("sigma must be finite", sigma=float("nan")),
        bad("sigma = 1e2000 is beyond any use|exponent", sigma="1e2000"),
        bad("k must be greater than 0", k=0),
        bad("must be a positive integer", k="0.001"),
        bad("does not fit", k=1000),
        bad("batch size must be at least 1", batch_size=0),
        bad("threads must be between 1", threads=0),
        bad("threads must be between 1", threads=100_000),
        bad("threads must be an integer, not 1.5", threads=1.5),
        bad("threads must be an integer, not '2'", threads="2"),
        bad("independence must be", independence="maybe"),
    ],
)
def test_bad_options(options: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ss.Smoother(brightness, **{"sigma": "0.25", **options})


@pytest.mark.parametrize("make", [ss.Smoother, SmootherRecipe.of])
@pytest.mark.parametrize("threads", [0, -1, 1025, 10**20, 1.5])
def test_threads_are_checked_before_a_model_is_made(make: Callable, threads: float) -> None:
    """onnxruntime starts as many as it is told to."""
    with pytest.raises(ValueError, match="threads must be"):
        make("nowhere.onnx", "0.25", threads=threads)
    with pytest.raises(ValueError, match="there is no model file"):
        make("nowhere.onnx", "0.25", threads=1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        bad("n must be an integer between 1", n=0),
        bad("n0 must be an integer between 1", n0=-5),
        bad("n must be an integer between 1", n=10**9 + 1),
        bad("n must be an integer", n=1.5),
        bad("alpha must lie strictly between 0 and 1", alpha=0),
        bad("alpha must lie strictly between 0 and 1", alpha="1"),
        bad("alpha must lie strictly between 0 and 1", alpha=1.5),
        bad("bound must be one of", bound="jeffreys"),
        bad("nonce", nonce="12"),
    ],
)
def test_bad_settings(options: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ss.Smoother(brightness, "0.25").certify(GREY, **options)


@pytest.mark.parametrize(
    ("image", "text"),
    [
        (GREY / 255 + 1e-3, r"pixel \(0, 0\).*not on the grid.*np\.rint"),
        (GREY / 255 * 4 - 2, r"probably normalised.*soundsmooth\.torch\.Normalize"),
        (GREY * 1.0, r"give x / 255"),
        (np.full((2, 2), -np.inf), r"pixel \(0, 0\) is -inf"),
        (np.full((2, 2), np.nan), r"pixel \(0, 0\) is NaN"),
        (np.array([[3, 256]]), r"pixel \(0, 1\) is 256"),
        (np.array([[3, -1]]), r"pixel \(0, 1\) is -1"),
        (np.array([["a"]]), "dtype"),
        (None, "dtype object"),
        (np.zeros((2, 2), bool), "dtype bool"),
        (np.zeros((2, 0), np.uint8), "no pixels"),
    ],
)
def test_bad_images(image: np.ndarray, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ss.Smoother(brightness, "0.25").certify(image, n=10)


FORMS = {
    "doubles": GREY / 255,
    "float32": (GREY / 255).astype(np.float32),
    "float16": (GREY / 255).astype(np.float16),
    "big-endian": (GREY / 255).astype(">f4"),
    "lists": (GREY / 255).tolist(),
    "turned around": np.asfortranarray(GREY / 255),
    "int64": GREY.astype(np.int64),
}


@pytest.mark.parametrize("form", FORMS)
def test_floats_on_the_grid_are_their_levels(form: str) -> None:
    """In certify, certify_all, commit and predict. The promise has the same bytes, and nothing is paid."""
    smooth, chosen = ss.Smoother(brightness, "0.25", batch_size=10), {"n": 50, "n0": 10, "seed": "s"}
    plain, found = smooth.certify(GREY, **chosen), smooth.certify(FORMS[form], **chosen)
    assert found.promise.text == plain.promise.text
    assert (found.radius, found.paid) == (plain.radius, None)
    several = smooth.certify_all([FORMS[form]], **chosen)
    assert several.promise == plain.promise == smooth.commit([FORMS[form]], **chosen)
    assert smooth.predict(FORMS[form], n=50).rounded is None


def test_floats_near_the_grid_pay() -> None:
    """In certify, certify_all and commit; predict says how far they were. All images of a run pay if one does."""
    smooth, chosen = ss.Smoother(brightness, "0.25", batch_size=10), {"n": 50, "n0": 10, "seed": "s"}
    near = np.full((4, 4), 200, np.float32) * np.float32(1 / 255)
    assert near[0, 0] != np.float32(200 / 255)
    apart = 4 * abs(Fraction(float(near[0, 0])) - Fraction(200, 255))
    found = smooth.certify(near, **chosen)
    assert found.paid is not None
    assert Fraction(found.paid) >= apart + 4 * Fraction(1, 1 << 22)
    assert found.paid < float(apart + 4 * Fraction(1, 1 << 22)) * (1 + 1e-12)
    whole = found.law.radius(found.p_lower, None)
    assert Fraction(found.radius) + Fraction(found.paid) <= Fraction(whole)
    assert whole - found.radius < found.paid * (1 + 1e-6)
    run = smooth.certify_all(np.stack([near, (GREY / 255).astype(np.float32)]), **chosen)
    assert [each.paid for each in run] == [found.paid, 4 * 2.0**-22]
    assert smooth.commit([near], **chosen) == found.promise
    said = smooth.predict(near, n=50)
    assert said.rounded is not None
    assert apart <= Fraction(said.rounded) <= apart * (1 + Fraction(1, 10**12))
    assert "rounded" in said.to_dict()
    with pytest.raises(ValueError, match="not on the grid"):
        smooth.predict(near + np.float32(1e-4), n=50)


def test_tensors_that_require_a_gradient_go_in() -> None:
    torch = pytest.importorskip("torch")
    smooth = ss.Smoother(brightness, "0.25", batch_size=10)
    image = (torch.tensor(GREY) / 255).requires_grad_()
    plain = smooth.certify(GREY, n=50, seed="s")
    assert smooth.certify(image, n=50, seed="s").promise == plain.promise
    assert smooth.certify_all([image], n=50, seed="s").promise == plain.promise
    assert smooth.predict(image, n=50).rounded is None


def test_a_masked_image_is_refused_wherever_it_comes_in() -> None:
    """Its mask would be lost, and what lies under it certified."""
    smooth, masked = ss.Smoother(brightness, "0.25"), np.ma.masked_array(GREY, mask=GREY > 100)
    for ask in (smooth.certify, smooth.predict):
        with pytest.raises(ValueError, match="the image is a masked array"):
            ask(masked, n=10)
    for images in (masked[np.newaxis], [GREY, masked], (masked,)):
        with pytest.raises(ValueError, match="the image is a masked array"):
            smooth.certify_all(images, n=10)
    assert smooth.certify(masked.filled(0), n=100).label == 0


def test_wrong_shape_for_a_model_that_declares_one() -> None:
    smooth = ss.Smoother(embedded.MODELS[min(embedded.MODELS)], "0.25")
    with pytest.raises(ValueError, match=r"takes inputs of shape \[1, 28, 28\], but the image has \[28, 28\]"):
        smooth.certify(np.zeros((28, 28), np.uint8), n=10)
    with pytest.raises(
        ValueError, match=r"has \[1, 40, 32\]; --resize 28 --crop 28, or ss\.load\(…, resize=28, crop=28\)"
    ):
        smooth.certify(np.zeros((1, 40, 32), np.uint8), n=10)


def test_output_that_is_not_scores() -> None:
    with pytest.raises(ValueError, match=r"\[batch, classes\]"):
        ss.Smoother(lambda b: b.sum(), "0.25").certify(GREY, n=10)


def test_a_batch_that_does_not_fit_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory", lambda: 1000)
    with pytest.raises(ValueError, match="lower the batch size"):
        ss.Smoother(brightness, "0.25").certify(GREY, n=10)


def test_a_stream_that_would_overrun_its_address_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keystream, "MOST_ELEMENTS", 1 << 20)  # enough for the first blocks
    calls = []

    def counted(batch: np.ndarray) -> np.ndarray:
        calls.append(1)
        return brightness(batch)

    with pytest.raises(ValueError, match="lower n"):
        ss.Smoother(counted, "0.25").certify(GREY, n=10**6)
    assert not calls


def test_sigma_beyond_any_use() -> None:
    with pytest.warns(UserWarning, match="very large"), pytest.raises(ValueError, match="beyond any use"):
        ss.Smoother(brightness, sigma="1e25")


def test_large_sigma_warns() -> None:
    with pytest.warns(UserWarning, match=r"units of the \[0, 1\] range"):
        ss.Smoother(brightness, sigma=64)


def test_importing_is_light() -> None:
    """`import soundsmooth` loads none of the heavy packages, not even NumPy."""
    heavy = ["numpy", "flint", "torch", "onnx", "onnxruntime", "triton", "ray", "typer", "rich", "cryptography"]
    code = f"import sys, soundsmooth; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_certifying_a_callable_loads_neither_torch_nor_onnxruntime() -> None:
    code = (
        "import sys, numpy as np, soundsmooth as ss\n"
        "ss.Smoother(lambda b: b.reshape(len(b), -1)[:, :2], 1).certify(np.zeros((2, 2), np.uint8), n=10)\n"
        "print([name for name in ('torch', 'onnx', 'onnxruntime', 'scipy') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
