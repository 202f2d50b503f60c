"""Where noise is made and why there: on the GPU, or on the CPU with the reason said; and what is refused outright."""

import sys

import numpy as np
import pytest
import torch

import soundsmooth as ss
import soundsmooth.noise
from issuing import issue
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import settings
from soundsmooth.core.machine import InputPlacement
from soundsmooth.models.torch_module import TorchModel
from soundsmooth.noise import Gaussian, GpuSampler, Keystream, Purpose, Sampler
from soundsmooth.noise.gpu import sampler_at
from soundsmooth.noise.log_guide import CrowdedError
from soundsmooth.smoothing.classifier import Smoothing

GPU = torch.cuda.is_available()
DEVICE = "cuda:0" if GPU else "cpu"
PLACE = InputPlacement(DEVICE)
BITS = Keystream(bytes(range(32)), Purpose.ESTIMATION, 0)
X = np.arange(48, dtype=np.int16).reshape(3, 4, 4)
NO_TRITON = "cpu, because Triton is not installed (pip install triton)"
CROWDED = "cpu, because sigma = 64 on a grid with q = 255 puts the breakpoints too close together"


class Brightness(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.flatten(1).mean(1)
        return torch.stack([0.5 - mean, mean - 0.5], dim=1)


class OnDevice(TorchModel):
    """A model with a place; on the CPU it behaves as if that were a GPU."""

    @property
    def placement(self) -> InputPlacement:
        return InputPlacement(str(self._device), self._precision, self._channels_last)


@pytest.fixture
def no_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `import triton` failed, and our kernels had never been imported."""
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "soundsmooth.noise.kernels", raising=False)
    monkeypatch.delattr(soundsmooth.noise, "kernels", raising=False)


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch, quick_interpreter: None) -> None:
    """Fewer places for undecided elements make the interpreter quicker."""
    monkeypatch.setattr("soundsmooth.noise.gpu.FEW_UNDECIDED", 2)


def made_by(model: TorchModel, sigma: str) -> tuple[Smoothing, ss.Certificate]:
    smoothing = Smoothing.of(model, Gaussian(sigma), batch=10, threads=1)
    (found,) = issue(smoothing, Inputs((0,), (X,), [None]), settings(n0=10, n=20), secret("s"))
    return smoothing, found


def test_without_a_place_on_the_cpu() -> None:
    sampler, words = sampler_at(Gaussian("1/4"), None)
    assert isinstance(sampler, Sampler)
    assert words == "cpu"


def test_on_the_gpu_of_the_model() -> None:
    sampler, words = sampler_at(Gaussian("1/4"), PLACE)
    assert isinstance(sampler, GpuSampler)
    assert (sampler.placement, words) == (PLACE, "gpu")


@pytest.mark.usefixtures("no_triton")
def test_without_triton_on_the_cpu() -> None:
    with pytest.raises(ImportError):
        GpuSampler(Gaussian("1/4"), PLACE)
    sampler, words = sampler_at(Gaussian("1/4"), PLACE)
    assert isinstance(sampler, Sampler)
    assert words == NO_TRITON
    expected = Sampler(Gaussian("1/4"), 1).noisy(BITS, X, 0, 5).values
    assert np.array_equal(sampler.noisy(BITS, X, 0, 5).values, expected)


def test_a_crowded_law_on_the_cpu() -> None:
    """Where one comparison does not settle a word: no wrong noise, no error, and the reason is said."""
    with pytest.raises(CrowdedError):
        GpuSampler(Gaussian("64"), PLACE)
    sampler, words = sampler_at(Gaussian("64"), PLACE)
    assert isinstance(sampler, Sampler)
    assert words == CROWDED


def test_the_certificate_says_where() -> None:
    """Beside the promise, since the noise is the same wherever it is made."""
    plain, at_home = made_by(TorchModel(Brightness(), "cpu"), "1/4")
    placed, on_device = made_by(OnDevice(Brightness(), DEVICE), "1/4")
    assert (plain.made, placed.made) == ("cpu", "gpu")
    assert "gpu" in on_device.environment.values()
    assert "cpu" in at_home.environment.values()
    promises = [each.promise.values for each in (at_home, on_device)]
    assert promises[0].keys() == promises[1].keys()
    assert {name for name in promises[0] if promises[0][name] != promises[1][name]} == ({"device"} if GPU else set())
    copies = [each.replicas[0].sampler.noisy(BITS, X, 0, 5, sure=True).values for each in (plain, placed)]
    assert np.array_equal(copies[0], copies[1].cpu().numpy())
    if not GPU:  # there a model may round otherwise, and its promise, so its key, is another
        assert (at_home.promise, at_home.estimation) == (on_device.promise, on_device.estimation)


@pytest.mark.usefixtures("no_triton")
def test_the_certificate_says_that_triton_is_missing() -> None:
    smoothing, found = made_by(OnDevice(Brightness(), DEVICE), "1/4")
    assert smoothing.made == NO_TRITON
    assert NO_TRITON in found.environment.values()
    if not GPU:
        assert found.estimation == made_by(TorchModel(Brightness(), "cpu"), "1/4")[1].estimation


def test_the_certificate_says_that_the_law_is_crowded() -> None:
    smoothing, found = made_by(OnDevice(Brightness(), DEVICE), "64")
    assert smoothing.made == CROWDED
    assert CROWDED in found.environment.values()


# --- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "int8", "float8_e4m3fn", "half", "bfloat", torch.float16])
def test_a_precision_that_there_is_not(dtype: object) -> None:
    with pytest.raises(ValueError, match="dtype must be float32, bf16 or fp16, not"):
        ss.Smoother(Brightness(), "1/4", dtype=dtype)


@pytest.mark.parametrize("precision", ["float64", "float8_e4m3fn", "int16", "bf16"])
def test_a_place_in_another_precision(precision: str) -> None:
    with pytest.raises(ValueError, match="a batch is made in float32, bfloat16, float16, not in"):
        InputPlacement(DEVICE, precision)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:63"])
def test_a_gpu_that_is_not_there(device: str) -> None:
    """One line that names the device; nothing falls back to the CPU by itself."""
    if GPU and device != "cuda:63":
        pytest.skip("this machine has the device")
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2))
    with pytest.raises(ValueError, match=r"the module cannot run on cuda:[0-9]+ in float32: .") as refused:
        ss.Smoother(module, "1/4", device=device)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("device", ["gpu", "CUDA", "cuda:-1", "cuda:x", ""])
def test_a_device_that_there_is_not(device: object) -> None:
    with pytest.raises(ValueError, match="device must be cpu, cuda or cuda:1 and so on, not"):
        ss.Smoother(Brightness(), "1/4", device=device)


def test_a_module_without_numbers() -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2, device="meta"))
    with pytest.raises(ValueError, match="the module has no weights"):
        ss.Smoother(module, "1/4")
    with pytest.raises(ValueError, match="the module has no weights"):
        ss.Smoother(torch.nn.Linear(2, 2), "1/4", device="meta")


class Elsewhere(Brightness):
    """Keeps a tensor on another device, out of sight of `to`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * torch.ones(2, device="meta")


def test_a_module_that_computes_on_another_device() -> None:
    with pytest.raises(ValueError, match=r"the model failed on a batch of shape \[10, 3, 4, 4\]"):
        made_by(TorchModel(Elsewhere(), "cpu"), "1/4")


@pytest.mark.parametrize(
    "sampler", [Sampler(Gaussian("1/4"), 1), GpuSampler(Gaussian("1/4"), PLACE)], ids=["cpu", "gpu"]
)
def test_noise_that_does_not_fit_into_memory(sampler: Sampler | GpuSampler) -> None:
    with pytest.raises(ValueError, match=r"a batch of 9 needs 1048576\.0 GiB, but .* GiB are free; lower it"):
        sampler.check_memory(1 << 50, "a batch of 9", "lower it")
    sampler.check_memory(1 << 10, "a batch of 9", "lower it")
