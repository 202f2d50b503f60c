"""`soundsmooth bench gpu`: the cost of exact noise on a GPU, beside the forward passes and beside common practice.

The methods run in one process, in turn, on the same model, image and batch size.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...certification.promise import Inputs, secret
from ...certification.settings import settings
from ...core.grid import IMAGES, Levels
from ...core.machine import InputPlacement
from ...models.environment import environment
from ...models.torch_module import TorchModel
from ...noise import Gaussian, GpuSampler, Keystream, Purpose
from ...runs.run import certify_inputs
from ...smoothing.classifier import Smoothing
from ..unsound import batches, count_votes
from ..unsound.paper64 import ambiguous_draws, breaking_points
from .pairs import Alternated, alternate

SIGMAS = ("0.12", "0.25", "0.5", "1")
N0 = 100
#: Calls that are recorded in one CUDA graph, so that the time to launch them from Python is not measured.
CALLS = 10
#: The length of a run, in seconds, about; where one image takes longer, a run is one image.
SECONDS = 6
#: Methods outside `CORE` get fewer rounds, and a run of them takes 1/FEW_IMAGES of the time.
FEW_ROUNDS, FEW_IMAGES = 2, 3


@dataclass(frozen=True)
class Work:
    """A network, the shape of its images, and how many noisy copies of one image are voted on."""

    network: str
    shape: tuple[int, int, int]
    classes: int
    n: int
    batch: int
    copies: int
    """In the measurement of the noise alone."""

    @property
    def level(self) -> Levels:
        return np.random.default_rng(0).integers(0, 256, self.shape).astype(np.int16)


WORKS = (
    Work("resnet110", (3, 32, 32), 10, 100_000, 1000, 10_000),
    Work("resnet50", (3, 224, 224), 1000, 10_000, 1000, 1000),
)


@dataclass(frozen=True)
class Precision:
    """How the network runs: its numbers, and their layout in memory."""

    name: str
    dtype: str
    tf32: bool
    channels_last: bool


PRECISIONS = (
    Precision("fp32", "float32", False, False),
    Precision("tf32", "float32", True, False),
    Precision("bf16 channels-last", "bfloat16", True, True),
)


def measure(
    rounds: int = 5, works: tuple[Work, ...] = WORKS, say: Callable[[str], object] = lambda _: None
) -> dict[str, Any]:
    """All measurements, as JSON can hold them."""
    torch = torch_with_a_gpu()
    torch.backends.cudnn.benchmark = False
    found: dict[str, Any] = {"machine": torch.cuda.get_device_name()}
    found["exactness"] = {sigma: exactness(10**9, sigma) for sigma in SIGMAS}
    say(f"exactness {found['exactness']}")
    found["noise"] = []
    for work in works:
        for row in noise_alone(torch, work):
            say(f"noise {row}")
            found["noise"].append(row)
    found["whole"] = []
    for work in works:
        for precision in PRECISIONS:
            row = end_to_end(torch, work, precision, rounds)
            say(f"whole {row}")
            found["whole"].append(row)
    return found | {"environment": environment()}  # at the end, when all that is used was imported


def noise_alone(torch: Any, work: Work) -> Iterator[dict[str, Any]]:
    """Milliseconds for a batch of noisy copies, per σ and precision, with the GPU's own clock; medians in turn."""
    for sigma in SIGMAS:
        actions = _noises(torch, work, sigma)
        yield {
            "shape": list(work.shape),
            "copies": work.copies,
            "sigma": sigma,
            "ms": _on_the_gpus_clock(torch, actions),
        }


def _noises(torch: Any, work: Work, sigma: str) -> dict[str, Callable[[], object]]:
    """The ways to make a batch of noisy copies."""
    image, deviation, copies = torch.from_numpy(IMAGES.values(work.level)).cuda(), float(sigma), work.copies
    paper, bits = _PaperSampler(torch, sigma, work.level), Keystream(bytes(range(32)), Purpose.ESTIMATION, 0)

    def field() -> Any:
        return image.repeat((copies, 1, 1, 1)) + torch.randn((copies, *work.shape), device="cuda") * deviation

    samplers = {name: GpuSampler(Gaussian(sigma), place) for name, place in PLACES.items()}
    kept = samplers["float32"].noise(bits, 0, copies, work.level.size)
    ways: dict[str, Callable[[], object]] = {
        "field": field,
        "field compiled": torch.compile(field),
        "paper64": lambda: paper.noisy(copies),
        "ours float32, shared": lambda: samplers["float32"].add(kept, work.level),
    }
    for name, sampler in samplers.items():
        ways[f"ours {name}"] = lambda s=sampler: s.noisy(bits, work.level, 0, copies)  # type: ignore[misc]
    return ways


PLACES = {
    "float32": InputPlacement("cuda:0"),
    "bfloat16": InputPlacement("cuda:0", "bfloat16"),
    "bfloat16 channels-last": InputPlacement("cuda:0", "bfloat16", True),
    "float32 channels-last": InputPlacement("cuda:0", "float32", True),
}


