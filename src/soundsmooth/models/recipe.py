"""How to make a model again, in another process or on another machine: what it is made from, and how.

Everything that has to leave this process as a model leaves it as a `ModelRecipe`: to the workers of an engine (within
`soundsmooth.recipe.SmootherRecipe`), and to the fresh process in which rows are voted alone (`alone`).
"""

import copy
import pickle
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..machine import cores
from .torch_flags import set_torch_flags, torch_flags

if TYPE_CHECKING:
    from .protocol import Model


#: What can be made again elsewhere.
SENDABLE = 'use a function or class at the top of a module, "package.module:factory", or an .onnx file'


class Graph(NamedTuple):
    """An ONNX model as one piece of bytes, and the digest that is promised for it."""

    content: bytes
    digest: str


class Weights(NamedTuple):
    """A file of weights: its name and its bytes."""

    name: str
    content: bytes


class Factory(NamedTuple):
    """`package.module:factory`, and the weights that its product gets. Its code is imported where it is called."""

    name: str
    weights: Weights | None = None


@dataclass(frozen=True)
class ModelRecipe:
    """What `model_of` makes a model from, in a form that can be sent.

    If it is pickled on the way, then by this program and for this program: it is never stored, and never comes from a
    file. Rows are voted alone by what `frozen` holds: whatever the model remembers later is not in it.
    """

    source: object = field(repr=False)
    """A `Graph`, a `Factory`, a torch module on the CPU, or a function."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What `model_of` is told beside it."""
    torch_flags: Mapping[str, Any] = field(default_factory=dict)
    """torch's flags, to be set before the model is made."""
    digest: str | None = None
    """What the model's digest must be, if that is known."""

    @classmethod
    def of(cls, source: object, **options: Any) -> "ModelRecipe":
        """The recipe for `model_of(source, **options)`, without making the model: its files are read and sent."""
        from .load import factory_of, graph_of, is_torch_module

        options = {name: value for name, value in options.items() if value is not None}
        if (graph := graph_of(source)) is not None:
            options.setdefault("threads", cores())
            return cls(graph, options, digest=graph.digest)
        if (factory := factory_of(source, options.pop("weights", None))) is not None:
            _use_torch()
            source = factory
        if is_torch_module(source):
            source = _movable(source, options)
        if "threads" not in options and torch_flags():
            options["threads"] = _torch_threads()
        return cls(source, options, torch_flags())

    def frozen(self) -> bytes:
        """The recipe as it is now; a ValueError if there is no way to send it."""
        try:
            return pickle.dumps(self)
        except Exception as error:  # it is their object: anything can happen
            raise ValueError(
                f"independence cannot be measured, because the model cannot be made again in a fresh process "
                f"({type(error).__name__}: {error}): {SENDABLE}"
            ) from error

    def build(self, **other: Any) -> "Model":
        """Make the model, with other options where they are given; a ValueError if it is not the one that was meant."""
        from .load import model_of

        set_torch_flags(self.torch_flags)
        model = model_of(self.source, **{**self.options, **other})
        if self.digest is not None and model.identity().digest != self.digest:
            raise ValueError("another model was made here than the one that was promised: its digest differs")
        return model


def _use_torch() -> None:
    """Whoever names a factory probably means torch, whose number of threads is part of the promise."""
    with suppress(ImportError):
        import torch  # noqa: F401


def _torch_threads() -> int:
    return int(sys.modules["torch"].get_num_threads())


def _movable(module: Any, options: dict[str, Any]) -> object:
    """A module that may be unpickled where there is no such GPU; `options` say where it is to run."""
    first = next(module.parameters(), None)
    if first is not None:
        options.setdefault("device", first.device.type)
    return copy.deepcopy(module).cpu()
