"""How to make a smoother somewhere else: in another process, on another machine."""

import copy
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .exact import Rational
from .grid import IMAGES, Grid
from .machine import cores
from .models.load import is_torch_module
from .models.onnx_file import files_of
from .models.switches import set_switches, switches
from .noise import Law, law
from .runs.engine import Smoothing
from .smoother import Smoother, warn_if_large


@dataclass(frozen=True)
class Files:
    """Files of one folder, by their names there; the first one is the model."""

    contents: Mapping[str, bytes] = field(repr=False)

    def unpack(self, folder: Path) -> Path:
        for name, content in self.contents.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return folder / next(iter(self.contents))


@dataclass(frozen=True)
class Recipe:
    """A smoother's arguments in a form that can be sent: files as their bytes, a torch module on the CPU.

    What is built from it is compared with what was promised, digest and all, before it votes. A factory
    ("package.module:factory") is imported where it is called: that code must be installed there.
    """

    model: object
    sigma: Rational
    options: Mapping[str, Any]
    weights: Files | None = None
    switches: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, model: object, sigma: Rational, **options: Any) -> "Recipe":
        """The recipe for `Smoother(model, sigma, **options)`."""
        warn_if_large(sigma, options.get("grid", IMAGES))
        options = {name: value for name, value in options.items() if value is not None}
        options.pop("workers", None)
        path = Path(model) if isinstance(model, str | Path) and str(model).lower().endswith(".onnx") else None
        if path is not None:
            options.setdefault("threads", cores())
            return cls(Files(files_of(path)), sigma, options)
        if isinstance(model, str):
            _use_torch()
        if "threads" not in options and switches():
            options["threads"] = _torch_threads()
        weights = options.pop("weights", None)
        packed = None if weights is None else Files({Path(weights).name: Path(weights).read_bytes()})
        return cls(_movable(model, options), sigma, options, packed, switches())

    @property
    def law(self) -> Law:
        return law(self.sigma, self.options.get("k", 6), self.grid)

    @property
    def grid(self) -> Grid:
        grid: Grid = self.options.get("grid", IMAGES)
        return grid

    @property
    def on_gpu(self) -> bool:
        return str(self.options.get("device", "cpu")).startswith("cuda")

    @property
    def threads(self) -> int:
        """Threads of the model on the CPU: part of what is promised, so the same everywhere."""
        return int(self.options.get("threads", 1))

    def with_batch(self, batch: int) -> "Recipe":
        return replace(self, options={**self.options, "batch_size": batch})

    def build(self, gpu: int = 0) -> Smoothing:
        """Make the smoother, with one worker; on the GPU of that number if it was asked for on any."""
        set_switches(self.switches)
        options = dict(self.options) | ({"device": f"cuda:{gpu}"} if self.on_gpu else {})
        with tempfile.TemporaryDirectory() as name:  # read at once, and deleted
            folder = Path(name)
            model: Any = self.model.unpack(folder) if isinstance(self.model, Files) else self.model
            if self.weights is not None:
                options["weights"] = self.weights.unpack(folder)
            return Smoother(model, self.sigma, **options, workers=1).smoothing


def _use_torch() -> None:
    """Whoever names a factory probably means torch, whose number of threads is part of the promise."""
    with suppress(ImportError):
        import torch  # noqa: F401


def _torch_threads() -> int:
    import torch

    return torch.get_num_threads()


def _movable(model: object, options: dict[str, Any]) -> object:
    """A module that may be unpickled where there is no such GPU; `options` say where it is to run."""
    if not is_torch_module(model):
        return model
    module: Any = model
    first = next(module.parameters(), None)
    if first is not None:
        options.setdefault("device", first.device.type)
    return copy.deepcopy(module).cpu()