def _on_the_gpus_clock(torch: Any, actions: dict[str, Callable[[], object]], rounds: int = 15) -> dict[str, float]:
    """The median time of one call of each, in milliseconds; calls are replayed from a CUDA graph, in turn."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    graphs = {name: _graph(torch, action) for name, action in actions.items() if name != "paper64"}
    for _ in range(rounds):
        for name, graph in graphs.items():
            times[name].append(_between_events(torch, graph.replay) / CALLS)
    for _ in range(3):  # seldom: it is slow, and too large to be kept ten times in a graph
        times["paper64"].append(_between_events(torch, actions["paper64"]))
    return {name: round(float(np.median(taken)), 4) for name, taken in times.items()}


def _graph(torch: Any, action: Callable[[], object]) -> Any:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # set-up that happens once per stream is not recorded
        action(), action()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(CALLS):
            action()
    graph.replay()
    return graph


def _between_events(torch: Any, action: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    action()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


#: The methods that the claims rest on.
CORE = ("forward passes", "standard", "ours, fresh")


def end_to_end(torch: Any, work: Work, precision: Precision, rounds: int, sigma: str = "0.5") -> dict[str, Any]:
    """Seconds for one image from start to certificate, alternated, and the ratios with their intervals."""
    from . import networks

    torch.manual_seed(0)
    module = getattr(networks, work.network)(work.classes).eval().cuda()
    with tf32(torch, precision.tf32):
        model = TorchModel(module, "cuda:0", precision.dtype, precision.channels_last)
        smoothing, own = Smoothing.of(model, Gaussian(sigma), work.batch), Smoothing.of(model, Gaussian(sigma))
        own_batch = own.batch_for(work.shape, work.n)
        plain, paper = Plain(torch, model, work, float(sigma)), _PaperSampler(torch, sigma, work.level)
        for warm_up in _methods(plain, paper, smoothing, own, 2, -(-own_batch // work.batch) * work.batch).values():
            warm_up()
        images = how_many(lambda: plain.forward_passes(work.n))
        few = -(-images // FEW_IMAGES)
        whole = _methods(plain, paper, smoothing, own, images, work.n)
        parts = _methods(plain, paper, smoothing, own, few, work.n)
        first = alternate({name: whole[name] for name in CORE}, rounds)
        second = alternate({name: action for name, action in parts.items() if name not in CORE[1:]}, FEW_ROUNDS)
    more = list(second.seconds)[1:]
    seconds = {name: first.median(name) / images for name in CORE}
    seconds |= {name: second.median(name) / few for name in more}
    return {
        "network": work.network,
        "shape": list(work.shape),
        "n": work.n,
        "batch": work.batch,
        "own batch": own_batch,
        "precision": precision.name,
        "images": images,
        "rounds": rounds,
        "seconds": {name: round(taken, 4) for name, taken in seconds.items()},
        "ratios": ratios(first, [("ours, fresh", "forward passes"), ("ours, fresh", "standard")])
        | ratios(second, [(name, "forward passes") for name in more]),
    }


def _methods(
    plain: "Plain", paper: "_PaperSampler", smoothing: Smoothing, own: Smoothing, count: int, n: int
) -> dict[str, Callable[[], object]]:
    """The methods that are compared, each for `count` images with n copies."""
    images = some_images(plain.work, count)

    def each(action: Callable[[], object]) -> Callable[[], object]:
        return lambda: [action() for _ in images.levels]

    return {
        "forward passes": each(lambda: plain.forward_passes(n)),
        "standard": each(lambda: plain.standard(plain.noisy, n)),
        "ours, fresh": lambda: certify_all(smoothing, images, n, "fresh"),
        "ours, fresh, own batch": lambda: certify_all(own, images, n, "fresh"),
        "standard, noise compiled": each(lambda: plain.standard(plain.noisy_compiled, n)),
        "ours, shared": lambda: certify_all(smoothing, images, n, "shared"),
        "paper64": each(lambda: plain.standard(paper.noisy, n)),
    }


def some_images(work: Work, count: int) -> Inputs:
    """Different images, so that nothing can be kept from one to the next."""
    return Inputs(tuple(range(count)), tuple((work.level + i) % 256 for i in range(count)), (0,) * count)


def how_many(action: Callable[[], object], seconds: float = SECONDS) -> int:
    """The number of images for which a run takes some seconds. Its set-up then weighs little, as in practice."""
    start = time.perf_counter()
    action()
    return max(1, round(seconds / (time.perf_counter() - start)))


def ratios(taken: Alternated, pairs: list[tuple[str, str]]) -> dict[str, list[float]]:
    """Median, lower and upper end of the interval."""
    found = {f"{first} / {second}": taken.ratio(first, second) for first, second in pairs}
    return {name: [round(r.median, 4), round(r.low, 4), round(r.high, 4)] for name, r in found.items()}


def certify_all(smoothing: Smoothing, images: Inputs, n: int, noise: str) -> None:
    certify_inputs(smoothing, images, settings(n0=N0, n=n, noise=noise), secret()).close()


class Plain:
    """The forward passes alone, and standard smoothing as the field writes it: no bound, no records, no checks."""

    def __init__(self, torch: Any, model: TorchModel, work: Work, sigma: float) -> None:
        self.work = work
        self._torch, self._sigma, self._model = torch, sigma, model
        self._image = torch.from_numpy(IMAGES.values(work.level)).cuda()
        self.noisy_compiled = torch.compile(self.noisy)
        self._fixed = {size: model.cast(self.noisy(size)) for size in (N0, work.batch)}

    def forward_passes(self, n: int) -> None:
        """As many as a certification needs, on batches that lie ready."""
        with self._torch.inference_mode():
            for wanted in (N0, n):
                for _, copies in batches(wanted, self.work.batch):
                    self._model.forward(self._fixed[copies])
            self._torch.cuda.synchronize()

    def standard(self, noisy: Callable[[int], Any], n: int) -> None:
        self.votes(N0, noisy)
        self.votes(n, noisy)

    def votes(self, n: int, noisy: Callable[[int], Any]) -> Any:
        """The field's loop: make noise, ask the model, fetch the votes and count them on the CPU."""

        def fetched(first: int, copies: int) -> Any:
            return self._vote(noisy(copies)).cpu().numpy()

        with self._torch.inference_mode():
            return count_votes(fetched, n, self.work.classes, self.work.batch)

    def votes_kept(self, n: int, noisy: Callable[[int], Any]) -> Any:
        """The same, better written: counts stay on the GPU, and nothing waits for it before the last batch."""
        torch = self._torch
        counts = torch.zeros(self.work.classes, dtype=torch.int64, device=self._image.device)
        with torch.inference_mode():
            for _, copies in batches(n, self.work.batch):
                votes = self._vote(noisy(copies))
                counts.scatter_add_(0, votes, torch.ones_like(votes))
            return counts.cpu().numpy()

    def _vote(self, batch: Any) -> Any:
        """The votes on a batch, where the model is."""
        return self._model.forward(self._model.cast(batch)).argmax(1)

    def noisy(self, copies: int) -> Any:
        batch = self._image.repeat((copies, 1, 1, 1))
        return batch + self._torch.randn_like(batch) * self._sigma


