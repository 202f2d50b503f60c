"""`soundsmooth bench cpu`: the cost of exact noise and proved bounds on a processor, beside common practice."""

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ... import embedded
from ...certification.promise import Inputs, secret
from ...certification.settings import settings
from ...core.grid import IMAGES
from ...data.load import load
from ...exact import breakpoint_floors, clopper_pearson_below, radius_below
from ...models.onnx_file import OnnxModel
from ...noise import Gaussian, Keystream, Purpose, Sampler
from ...noise.tables import build_tables
from ...runs.run import certify_inputs
from ...smoothing.classifier import CPU_BATCH, Smoothing
from ..unsound import UnsoundStandard
from .pairs import Ratio, compare, milliseconds

SIGMAS = ("0.12", "0.25", "0.5", "1")
SHAPE = (1000, 3, 32, 32)
COPIES = 5000


def run_cpu(console: Console) -> None:
    """Measure, show a table, and end with one line of JSON."""
    torch = _torch()
    noise = {sigma: noise_against_randn(torch, sigma) for sigma in SIGMAS}
    mean = float(np.exp(np.mean([np.log(ratio.median) for ratio in noise.values()])))
    whole = sound_against_standard(torch)
    bound, table = bound_milliseconds(), table_milliseconds()

    shown = Table(title="soundsmooth on this processor", title_justify="left")
    shown.add_column("what")
    shown.add_column("measured")
    for sigma, ratio in noise.items():
        shown.add_row(f"torch.randn·σ + x over exact noise, one thread, σ = {sigma}", str(ratio))
    shown.add_row("the same, geometric mean", f"{mean:.3f}")
    shown.add_row("sound over standard certification, embedded model", str(whole))
    shown.add_row("proved bound and radius, n = 100 000", f"{bound:.2f} ms")
    shown.add_row("breakpoints and tables, cold, k = 6", f"{table:.1f} ms")
    console.print(shown)
    result = {
        "noise_randn_ratio": {sigma: round(ratio.median, 4) for sigma, ratio in noise.items()},
        "noise_randn_mean": round(mean, 4),
        "sound_standard_ratio": round(whole.median, 4),
        "bound_ms": round(bound, 3),
        "table_ms": round(table, 2),
        "intervals": {sigma: _interval(ratio) for sigma, ratio in noise.items()}
        | {"sound_standard_ratio": _interval(whole)},
    }
    print(json.dumps(result))


def noise_against_randn(torch: Any, sigma: str) -> Ratio:
    """Time of `torch.randn(...) * σ + x` over time of our noise with add, clamp and scale; above 1 we are faster."""
    x = np.random.default_rng(0).integers(0, 256, SHAPE[1:]).astype(np.int16)
    image, deviation = torch.from_numpy(IMAGES.values(x)), float(sigma)
    sampler, bits = Sampler(Gaussian(sigma), threads=1), Keystream(bytes(32), Purpose.ESTIMATION, 0)
    return _on_one_thread(
        torch,
        lambda: compare(
            lambda: torch.randn(SHAPE) * deviation + image,
            lambda: sampler.noisy(bits, x, 0, SHAPE[0]),
        ),
    )


def sound_against_standard(torch: Any) -> Ratio:
    """Time of our certification, fresh noise, over that of Algorithm 1 with torch's noise: same model, n and batch."""
    sigma = Fraction(1, 4)
    model = OnnxModel(embedded.MODELS[sigma])
    smoothing = Smoothing.of(model, Gaussian(sigma))
    images = load(embedded.IMAGES, limit=1)
    chosen = settings(n=COPIES)
    image = torch.from_numpy(IMAGES.values(images.levels[0]))
    standard = UnsoundStandard(_scores(torch, model), 10, sigma, backend="torch")
    # torch draws on one thread anyway; more of them only get in the way of onnxruntime's, and the field would lose 3x.
    return _on_one_thread(
        torch,
        lambda: compare(
            lambda: _certify(smoothing, images, chosen),
            lambda: standard.certify(image, n0=chosen.n0, n=chosen.n, batch_size=CPU_BATCH),
            seconds=240,
        ),
    )


def _certify(smoothing: Smoothing, images: Inputs, chosen: Any) -> None:
    certify_inputs(smoothing, images, chosen, secret()).close()


def _scores(torch: Any, model: OnnxModel) -> Callable[[Any], Any]:
    return lambda batch: torch.from_numpy(model.scores(batch.numpy()))


def bound_milliseconds() -> float:
    """The slowest of several counts, since the tail's length depends on the count."""
    n, alpha, sigma = 100_000, Fraction(1, 1000), Fraction(1, 4)
    counts = (50_600, 60_000, 75_000, 90_000, 99_000, 99_990, 100_000)
    return max(milliseconds(lambda c=c: radius_below(clopper_pearson_below(c, n, alpha), sigma)) for c in counts)  # type: ignore[misc]


def table_milliseconds() -> float:
    """Time to prove all breakpoints and build the tables, with empty caches; the slowest σ."""
    return max(milliseconds(lambda s=s: cold_table(Gaussian(s)), 5) for s in SIGMAS)  # type: ignore[misc]


def cold_table(a_law: Gaussian) -> None:
    """Prove all breakpoints and build the tables, with empty caches."""
    build_tables(a_law, breakpoint_floors(a_law.sigma, a_law.grid.q, a_law.reach, 32))


def _on_one_thread(torch: Any, action: Callable[[], Ratio]) -> Ratio:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return action()
    finally:
        torch.set_num_threads(before)


def _interval(ratio: Ratio) -> list[float]:
    return [round(ratio.low, 4), round(ratio.high, 4)]


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise ValueError("the comparison needs torch: pip install 'soundsmooth[torch]'") from None
    return torch
