"""Several workers, and the look-ahead of a GPU: the same certificates in the same order, and none lost to an error."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import soundsmooth as ss
from soundsmooth.machine import InputPlacement
from soundsmooth.models.torch_module import TorchModel
from soundsmooth.noise import law
from soundsmooth.promise import Inputs, secret
from soundsmooth.runs.engine import Smoothing, certify_inputs
from soundsmooth.settings import settings

IMAGES = np.arange(9, dtype=np.uint8)[:, None, None, None] * np.full((1, 2, 3), 28, np.uint8)
INDICES = tuple(range(5, 5 + 3 * len(IMAGES), 3))
FIELDS = ("index", "label", "radius", "p_lower", "p_upper", "truth", "selection", "estimation", "promise", "seed")


class Brightness(torch.nn.Module):
    """Two classes, by the mean of a copy."""

    def __init__(self) -> None:
        super().__init__()
        self.threshold = torch.nn.Parameter(torch.tensor(0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.flatten(1).mean(1)
        return torch.stack([self.threshold - mean, mean - self.threshold], dim=1)


class Failing(Brightness):
    """Raises on the inputs that are brighter than 0.65: the images from number 6 on, at this little noise."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.mean() > 0.65:
            raise RuntimeError("too bright")
        return super().forward(x)


def smoothing(module: torch.nn.Module, sigma: str = "1/4", workers: int = 1) -> Smoothing:
    return ss.Smoother(module, sigma, workers=workers, batch_size=50, threads=1, independence="assumed").smoothing


def run(smooth: Smoothing, noise: str = "fresh", n: int = 120) -> Iterator[ss.Certificate]:
    levels = tuple(image.astype(np.int16) for image in IMAGES)
    inputs = Inputs(INDICES, levels, [None] * len(IMAGES))
    return certify_inputs(smooth, inputs, settings(n0=20, n=n, noise=noise), secret("workers"))


def essence(certificate: ss.Certificate) -> dict[str, Any]:
    """All but the time it took."""
    return {field: getattr(certificate, field) for field in FIELDS}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("noise", ["fresh", "shared", "batchwise"])
@pytest.mark.parametrize("workers", [2, 3, 20])
def test_workers_change_nothing(noise: str, workers: int) -> None:
    """The same promise, counts and radii in the order of the inputs, with more workers than inputs too."""
    alone = [essence(each) for each in run(smoothing(Brightness()), noise)]
    many = [essence(each) for each in run(smoothing(Brightness(), workers=workers), noise)]
    assert many == alone
    assert [each["index"] for each in many] == list(INDICES)
    assert {each["label"] for each in many} >= {0, 1}, "or the test would be dull"


class Gate(Brightness):
    """Waits with the darkest image until another worker has finished a later one."""

    passed = threading.Event()
    threads: set[int] = set()  # noqa: RUF012

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Gate.threads.add(threading.get_ident())
        if x.mean() > 0.3:
            Gate.passed.set()
        elif x.mean() < 0.03:
            assert Gate.passed.wait(120), "nobody works beside the first worker"
        return super().forward(x)


def test_the_order_is_that_of_the_inputs_even_if_a_worker_is_overtaken() -> None:
    Gate.passed.clear()
    Gate.threads.clear()
    found = list(run(smoothing(Gate(), "1/1000", workers=2)))
    assert [each.index for each in found] == list(INDICES)
    assert len(Gate.threads) == 2


def collect(certificates: Iterator[ss.Certificate]) -> tuple[list[int], Exception | None]:
    """The places of what was yielded, and the error that came after."""
    found = []
    try:
        for each in certificates:
            found.append(INDICES.index(each.index))
    except Exception as error:
        return found, error
    return found, None


@pytest.mark.parametrize("workers", [1, 3])
def test_what_was_finished_comes_before_the_error(workers: int) -> None:
    """Images 0 to 5 are certified, number 6 makes the model raise: no vote is dropped and nothing is tried again."""
    found, error = collect(run(smoothing(Failing(), "1/1000", workers)))
    assert found == list(range(6))
    assert isinstance(error, ValueError)
    assert "too bright" in str(error)


class FailsLate(Brightness):
    """Raises on image 3, but only when another worker has come to image 6."""

    passed = threading.Event()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.mean() > 0.65:
            FailsLate.passed.set()
        elif 0.3 < x.mean() < 0.35:
            assert FailsLate.passed.wait(120), "nobody works beside this worker"
            raise RuntimeError("too late")
        return super().forward(x)


