"""Keras models, on any of its back ends, recognised by where their class is written: nothing is imported."""

import json
from functools import partial
from typing import Any

import numpy as np

from ..core.grid import Floats
from ..core.independence import Independence
from .callables import CallableModel, Scores
from .digest import ModelDigest, callable_digest
from .first_digest import full_name
from .model_source import Factory
from .options import ModelOptions
from .protocol import Identity, declared_classes

PACKAGES = ("keras", "tf_keras", "tensorflow")
#: What Keras numbers anew in each process.
NUMBERED = frozenset({"shared_object_id", "build_config"})
#: What has a name that is none of a layer: that of a precision is a part of what the layer computes.
PRECISION = "dtype"
OPEN_END = "a Keras model is named by its configuration and weights; the code of its layers is not in the digest"


class KerasModel(CallableModel):
    """A Keras model, called in inference mode with NumPy batches.

    Its digest is of its configuration, in which layers are numbered in their order, and of its weights. Keras's own
    objects change with each call, and their names with each process.
    """

    def __init__(self, source: Any, independence: str | Independence = "auto", made_by: Factory | None = None) -> None:
        super().__init__(source, independence, made_by)
        declared = getattr(source, "input_shape", None)
        sizes = declared[1:] if isinstance(declared, tuple) and declared else (None,)
        self.shape = tuple(sizes) if all(isinstance(size, int) for size in sizes) else None
        scores = getattr(source, "output_shape", None)
        self.classes = declared_classes(scores) if isinstance(scores, tuple) else None

    def identity(self) -> Identity:
        """As it is now: it may have been trained since it was given."""
        self._digest = self.digest_of(self._source)
        return super().identity()

    @classmethod
    def accepts(cls, source: object, options: ModelOptions) -> bool:
        written = {base.__module__.partition(".")[0] for base in type(source).__mro__}
        return not written.isdisjoint(PACKAGES) and hasattr(source, "get_weights") and callable(source)

    @classmethod
    def scores_of(cls, source: Any) -> Scores:
        if not getattr(source, "built", True):
            raise ValueError("the Keras model has no weights yet: begin it with keras.Input(shape), or call it once")
        return partial(_infer, source)

    @classmethod
    def digest_of(cls, source: Any) -> ModelDigest:
        config, names = _configuration(source), dict[str, str]()
        _number(config, names)
        weights = tuple(np.asarray(each) for each in source.get_weights())
        content = json.dumps(_renamed(config, names), sort_keys=True)
        return callable_digest((content, weights))._replace(open_ends=(OPEN_END,))


def _configuration(model: Any) -> Any:
    """What Keras writes of a model; of one whose class says nothing, the name of its class."""
    try:
        return json.loads(model.to_json())
    except (NotImplementedError, TypeError, ValueError):
        return full_name(type(model))


def _infer(model: Any, batch: Floats) -> Any:
    scores = model(batch, training=False)
    if isinstance(scores, dict | list | tuple):
        raise ValueError(
            "the Keras model has several outputs: make one of the one that votes, keras.Model(inputs, scores)"
        )
    return scores


def _number(config: Any, names: dict[str, str]) -> None:
    """Find the names of layers, in the order in which they come."""
    if isinstance(config, dict):
        name = config.get("name")
        if isinstance(name, str):
            names.setdefault(name, f"layer {len(names)}")
        config = [each for key, each in config.items() if key != PRECISION]
    for each in config if isinstance(config, list) else ():
        _number(each, names)


def _renamed(config: Any, names: dict[str, str]) -> Any:
    """The configuration with numbers for names, where they name layers: as `name`, and in lists, which say what goes in
    where. Elsewhere a word means what it says: a layer may be called "relu", and another one's activation is "relu".
    """
    if isinstance(config, dict):
        kept = {key: each for key, each in config.items() if key not in NUMBERED}
        words = {key for key, each in kept.items() if key == PRECISION or (isinstance(each, str) and key != "name")}
        return {key: each if key in words else _renamed(each, names) for key, each in kept.items()}
    if isinstance(config, list):
        return [_renamed(each, names) for each in config]
    return names.get(config, config) if isinstance(config, str) else config
