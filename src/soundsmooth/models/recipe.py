"""How to make a model again, in another process or on another machine: what it is made from, and how.

Everything that has to leave this process as a model leaves it as a `ModelRecipe`: to the workers of an engine (within
`soundsmooth.recipe.SmootherRecipe`), and to the fresh process in which rows are voted alone (`row_voter`).
"""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .model_source import Factory, ModelSource, resolve
from .options import ModelOptions
from .protocol import Model
from .torch_flags import set_torch_flags

#: What can be made again elsewhere.
SENDABLE = 'use a function or class at the top of a module, "package.module:factory", or an .onnx file'


@dataclass(frozen=True)
class ModelRecipe:
    """What a model is made from, in a form that can be sent.

    If it is pickled on the way, then by this program and for this program: it is never stored, and never comes from a
    file. Rows are voted alone by what `frozen` holds: whatever the model remembers later is not in it.
    """

    make: Callable[[ModelSource, ModelOptions], Model]
    """An adapter's `of`, or `make_model`, which finds the adapter."""
    source: Any = field(repr=False)
    """An `OnnxBytes`, a `Factory`, a torch module on the CPU, or a function."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What `ModelOptions` says beside it."""
    torch_flags: Mapping[str, Any] = field(default_factory=dict)
    """torch's flags, to be set before the model is made."""
    digest: str | None = None
    """What the model's digest must be, if that is known."""

    def frozen(self) -> bytes:
        """The recipe as it is now; a ValueError if there is no way to send it."""
        try:
            return pickle.dumps(self)
        except Exception as error:  # it is their object: anything can happen
            raise ValueError(
                f"independence cannot be measured, because the model cannot be made again in a fresh process "
                f"({type(error).__name__}: {error}): {SENDABLE}"
            ) from error

    def build(self, **other: Any) -> Model:
        """Make the model, with other options where they are given; a ValueError if it is not the one that was meant."""
        set_torch_flags(self.torch_flags)
        options = ModelOptions(**{**self.options, **other})
        model = self.make(resolve(self.source, options), options)
        if self.digest is not None and model.identity().digest != self.digest:
            advice = "; a factory must make the same weights each time" if isinstance(self.source, Factory) else ""
            raise ValueError(f"another model was made here than the one that was promised: its digest differs{advice}")
        return model