def test_what_was_finished_out_of_order_comes_before_the_error() -> None:
    """Images 4 and 5 wait for number 3, which never comes: they are yielded nevertheless, and each once."""
    FailsLate.passed.clear()
    found, error = collect(run(smoothing(FailsLate(), "1/1000", workers=2)))
    assert found[:5] == [0, 1, 2, 4, 5]
    assert found == sorted(set(found) - {3})
    assert "too late" in str(error)


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_closing_early_stops_the_threads(taken: int) -> None:
    """No thread is left, and the inputs that nobody asked for are not all certified."""
    before, seen = set(threading.enumerate()), []
    smooth = smoothing(Brightness(), workers=3)
    levels = tuple(IMAGES[i % 9].astype(np.int16) for i in range(3000))
    inputs = Inputs(tuple(range(3000)), levels, [None] * 3000)
    certificates = certify_inputs(smooth, inputs, settings(n0=20, n=100), secret("s"), seen.append)
    for _ in range(taken):
        next(certificates)
    certificates.close()
    assert set(threading.enumerate()) <= before
    assert sum(seen) < 3000 * 120


def test_an_error_stops_the_other_workers() -> None:
    before = set(threading.enumerate())
    collect(run(smoothing(Failing(), "1/1000", workers=3)))
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("workers", [2, 7])
def test_callables_refuse_several_workers(workers: int) -> None:
    with pytest.raises(ValueError, match="a Python function may not bear several threads; leave out workers"):
        ss.Smoother(lambda batch: batch.reshape(len(batch), -1)[:, :2], "1/4", workers=workers)


@pytest.mark.parametrize("workers", [0, -1, 257, 1.5, True])
def test_a_number_of_workers_that_is_none(workers: Any) -> None:
    with pytest.raises(ValueError, match="workers"):
        ss.Smoother(Brightness(), "1/4", workers=workers)


# --- the look-ahead of a GPU -----------------------------------------------------------------------------------


class Ahead(TorchModel):
    """A model that says it has a place, for which noise is made by the CPU: only the order of the work is a GPU's."""

    @property
    def placement(self) -> InputPlacement | None:
        return InputPlacement("cpu")

    def replica(self, number: int) -> "Ahead":
        return Ahead(self._module, "cpu", independence="assumed")


def ahead(module: torch.nn.Module, monkeypatch: pytest.MonkeyPatch, sigma: str, workers: int = 1) -> Smoothing:
    monkeypatch.setattr("soundsmooth.noise.gpu._kernels", lambda: (_ for _ in ()).throw(ImportError("no Triton")))
    made = Smoothing.of(Ahead(module, threads=1, independence="assumed"), law(sigma), 50, 1, workers)
    assert made.made.startswith("cpu, because Triton is not installed")
    return made


@pytest.mark.parametrize("noise", ["fresh", "shared", "batchwise"])
@pytest.mark.parametrize("workers", [1, 2])
def test_looking_ahead_changes_nothing(monkeypatch: pytest.MonkeyPatch, noise: str, workers: int) -> None:
    alone = [essence(each) for each in run(smoothing(Brightness()), noise)]
    assert [essence(each) for each in run(ahead(Brightness(), monkeypatch, "1/4", workers), noise)] == alone


def test_the_next_input_is_begun_before_the_last_one_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model has voted on two inputs when the first certificate comes; without a place, on one."""
    for smooth, begun in ((smoothing(Brightness()), 1), (ahead(Brightness(), monkeypatch, "1/4"), 2)):
        seen: list[int] = []
        levels = tuple(image.astype(np.int16) for image in IMAGES)
        inputs = Inputs(INDICES, levels, [None] * len(IMAGES))
        next(certify_inputs(smooth, inputs, settings(n0=20, n=100), secret("s"), seen.append))
        assert sum(seen) == begun * 120


@pytest.mark.parametrize("workers", [1, 2])
def test_looking_ahead_loses_nothing_to_an_error(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    """Number 6 raises while number 5 is still being counted: number 5 is yielded, then the error is raised."""
    found, error = collect(run(ahead(Failing(), monkeypatch, "1/1000", workers)))
    assert found == list(range(6))
    assert "too bright" in str(error)


class Learner(Brightness):
    """Moves its threshold with every batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.threshold.data += 0.01
        return super().forward(x)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_whose_model_changes_is_noticed(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    """Each worker has a model of its own, and each is compared with the promise; with look-ahead too."""
    for smooth in (smoothing(Learner(), workers=workers), ahead(Learner(), monkeypatch, "1/4", workers)):
        found, error = collect(run(smooth))
        assert found == []
        assert "the model changed while it was certified" in str(error)