class _PaperSampler:
    """The paper's sampler: 64 random bits and a search among the breaking points, by torch's bucketize.

    Signed integers, since torch has no others with a generator: everything is shifted by 2⁶³.
    """

    def __init__(self, torch: Any, sigma: str, x: Levels) -> None:
        self._torch, self._law = torch, Gaussian(sigma)
        shifted = (ambiguous_draws(breaking_points(self._law)) ^ np.uint64(1 << 63)).view(np.int64)
        self._points = torch.from_numpy(shifted).cuda()
        self._x = torch.from_numpy(x.astype(np.int64)).cuda()
        values = IMAGES.values(np.arange(self._law.lowest, self._law.highest + 1))
        self._values = torch.from_numpy(values).cuda()

    def noisy(self, copies: int) -> Any:
        torch, noise = self._torch, self._law
        draws = torch.empty((copies, *self._x.shape), dtype=torch.int64, device="cuda").random_(-(1 << 63), None)
        levels = torch.bucketize(draws, self._points) - noise.reach + self._x
        return self._values[levels.clamp_(noise.lowest, noise.highest) - noise.lowest]


@contextmanager
def tf32(torch: Any, allowed: bool) -> Iterator[None]:
    """The same for convolutions and products, and as it was afterwards."""
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    torch.backends.cudnn.allow_tf32 = allowed
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before[0]
        torch.set_float32_matmul_precision(before[1])


def torch_with_a_gpu() -> Any:
    try:
        import torch
    except ImportError:
        raise ValueError("the comparison needs torch: pip install 'soundsmooth[torch]'") from None
    if not torch.cuda.is_available():
        raise ValueError("there is no GPU that torch can use; `soundsmooth bench cpu` measures a processor")
    return torch


def exactness(elements: int, sigma: str) -> dict[str, int]:
    """Compare the GPU's noise with the CPU's, element by element, for at least this many elements."""
    from ...noise import Sampler

    torch = torch_with_a_gpu()
    gpu, cpu = GpuSampler(Gaussian(sigma), InputPlacement("cuda:0")), Sampler(Gaussian(sigma))
    dimension, copies = 3072, 1 << 14
    compared = different = 0
    while compared < elements:
        bits = Keystream(bytes(range(32)), Purpose.ESTIMATION, compared)
        ours = gpu.noise(bits, compared % 1000, copies, dimension, sure=True)
        theirs = torch.from_numpy(np.array(cpu.noise(bits, compared % 1000, copies, dimension).levels)).cuda()
        different += int((ours.levels != theirs).sum())
        compared += copies * dimension
    return {"compared": compared, "different": different}
