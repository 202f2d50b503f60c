"""Several workers, and the look-ahead of a GPU: the same certificates in the same order, and none lost to an error."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import torch

import soundsmooth as ss
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import settings
from soundsmooth.core.machine import InputPlacement
from soundsmooth.models.torch_module import TorchModel
from soundsmooth.noise import Gaussian
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.run import certify_inputs
from soundsmooth.smoothing.classifier import Smoothing

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


def run(smooth: Smoothing, noise: str = "fresh", n: int = 120) -> ss.Run:
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
    assert len(Gate.threads - {threading.get_ident()}) == 2  # this one asked for the classes


def outcome(found: ss.Run) -> tuple[list[int], list[int], set[str]]:
    """The places of the certificates, those of the failures, and the errors."""
    failed = found.failures
    places = [INDICES.index(each.index) for each in found]
    return places, [INDICES.index(each.index) for each in failed], {each.error.rpartition(": ")[2] for each in failed}


@pytest.mark.parametrize("workers", [1, 3])
def test_what_fails_takes_no_other_image_with_it(workers: int) -> None:
    """Images 0 to 5 are certified; the others make the model raise, and are wrong answers."""
    found = outcome(run(smoothing(Failing(), "1/1000", workers)))
    assert found == (list(range(6)), [6, 7, 8], {"too bright"})


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


def test_what_was_finished_out_of_order_is_in_order() -> None:
    """Image 3 fails when later ones are finished: they are all there, and each once."""
    FailsLate.passed.clear()
    found = outcome(run(smoothing(FailsLate(), "1/1000", workers=2)))
    assert found == ([0, 1, 2, 4, 5, 6, 7, 8], [3], {"too late"})


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_closing_early_stops_the_threads(taken: int) -> None:
    """No thread is left, and the inputs that nobody asked for are not all certified."""
    before = set(threading.enumerate())
    levels = tuple(IMAGES[i % 9].astype(np.int16) for i in range(3000))
    inputs = Inputs(tuple(range(3000)), levels, [None] * 3000)
    plan = plan_run(LocalPool(smoothing(Brightness(), workers=3)), inputs, settings(n0=20, n=100), secret("s"))
    with open_store(None, plan) as store:
        certificates = certify_into(store, plan)
        for _ in range(taken):
            next(certificates)
        certificates.close()
        assert set(threading.enumerate()) <= before
        assert store.copies_voted() < 3000 * 120


def test_an_error_stops_the_other_workers() -> None:
    before = set(threading.enumerate())
    with pytest.raises(ValueError, match=r"the model changed|not the promised one"):
        run(smoothing(Learner(), workers=3))
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("workers", [2, 7])
def test_callables_refuse_several_workers(workers: int) -> None:
    with pytest.raises(ValueError, match="a Python function may not be thread-safe; leave out workers"):
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
    made = Smoothing.of(Ahead(module, threads=1, independence="assumed"), Gaussian(sigma), 50, 1, workers)
    assert made.made.startswith("cpu, because Triton is not installed")
    return made


@pytest.mark.parametrize("noise", ["fresh", "shared", "batchwise"])
@pytest.mark.parametrize("workers", [1, 2])
def test_looking_ahead_changes_nothing(monkeypatch: pytest.MonkeyPatch, noise: str, workers: int) -> None:
    alone = [essence(each) for each in run(smoothing(Brightness()), noise)]
    assert [essence(each) for each in run(ahead(Brightness(), monkeypatch, "1/4", workers), noise)] == alone


class Counting(Brightness):
    """Counts the copies that it has seen."""

    seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Counting.seen += len(x)
        return super().forward(x)


def test_the_next_input_is_begun_before_the_last_one_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model has seen more than one input's copies when the first certificate comes; without a place, one's."""
    for smooth, more in ((smoothing(Counting()), False), (ahead(Counting(), monkeypatch, "1/4"), True)):
        levels = tuple(image.astype(np.int16) for image in IMAGES)
        inputs = Inputs(INDICES, levels, [None] * len(IMAGES))
        plan = plan_run(LocalPool(smooth), inputs, settings(n0=20, n=100), secret("s"))
        Counting.seen = 0
        with open_store(None, plan) as store, closing(certify_into(store, plan)) as certificates:
            next(certificates)
        assert (Counting.seen > 120) == more


@pytest.mark.parametrize("workers", [1, 2])
def test_looking_ahead_loses_nothing_to_an_error(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    """Number 6 raises while number 5 is still being counted: number 5 is certified."""
    found = outcome(run(ahead(Failing(), monkeypatch, "1/1000", workers)))
    assert found == (list(range(6)), [6, 7, 8], {"too bright"})


class Learner(Brightness):
    """Moves its threshold with every batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.threshold.data += 0.01
        return super().forward(x)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_whose_model_changes_is_noticed(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    """Each worker has a model of its own, and each is compared with the promise; with look-ahead too."""
    for smooth in (smoothing(Learner(), workers=workers), ahead(Learner(), monkeypatch, "1/4", workers)):
        seen = "the model changed while it was certified|model is not the promised one"  # by the next to begin
        with pytest.raises(ValueError, match=seen):
            run(smooth)
