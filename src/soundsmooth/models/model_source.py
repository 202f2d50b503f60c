"""What users have (a module, a path, a function, a name), in a form from which adapters make models."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from .options import ModelOptions
from .weights import CHECKPOINTS, Weights, read_weights
from .wrappers import plain_copy

PICKLES = (*CHECKPOINTS, ".pt2", ".pkl", ".pickle", ".joblib")


class OnnxBytes(NamedTuple):
    """An ONNX model as one piece of bytes, and the digest that is promised for it."""

    content: bytes
    digest: str


class Factory(NamedTuple):
    """`package.module:factory`, and the weights that its product gets. Its code is imported where it is called."""

    name: str
    weights: Weights | None = None

    def make(self) -> object:
        """Import the factory and call it. This runs the module's code, with all your rights."""
        module_name, _, factory_name = self.name.partition(":")
        if not module_name or not factory_name:
            raise ValueError(f"cannot make a model from {self.name!r}: write package.module:factory")
        if module_name.endswith(".py"):
            raise ValueError(
                f"cannot make a model from {self.name!r}: write {module_name[:-3]}:{factory_name}, without .py"
            )
        model = self._call(module_name, factory_name)
        if self.weights is not None:
            _fill(model, self.weights)
        return model

    def _call(self, module_name: str, factory_name: str) -> object:
        try:
            sys.path.insert(0, "")
            factory: Callable[[], object] = getattr(importlib.import_module(module_name), factory_name)
            return factory()
        except Exception as error:  # it is their code: anything can happen
            hint = " (a factory takes no arguments, and returns the model)" if isinstance(error, TypeError) else ""
            raise ValueError(
                f"cannot make a model from {self.name!r}: {type(error).__name__}: {error}{hint}"
            ) from error
        finally:
            sys.path.remove("")


class ModelSource(NamedTuple):
    """What an adapter makes a model from: data or a Python object, and the factory that made it, if one did."""

    model: Any
    made_by: Factory | None = None


def resolve(source: object, options: ModelOptions) -> ModelSource:
    """Call the factory that `source` names, if it names one. Nobody's code runs for an untrusted model."""
    if is_data(source):
        return ModelSource(source)
    if options.untrusted:
        raise ValueError(
            "an untrusted model must be an .onnx file, which is data: Python code would run in this process, with all "
            "your rights, and could read the key"
        )
    made_by = factory_of(source, options.weights)
    if made_by is None:
        return ModelSource(with_weights(source, options.weights))
    return ModelSource(made_by.make(), made_by)


def is_data(source: object) -> bool:
    """A file, or the bytes of one: nothing that runs."""
    return isinstance(source, OnnxBytes) or is_path(source)


def is_path(source: object) -> TypeGuard[str | Path]:
    return isinstance(source, Path) or (isinstance(source, str) and not _names_a_factory(source))


def _names_a_factory(source: str) -> bool:
    """package.module:factory, and neither a path with a drive letter nor an address."""
    known = Path(source).suffix.lower() in (".onnx", *PICKLES)
    return ":" in source and not known and "/" not in source and "\\" not in source


def factory_of(source: object, weights: str | Path | None = None) -> Factory | None:
    """The factory that a name stands for, with its weights, read from their file; None for what is not a name."""
    if isinstance(source, Factory):
        return source
    if isinstance(source, str):
        return named_factory(source, weights)
    return None


def named_factory(name: str, weights: str | Path | None = None) -> Factory:
    return Factory(name, None if weights is None else read_weights(Path(weights)))


def with_weights(source: object, weights: str | Path | None) -> object:
    """A copy of a module with the weights of a file; the source itself without one."""
    if weights is None:
        return source
    file, filled = read_weights(Path(weights)), plain_copy(source) if is_torch_module(source) else source
    _fill(filled, file)
    return filled


def is_torch_module(source: object) -> bool:
    """Without importing torch: if it was never imported, nothing can be one of its modules."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.nn.Module)


def _fill(model: Any, weights: Weights) -> None:
    if not is_torch_module(model):
        raise ValueError("weights can be loaded into a torch.nn.Module only")
    weights.load_into(model)


def refuse_pickle(path: Path) -> None:
    """A ValueError for a file that would run its author's code."""
    if path.suffix.lower() in PICKLES:
        name, checkpoint = path.name, path.suffix.lower() in CHECKPOINTS
        in_python = f"ss.Smoother(network, …, weights={name!r}) in Python"
        weights = f"name the network and pass its weights, package.module:factory --weights {name} ({in_python}), or "
        raise ValueError(
            f"{name!r} is a pickle: loading it would run code chosen by whoever made it, so it is never loaded. "
            f"Instead {weights if checkpoint else ''}export the model (pip install onnxscript): "
            'torch.onnx.export(model.eval(), (example,), "model.onnx", input_names=["image"], '
            'dynamic_shapes=[{0: torch.export.Dim("batch")}], external_data=False)'
        )
