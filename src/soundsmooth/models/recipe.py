"""How a fresh process makes a model again: from a graph's bytes, by the name of a factory, or from a pickle of ours."""

import os
import pickle
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .protocol import Model


class Graph(NamedTuple):
    """An ONNX model as one piece of bytes, and the digest that was promised for it."""

    content: bytes
    digest: str


class Factory(NamedTuple):
    """`package.module:factory`, and a file of weights."""

    name: str
    weights: str | None = None


@dataclass(frozen=True)
class Recipe:
    """The same model on the CPU, with one thread, in a process that knows neither key nor seed.

    The pickle is made and read by this program only: it is never stored, and never comes from a file.
    """

    pickled: bytes
    digest: str
    folder: str
    """Where the model's own modules were found."""

    def build(self) -> "Model":
        """Make the model; a ValueError if it is not the promised one."""
        from .load import model_of

        sys.path.insert(0, self.folder)
        source, options = pickle.loads(self.pickled)
        model = model_of(source, device="cpu", threads=1, independence="assumed", **options)
        if model.identity().digest != self.digest:
            raise ValueError("the fresh process makes another model than the one that was promised: its digest differs")
        return model


def recipe(source: object, digest: str, **options: Any) -> Recipe:
    """A recipe for what `model_of` makes of the source with these options; a ValueError if it cannot be sent."""
    try:
        pickled = pickle.dumps((source, options))
    except Exception as error:  # it is their object: anything can happen
        raise ValueError(
            f"independence cannot be measured, because the model cannot be made again in a fresh process "
            f"({type(error).__name__}: {error}): use a function or class at the top of a module, "
            f'"package.module:factory", or an .onnx file'
        ) from error
    return Recipe(pickled, digest, os.getcwd())
