"""`memory`: H_A in NumPy and as linear layers and ReLU: the same answers, and the same false certificates."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import torch
from scipy.stats import binom

from soundsmooth.lab.gallery import relu
from soundsmooth.lab.gallery.certifiers import Array, Certifier, FloatSum, GuardBand, Ours, Standard, values
from soundsmooth.lab.gallery.entries import memory
from soundsmooth.lab.gallery.images import load_images
from soundsmooth.lab.gallery.known_by_floats import brighter, reachable_from_any
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding

N = 1000


def noisy_inputs(members: Array, others: Array, each: int, dtype: str) -> Array:
    """Noisy copies: of members, of members with a few pixels one level up, of brighter members, and of other images."""
    rng = np.random.default_rng(11)
    near = [member for member in members for _ in range(each)]
    touched = [slightly_brighter(member, int(rng.integers(1, 25)), rng) for member in near]
    moved = [brighter(member, rng)[0] for member in near[:: max(1, each // 50)]]
    far = [others[i] for i in rng.integers(0, len(others), len(near))]
    clean = values(np.array(near + touched + moved + far), np.dtype(dtype)).reshape(-1, members[0].size)
    drawn: type = np.float64 if dtype == "float64" else np.float32
    noisy: Array = clean + rng.standard_normal(clean.shape, dtype=drawn)
    return noisy


def slightly_brighter(member: Array, changed: int, rng: np.random.Generator) -> Array:
    touched = member.copy()
    touched.flat[rng.permutation(np.flatnonzero((member > 0) & (member < 255)))[:changed]] += 1
    return touched


def answers(scores: Callable[[Array], Array], x: Array) -> npt.NDArray[np.intp]:
    return np.concatenate([np.asarray(scores(part)).argmax(axis=1) for part in np.array_split(x, -(-len(x) // 1000))])


def by_torch(module: torch.nn.Module, x: Array) -> Array:
    with torch.inference_mode():
        return module(torch.from_numpy(x)).numpy()


def by_onnx(steps: list[relu.Layer]) -> Callable[[Array], Array]:
    session = relu.session(steps)
    return lambda x: session.run(None, {"image": x})[0]


@pytest.fixture(scope="module")
def known() -> tuple[Array, Array]:
    """Five embedded images of 784 pixels, and all the others."""
    images, _ = load_images(None)
    members = memory.darkest(images)
    others = images[~(images[:, None] == members[None]).all(axis=(2, 3, 4)).any(axis=1)]
    return members, others


@pytest.fixture(scope="module")
def float32_case(known: tuple[Array, Array]) -> tuple[list[relu.Layer], Array, npt.NDArray[np.intp]]:
    """The layers, 10 000 noisy inputs and more, and NumPy's answers; each answer is given thousands of times."""
    members, others = known
    x = noisy_inputs(members, others, 700, "float32")
    expected = answers(reachable_from_any(members)(np.dtype("float32")), x)
    assert len(x) >= 10_000
    assert 3500 < expected.sum() < len(x) - 3500
    touched = expected[3500:7000].mean()
    assert 0.1 < touched < 0.9, "points near a member should be hard to tell"
    return relu.layers(members), x, expected


def test_torch_agrees_everywhere(float32_case: tuple[list[relu.Layer], Array, npt.NDArray[np.intp]]) -> None:
    steps, x, expected = float32_case
    np.testing.assert_array_equal(answers(partial(by_torch, relu.network(steps)), x), expected)


def test_onnxruntime_agrees_everywhere(float32_case: tuple[list[relu.Layer], Array, npt.NDArray[np.intp]]) -> None:
    steps, x, expected = float32_case
    np.testing.assert_array_equal(answers(by_onnx(steps), x), expected)


def test_float64_agrees_too(known: tuple[Array, Array]) -> None:
    members, others = known
    x = noisy_inputs(members[:2], others, 200, "float64")
    expected = answers(reachable_from_any(members[:2])(np.dtype("float64")), x)
    steps = relu.layers(members[:2], "float64")
    assert 400 < expected.sum() < len(x) - 400
    np.testing.assert_array_equal(answers(partial(by_torch, relu.network(steps)), x), expected)
    np.testing.assert_array_equal(answers(by_onnx(steps), x), expected)


def small_members() -> Array:
    return np.random.default_rng(2).integers(0, 256, (3, 12)) * np.array([1] * 11 + [0])


