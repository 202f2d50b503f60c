"""From what a user has (a module, a path, a function, a name) to a model."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeGuard

from ..core.independence import Independence
from ..plain_files import read_plain
from .callables import CallableModel
from .isolated import IsolatedOnnxModel
from .onnx_file import OnnxModel, read_model
from .protocol import Model
from .recipe import Factory, Graph, Weights
from .torch_module import TorchModel, precision_name

PICKLES = (".pt", ".pth", ".pt2", ".pkl", ".pickle", ".ckpt", ".bin", ".tar", ".joblib")


def model_of(
    source: object,
    *,
    device: str | None = None,
    dtype: str | None = None,
    channels_last: bool = False,
    compile: str = "none",
    threads: int | None = None,
    independence: str | Independence = "auto",
    weights: str | Path | None = None,
    untrusted: bool = False,
    timeout: float | None = None,
) -> Model:
    """The model that `source` stands for: a torch.nn.Module, a path to .onnx, "package.module:factory", a callable.

    A pickled file is refused: loading it would run code that its author chose. An untrusted model is an ONNX file, and
    runs in a process of its own, which may take `timeout` seconds for a batch.
    """
    if timeout is not None and not untrusted:
        raise ValueError("timeout is for untrusted models, which run in a process of their own")
    is_graph = isinstance(source, Graph) or _is_path(source)
    if untrusted and not is_graph:
        raise ValueError(
            "an untrusted model must be an .onnx file, which is data: Python code would run in this process, with all "
            "your rights, and could read the key"
        )
    if is_graph:
        if weights is not None or channels_last or precision_name(dtype) != "float32" or compile != "none":
            raise ValueError(
                "an ONNX file holds its weights, layout and precision: leave weights, channels-last, dtype and "
                "compile out"
            )
        graph = graph_of(source)
        assert graph is not None
        if untrusted:
            return IsolatedOnnxModel(graph, device, threads, independence, timeout)
        return OnnxModel(graph, device, threads, independence)
    made_by = factory_of(source, weights)
    if made_by is not None:
        source = from_factory(made_by)
    if is_torch_module(source):
        return TorchModel(source, device, dtype, channels_last, threads, independence, compile, made_by)  # type: ignore[arg-type]
    if callable(source):
        if device not in (None, "cpu") or precision_name(dtype) != "float32" or channels_last or compile != "none":
            raise ValueError("a callable gets float32 batches in NumPy; device, dtype and the rest are its own affair")
        return CallableModel(source, independence, made_by)
    raise ValueError(
        f"a model is a torch.nn.Module, a path to an .onnx file or a callable, not {type(source).__name__}"
    )


def graph_of(source: object) -> Graph | None:
    """The graph that a path to an .onnx file stands for, read from it; None for what is not a path."""
    if isinstance(source, Graph):
        return source
    if not _is_path(source):
        return None
    _refuse_pickle(Path(source))
    if Path(source).suffix.lower() != ".onnx":
        swapped = "; the model comes first, then the data" if Path(source).suffix == ".npz" else ""
        raise ValueError(f"{str(source)!r} is neither an .onnx file nor package.module:factory{swapped}")
    return Graph(*read_model(Path(source)))


def factory_of(source: object, weights: str | Path | None = None) -> Factory | None:
    """The factory that a name stands for, with its weights, read from their file; None for what is not a name."""
    if isinstance(source, Factory):
        return source
    if isinstance(source, str):
        return named_factory(source, weights)
    if weights is not None:
        raise ValueError('weights go with a "package.module:factory" model only')
    return None


def named_factory(name: str, weights: str | Path | None = None) -> Factory:
    return Factory(name, None if weights is None else _read_weights(Path(weights)))


def _is_path(source: object) -> TypeGuard[str | Path]:
    return isinstance(source, Path) or (isinstance(source, str) and not _names_a_factory(source))


def _names_a_factory(source: str) -> bool:
    """package.module:factory, and neither a path with a drive letter nor an address."""
    known = Path(source).suffix.lower() in (".onnx", *PICKLES)
    return ":" in source and not known and "/" not in source and "\\" not in source


def is_torch_module(source: object) -> bool:
    """Without importing torch: if it was never imported, nothing can be one of its modules."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.nn.Module)


def from_factory(made_by: Factory) -> object:
    """Import `package.module:factory` and call it. This runs the module's code, with all your rights."""
    name = made_by.name
    module_name, _, factory_name = name.partition(":")
    if not module_name or not factory_name:
        raise ValueError(f"cannot make a model from {name!r}: write package.module:factory")
    if module_name.endswith(".py"):
        raise ValueError(f"cannot make a model from {name!r}: write {module_name[:-3]}:{factory_name}, without .py")
    try:
        sys.path.insert(0, "")
        factory: Callable[[], Any] = getattr(importlib.import_module(module_name), factory_name)
        model: object = factory()
    except Exception as error:  # it is their code: anything can happen
        hint = " (a factory takes no arguments, and returns the model)" if isinstance(error, TypeError) else ""
        raise ValueError(f"cannot make a model from {name!r}: {type(error).__name__}: {error}{hint}") from error
    finally:
        sys.path.remove("")
    if made_by.weights is not None:
        _load_weights(model, made_by.weights)
    return model


def _read_weights(path: Path) -> Weights:
    if path.suffix != ".safetensors":
        _refuse_pickle(path)
        raise ValueError(f"weights must be a .safetensors file, not {str(path)!r}")
    return Weights(path.name, read_plain(path, "weights file"))


def _load_weights(model: object, weights: Weights) -> None:
    if not is_torch_module(model):
        raise ValueError("weights can be loaded into a torch.nn.Module only")
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load
    except ImportError:
        raise ValueError("weights need safetensors: pip install 'soundsmooth[torch]'") from None

    try:
        model.load_state_dict(load(weights.content))  # type: ignore[attr-defined]
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(f"{weights.name!r} does not fit the model: {error}") from error


def _refuse_pickle(path: Path) -> None:
    if path.suffix.lower() in PICKLES:
        raise ValueError(
            f"{path.name!r} is a pickle: loading it would run code chosen by whoever made it, so it is never loaded. "
            "Export the model instead (pip install onnxscript): torch.onnx.export(model.eval(), (example,), "
            '"model.onnx", input_names=["image"], '
            'dynamic_shapes=[{0: torch.export.Dim("batch")}], external_data=False), or save the weights alone with '
            'safetensors.torch.save_file(model.state_dict(), "model.safetensors") and pass --weights'
        )
