"""From what a user has (a module, a path, a function, a name) to a model, or to a recipe for it."""

import importlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .model_source import ModelSource, factory_of, is_data, is_path, refuse_pickle, resolve, with_weights
from .options import ModelOptions
from .protocol import Model
from .recipe import ModelRecipe
from .registry import ADAPTERS
from .torch_flags import torch_flags


def model_of(source: object, **options: Any) -> Model:
    """The model that `source` stands for: a torch.nn.Module, a path to .onnx, "package.module:factory", a callable.

    The options are those of `ModelOptions`. A pickled file is refused: loading it would run code that its author chose.
    An untrusted model is an ONNX file, and runs in a process of its own, which may take `timeout` seconds for a batch.
    """
    chosen = ModelOptions(**options)
    return make_model(resolve(source, chosen), chosen)


def make_model(source: ModelSource, options: ModelOptions) -> Model:
    """By the first adapter that accepts the source."""
    return adapter_for(source.model, options).of(source, options)


def adapter_for(source: object, options: ModelOptions) -> type[Model]:
    """A ValueError that says what a model is, if no adapter accepts the source."""
    for adapter in ADAPTERS:
        if adapter.accepts(source, options):
            return adapter
    if is_path(source):
        refuse_pickle(Path(source))
        swapped = "; the model comes first, then the data" if Path(source).suffix == ".npz" else ""
        raise ValueError(f"{str(source)!r} is neither an .onnx file nor package.module:factory{swapped}")
    weights = "; weights go into a network: network.load_state_dict(…)" if isinstance(source, Mapping) else ""
    raise ValueError(
        f"a model is a torch.nn.Module, a path to an .onnx file or a callable, not {type(source).__name__}{weights}"
    )


def recipe_of(source: object, **options: Any) -> ModelRecipe:
    """The recipe for `model_of(source, **options)`, without making the model: its files are read and sent."""
    given = {name: value for name, value in options.items() if value is not None}
    weights = None if is_data(source) else given.pop("weights", None)
    factory = None if is_data(source) else factory_of(source, weights)
    if factory is not None:
        with suppress(ImportError):  # a factory is probably one of torch, whose number of threads is promised
            importlib.import_module("torch")
        return _of_code(factory, given)
    adapter = adapter_for(source, ModelOptions(**given))
    sent = adapter.sendable(with_weights(source, weights), given)
    return ModelRecipe(make_model, sent, given) if adapter.kind.binding else _of_code(sent, given)


def _of_code(source: object, options: dict[str, Any]) -> ModelRecipe:
    """Python code may use torch, so torch's flags and its number of threads travel with it."""
    flags = torch_flags()
    if flags:
        options.setdefault("threads", int(sys.modules["torch"].get_num_threads()))
    return ModelRecipe(make_model, source, options, flags)