def test_inputs_without_noise_and_extreme_ones() -> None:
    """Members themselves, zeros of both signs, tiny and large values."""
    members = small_members()
    a = values(members, np.dtype("float32"))
    special = [0.0, -0.0, 1e-30, -1e-20, 2.0**-60, 1.0, -1.0, 1000.0, -5e5]
    x = np.concatenate([a, *(np.full((1, 12), v, np.float32) for v in special)])
    for v in special:
        x = np.concatenate([x, np.where(np.arange(12) % 5 == 0, np.float32(v), a)])
    expected = answers(reachable_from_any(members)(np.dtype("float32")), x)
    steps = relu.layers(members)
    assert expected[:3].tolist() == [1, 1, 1]
    assert 0 < expected[3:].sum() < len(expected) - 3
    np.testing.assert_array_equal(answers(partial(by_torch, relu.network(steps)), x), expected)
    np.testing.assert_array_equal(answers(by_onnx(steps), x), expected)


def test_the_order_of_summation_changes_no_bit() -> None:
    """Each dot product term by term in random orders, the bias anywhere among them: the same floats in every layer."""
    rng = np.random.default_rng(3)
    members = small_members()
    value = values(members[rng.integers(0, 3, 40)], np.dtype("float32")) + rng.standard_normal((40, 12), np.float32)
    for step in relu.layers(members):
        terms = np.concatenate([value[:, None, :] * step.weight, np.tile(step.bias[:, None], (40, 1, 1))], axis=2)
        sums = [added(terms[:, :, rng.permutation(terms.shape[2])]) for _ in range(5)]
        assert all((other == sums[0]).all() for other in sums)
        assert ((terms != 0).sum(axis=2) <= 2).all() or set(np.unique(step.weight)) <= {0, 1}
        value = np.maximum(sums[0], 0)


def added(terms: Array) -> Array:
    """One after the other, rounded each time: NumPy's own sum would choose an order."""
    total: Array = np.cumsum(terms, axis=2, dtype=np.float32)[:, :, -1]
    return total


def test_only_linear_layers_and_relu() -> None:
    steps = relu.layers(small_members())
    module, graph = relu.network(steps), relu.graph(steps)
    kinds = [type(part) for part in module]
    assert kinds == [torch.nn.Linear, torch.nn.ReLU] * 5 + [torch.nn.Linear]
    assert [node.op_type for node in graph.graph.node] == ["Gemm", "Relu"] * 5 + ["Gemm"]
    assert module[0].in_features == 12
    assert steps[1].weight.size == relu.weights(small_members())
    onnx.checker.check_model(graph, full_check=True)


@pytest.fixture(scope="module")
def crops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The middle 14 × 14 pixels of 60 embedded images: a small network."""
    path = tmp_path_factory.mktemp("memory") / "crops.npz"
    images, labels = load_images(None)
    np.savez(path, x=images[:60, :, 7:21, 7:21].astype(np.uint8), y=labels[:60])
    return path


@pytest.mark.parametrize("certifier", [Standard("float32"), Standard("float64"), FloatSum()], ids=lambda c: c.name)
def test_false_in_both_forms_for_certifiers_that_add_floats(certifier: Certifier, crops: Path) -> None:
    """As for `image`: all 1000 copies of a are known (radius 2.46; still 1.3 if 100 were not), and hardly one of a′.

    a′ has 100 changed pixels at least, each of which passes with probability 0.92 (float32) or 0.96 (float64) in the
    mean over the levels. Measured on these points, fewer than 0.05 of the copies are taken for a member.
    """
    assert binom.sf(400, N, 0.05) < 1e-100
    found = list(memory.run([certifier], Options(N, crops)))
    assert [trial.finding for trial in found] == [Finding.FALSE_POINT] * 2
    assert [trial.note.split(",")[0] for trial in found] == ["NumPy", "linear + ReLU"]
    assert all(trial.radius is not None and trial.radius > 1.3 for trial in found)
    assert all(trial.distance is not None and trial.distance < 0.09 for trial in found)


@pytest.mark.parametrize("certifier", [Ours(), GuardBand()], ids=lambda c: c.name)
def test_on_the_grid_nothing_is_known(certifier: Certifier, crops: Path) -> None:
    """With noise on the grid not one copy in 10⁶ of any point is a hit: class 0 at both, and nothing false."""
    by_numpy, by_layers = memory.run([certifier], Options(N, crops))
    for trial in (by_numpy, by_layers):
        assert trial.finding is Finding.HOLDS
        assert trial.counts[0][1] < 10


def test_a_network_that_would_be_too_large_is_left_out(crops: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_WEIGHTS", 1000)
    (only,) = memory.run([Standard("float32")], Options(100, crops))
    assert "no network" in only.note
